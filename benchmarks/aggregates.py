"""Aggregates by key in windows of a minute, from Parquet, beside polars over the same files.

10 million records of 100 keys, a minute of record time each million. Ours reads 100,000 a window, with
checkpoints on. polars reads all files at once, with all cores: a query over what lies there, and no stream.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.frame import OURS, WARM_UP, Benchmark, Figures, Goal, Round
from benchmarks.throughput import RATE, Latest, rates_of_ours
from ridgeline import Application
from ridgeline.operators import FileReplayInput, aggregate, tumbling

FILE_ROWS, MEASURED, KEYS = 100_000, 100, 100
FILES = MEASURED + WARM_UP + 2
ROWS = FILES * FILE_ROWS
MICROSECONDS = 60
"""Between two records: a million of them take a minute."""
BEGIN = 1_767_225_600_000_000
READINGS = pa.schema([("key", pa.int64()), ("value", pa.float64()), ("time", pa.timestamp("us", "UTC"))])
VALUES = {
    "sums": {"mean": aggregate.mean("value"), "result": aggregate.sum("value")},
    "quantiles": {"result": aggregate.quantile("value", 0.95)},
    "sketches": {"result": aggregate.quantile("value", 0.95, exact=False)},
    "spread": {"result": aggregate.stddev("value")},
    "distinct": {"result": aggregate.count_unique("value")},
}
"""The last one is compared."""
GOALS = {"sums": 0.03, "quantiles": 0.15, "sketches": 0.1, "spread": 0.02, "distinct": 0.05}
"""polars has no windows that end, no state and no commits; a guard against getting slower."""
TOLERANCE = {"sketches": 0.05}


def ours(of_round: Round, what: str) -> Figures:
    """One process."""
    app = Application("aggregates", window=0)
    source = FileReplayInput(
        path=of_round.data,
        schema=READINGS,
        format="parquet",
        rows_per_window=FILE_ROWS,
        timestamp="time",
        lateness=0,
    )
    minutes = app.read("readings", source).group_by("key").window(tumbling("1m"))
    minutes.aggregate("minutes", **VALUES[what]).write("latest", Latest())
    windows = of_round.windows(MEASURED)
    figures = rates_of_ours(of_round, app, windows, lambda _window: FILE_ROWS)
    found = {(key, start): values for (key, start, *_), values in Latest.found.items()}
    expected = dict(_by_polars(of_round.data, what))
    for name, value in found.items():
        if abs(value - expected[name]) > TOLERANCE.get(what, 1e-9) * abs(expected[name]):
            msg = f"{what} of {name} must be {expected[name]}; got {value}"
            raise ValueError(msg)
    of_round.note(f"{len(found)} windows, all as of polars")
    return figures


def _by_polars(folder: Path, what: str) -> Iterator[tuple[tuple[Any, Any], float]]:
    import polars as pl

    value = pl.col("value")
    aggregates = {
        "sums": [value.mean().alias("mean"), value.sum().alias("result")],
        "quantiles": [value.quantile(0.95, "linear").alias("result")],
        "spread": [value.std().alias("result")],
        "distinct": [value.n_unique().cast(pl.Int64).alias("result")],
    }
    aggregates["sketches"] = aggregates["quantiles"]
    start = pl.col("time").dt.truncate("1m").alias("start")
    query = pl.scan_parquet(folder / "*.parquet").group_by("key", start).agg(aggregates[what])
    for key, begin, *_, result in query.collect().rows():
        yield (key, begin), result


def polars(of_round: Round, what: str) -> Figures:
    """The second run of the query: in the first one it reads its libraries."""
    for _ in _by_polars(of_round.data, what):
        pass
    began = time.perf_counter()
    found = list(_by_polars(of_round.data, what))
    seconds = time.perf_counter() - began
    of_round.note(f"{len(found)} windows in {seconds:.2f} s")
    return {RATE: [ROWS / seconds]}


def _prepare(of_round: Round) -> None:
    of_round.data.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(7)
    for number in range(FILES):
        first = number * FILE_ROWS
        columns = [
            pa.array(random.integers(0, KEYS, FILE_ROWS)),
            pa.array(random.normal(100, 15, FILE_ROWS).round(2)),
            pa.array(BEGIN + (first + np.arange(FILE_ROWS)) * MICROSECONDS).cast(READINGS.field("time").type),
        ]
        pq.write_table(pa.table(columns, schema=READINGS), of_round.data / f"{number:06d}.parquet")


BENCHMARKS = tuple(
    Benchmark(
        name=f"aggregates-{what}",
        title=f"{what} of 100 keys in windows of a minute, 10 million records from Parquet",
        contestants={OURS: partial(ours, what=what), "polars": partial(polars, what=what)},
        goals=(Goal(figure=RATE, against="polars", at_least=GOALS[what]),),
        prepare=_prepare,
        part_of_all=False,
    )
    for what in VALUES
)
