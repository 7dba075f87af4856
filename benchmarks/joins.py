"""Joins and deduplication by key, from Parquet, beside polars over the same files.

10 million records, 100,000 a window, with checkpoints on. polars reads all files at once, with all cores: a
query over what lies there, without windows, state or commits.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.frame import OURS, WARM_UP, Benchmark, Figures, Goal, Round
from benchmarks.throughput import RATE, Totalled, Totals, check, rates_of_ours
from ridgeline import Application, InputPort, Stream
from ridgeline.operators import FileReplayInput

FILE_ROWS, MEASURED, KEYS = 100_000, 100, 100_000
FILES = MEASURED + WARM_UP + 2
ROWS = FILES * FILE_ROWS
MICROSECONDS = 10
"""Between two records: a window has a second of record time."""
BEGIN = 1_767_225_600_000_000
EVENTS = pa.schema([("key", pa.int64()), ("id", pa.int64()), ("time", pa.timestamp("us", "UTC"))])
TABLE = pa.schema([("key", pa.int64()), ("country", pa.string())])
GOALS = {"deduplicate": 0.02, "table-join": 0.02, "within-join": 0.005}
"""A guard against getting slower."""


class Rows(Totalled):
    """Counts rows at the driver."""

    data = InputPort(Any, parallel=True)

    @data.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Hand the number over."""
        self.context.hand_over({"rows": len(batch)})


def ours(of_round: Round, what: str) -> Figures:
    """One process."""
    app = Application("joins", window=0)
    events = _read(app, of_round.data, "events")
    if what == "deduplicate":
        found = events.deduplicate("found", key="id")
    elif what == "table-join":
        rows = FileReplayInput(path=of_round.data / "table", schema=TABLE, format="parquet")
        found = events.join("found", app.read("rows", rows).table("table", key="key"), how="left")
    else:
        others = _read(app, of_round.data, "others")
        found = events.join_within("found", others, on="key", within="500ms")
    found.write("counted", Rows())
    windows = of_round.windows(MEASURED)
    sides = 2 if what == "within-join" else 1
    figures = rates_of_ours(of_round, app, windows, lambda _window: sides * FILE_ROWS)
    if not of_round.quick and what != "within-join":
        check(what, Totals.found, {"rows": windows * FILE_ROWS})
    of_round.note(f"{Totals.found['rows']:,} rows")
    return figures


def _read(app: Application, folder: Path, name: str) -> Stream[Any]:
    source = FileReplayInput(
        path=folder / name,
        schema=EVENTS,
        format="parquet",
        rows_per_window=FILE_ROWS,
        timestamp="time",
        lateness=0,
    )
    return app.read(name, source)


def _by_polars(folder: Path, what: str) -> int:
    import polars as pl

    events = pl.scan_parquet(folder / "events" / "*.parquet")
    if what == "deduplicate":
        query = events.unique("id", keep="first")
    elif what == "table-join":
        query = events.join(pl.scan_parquet(folder / "table" / "*.parquet"), on="key", how="left")
    else:
        others = pl.scan_parquet(folder / "others" / "*.parquet")
        # pairs lie within the same or the next half second
        half = pl.col("time").dt.truncate("500ms").alias("half")
        near = [others.with_columns(half.dt.offset_by(by)) for by in ("-500ms", "0ms", "500ms")]
        joined = events.with_columns(half).join(pl.concat(near), on=["key", "half"])
        query = joined.filter((pl.col("time") - pl.col("time_right")).abs() <= pl.duration(milliseconds=500))
    return len(query.collect())


def polars(of_round: Round, what: str) -> Figures:
    """The second run of the query: in the first one it reads its libraries."""
    _by_polars(of_round.data, what)
    began = time.perf_counter()
    rows = _by_polars(of_round.data, what)
    seconds = time.perf_counter() - began
    of_round.note(f"{rows:,} rows in {seconds:.2f} s")
    return {RATE: [ROWS * (2 if what == "within-join" else 1) / seconds]}


def _prepare(of_round: Round) -> None:
    random = np.random.default_rng(7)
    for name in ("events", "others"):
        (of_round.data / name).mkdir(parents=True, exist_ok=True)
        for number in range(FILES):
            first = number * FILE_ROWS
            times = pa.array(BEGIN + (first + np.arange(FILE_ROWS)) * MICROSECONDS)
            columns = [
                pa.array(random.integers(0, KEYS, FILE_ROWS)),
                pa.array(random.permutation(FILE_ROWS) + first),
                times.cast(EVENTS.field("time").type),
            ]
            pq.write_table(pa.table(columns, schema=EVENTS), of_round.data / name / f"{number:06d}.parquet")
    (of_round.data / "table").mkdir(exist_ok=True)
    countries = pa.array([f"c{key % 200}" for key in range(KEYS)])
    rows = pa.table([pa.array(np.arange(KEYS)), countries], schema=TABLE)
    pq.write_table(rows, of_round.data / "table" / "000000.parquet")


BENCHMARKS = tuple(
    Benchmark(
        name=name,
        title=f"{title}, 10 million records from Parquet",
        contestants={OURS: partial(ours, what=name), "polars": partial(polars, what=name)},
        goals=(Goal(figure=RATE, against="polars", at_least=GOALS[name]),),
        prepare=_prepare,
        part_of_all=False,
    )
    for name, title in {
        "deduplicate": "the first of each of 10 million keys",
        "table-join": "a stream with a table of 100,000 rows",
        "within-join": "two streams of 100,000 keys, half a second apart at most",
    }.items()
)
