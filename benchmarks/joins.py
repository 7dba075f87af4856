"""Joins and deduplication by key, from Parquet, beside polars, native Spark and Bytewax over the same files.

10 million records, 100,000 a window, with checkpoints on. polars reads all files at once, with all cores: a
query over what lies there, without windows, state or commits. Native Spark has fewer windows, and Bytewax
fewer records, which are Python tuples before the time is taken: a rate is what counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import spark
from benchmarks.frame import OURS, WARM_UP, Benchmark, Figures, Goal, Round
from benchmarks.throughput import RATE, Totalled, Totals, check, rates_of_ours, slow_windows
from ridgeline import Application, InputPort, Stream
from ridgeline.api.context import OperatorContext
from ridgeline.operators import FileReplayInput

FILE_ROWS, MEASURED, KEYS = 100_000, 100, 100_000
FILES = MEASURED + WARM_UP + 2
QUICK_FILES = 16
MICROSECONDS = 10
"""Between two records: a window has a second of record time."""
NEAR = 500_000
BEGIN = 1_767_225_600_000_000
EVENTS = pa.schema([("key", pa.int64()), ("id", pa.int64()), ("time", pa.timestamp("us", "UTC"))])
TABLE = pa.schema([("key", pa.int64()), ("country", pa.string())])
GOALS = {"deduplicate": 0.05, "table-join": 0.02, "within-join": 0.2}
"""A guard against getting slower."""


BYTEWAX_FILES = 4


class Rows(Totalled):
    """Counts rows at the driver, and by how much the memory of its process has grown."""

    data = InputPort(Any, parallel=True)

    def setup(self, context: OperatorContext) -> None:
        """What the process had before."""
        self.highest = [_megabytes()]

    @data.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Hand the numbers over."""
        now = _megabytes()
        self.context.hand_over({"rows": len(batch), "MB": now - self.highest[0]})
        self.highest[0] = now


def _megabytes() -> int:
    return getrusage(RUSAGE_SELF).ru_maxrss // 1024


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
        check(what, {"rows": Totals.found["rows"]}, {"rows": windows * FILE_ROWS})
    of_round.note(f"{Totals.found['rows']:,} rows; the process grew by {Totals.found['MB']:,} MB")
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
    return {RATE: [_files(of_round) * FILE_ROWS * (2 if what == "within-join" else 1) / seconds]}


def native(of_round: Round, what: str) -> Figures:
    """Structured Streaming, state in RocksDB; one file a micro-batch, of each side."""
    session = spark.session("joins", spark.ROCKS)

    def read(name: str) -> Any:
        rows = session.readStream.schema("key long, id long, time timestamp").option("maxFilesPerTrigger", 1)
        return rows.parquet(str(of_round.data / name))

    events = read("events")
    if what == "deduplicate":
        found = events.dropDuplicates(["id"])
    elif what == "table-join":
        found = events.join(session.read.parquet(str(of_round.data / "table")), "key", "left")
    else:
        left = events.withWatermark("time", "0 seconds").alias("l")
        right = read("others").withWatermark("time", "0 seconds").alias("r")
        half = "interval 500 milliseconds"
        near = f"l.key = r.key and l.time >= r.time - {half} and l.time <= r.time + {half}"
        found = left.join(right, spark_sql(near)).select("l.key", "l.id", "r.id")
    measured, warm = slow_windows(of_round)
    rows = 0

    def each(batch: Any, _number: int) -> None:
        nonlocal rows
        rows += len(batch.toArrow())

    times = spark.batch_times(of_round, found, measured + warm - 1, each)
    of_round.note(f"{rows:,} rows")
    sides = 2 if what == "within-join" else 1
    return {RATE: [sides * FILE_ROWS / seconds for seconds in times[warm:]]}


def spark_sql(text: str) -> Any:
    """An expression of Spark."""
    from pyspark.sql.functions import expr

    return expr(text)


def bytewax(of_round: Round, what: str) -> Figures:
    """A tuple after the other: (key, (side, id, time)). Raises ValueError for another number of results."""
    import bytewax.operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.testing import TestingSink, TestingSource, run_main

    def items(name: str, side: int) -> list[Any]:
        paths = [of_round.data / name / f"{number:06d}.parquet" for number in range(BYTEWAX_FILES)]
        table = pq.read_table(paths)
        times = table["time"].cast(pa.int64()).to_pylist()
        keys, ids = table["key"].to_pylist(), table["id"].to_pylist()
        named = map(str, ids if what == "deduplicate" else keys)
        return [(key, (side, number, at)) for key, number, at in zip(named, ids, times, strict=True)]

    rows = items("events", 0)
    if what == "within-join":
        rows = [row for pair in zip(rows, items("others", 1), strict=True) for row in pair]
    flow, out = Dataflow("joins"), list[Any]()
    stream = op.input("in", flow, TestingSource(rows, batch_size=1_000))
    if what == "deduplicate":
        firsts = op.stateful_flat_map("first", stream, lambda seen, row: (True, () if seen else (row,)))
        op.output("out", firsts, TestingSink(out))
    elif what == "table-join":
        table = pq.read_table(of_round.data / "table")
        known = dict(zip(map(str, table["key"].to_pylist()), table["country"].to_pylist(), strict=True))
        op.output("out", op.map("join", stream, lambda row: (*row, known.get(row[0]))), TestingSink(out))
    else:
        op.output("out", op.stateful_flat_map("near", stream, near), TestingSink(out))
    run: Any = run_main
    began = time.perf_counter()
    run(flow)
    seconds = time.perf_counter() - began
    if what != "within-join":
        check(what, {"rows": len(out)}, {"rows": len(rows)})
    of_round.note(f"{len(out):,} rows in {seconds:.2f} s")
    return {RATE: [len(rows) / seconds]}


Held = tuple[list[Any], list[Any]]


def near(held: Held | None, row: Any) -> tuple[Held, Iterable[Any]]:
    """The records of a key that are held, and those of the other side that are near to a new one."""
    side, number, at = row
    sides = tuple([one for one in rows if one[1] >= at - NEAR] for rows in held) if held else ([], [])
    found = [(number, other) for other, _ in sides[1 - side]]
    sides[side].append((number, at))
    return (sides[0], sides[1]), found


def _files(of_round: Round) -> int:
    """How many files there are of each side."""
    return QUICK_FILES if of_round.quick else FILES


def _prepare(of_round: Round) -> None:
    random = np.random.default_rng(7)
    for name in ("events", "others"):
        (of_round.data / name).mkdir(parents=True, exist_ok=True)
        for number in range(_files(of_round)):
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
        contestants={
            who: partial(run, what=name)
            for who, run in {OURS: ours, "polars": polars, "native": native, "Bytewax": bytewax}.items()
        },
        goals=[
            Goal(figure=RATE, against="polars", at_least=GOALS[name]),
            Goal(figure=RATE, against="native", at_least=1.0),
            Goal(figure=RATE, against="Bytewax", at_least=1.0),
        ],
        prepare=_prepare,
        part_of_all=False,
        budget_seconds=300,
    )
    for name, title in {
        "deduplicate": "the first of each of 10 million keys",
        "table-join": "a stream with a table of 100,000 rows",
        "within-join": "two streams of 100,000 keys, half a second apart at most",
    }.items()
)
