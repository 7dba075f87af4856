"""Aggregates by key in windows of a minute, from Parquet, beside polars, native Spark and Bytewax.

10 million records of 100 keys, a minute of record time each million. Ours reads 100,000 a window, with
checkpoints on. polars reads all files at once, with all cores: a query over what lies there, and no stream.
Native Spark has fewer windows, and Bytewax fewer records: a rate is what counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import spark
from benchmarks.frame import OURS, WARM_UP, Benchmark, Figures, Goal, Round
from benchmarks.throughput import RATE, Latest, rates_of_ours, slow_windows
from ridgeline import Application
from ridgeline.operators import FileReplayInput, aggregate, tumbling

FILE_ROWS, MEASURED, KEYS = 100_000, 100, 100
FILES = MEASURED + WARM_UP + 2
BYTEWAX_FILES = 12
QUICK_FILES = 24
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
    _check(of_round, what, found)
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
    return {RATE: [_files(of_round) * FILE_ROWS / seconds]}


def native(of_round: Round, what: str) -> Figures:
    """Structured Streaming in append mode, state in RocksDB; one file a micro-batch."""
    from pyspark.sql import functions as of

    session = spark.session("aggregates", spark.ROCKS)
    value = {
        "sums": [of.mean("value").alias("mean"), of.sum("value").alias("result")],
        "quantiles": [of.expr("percentile(value, 0.95)").alias("result")],
        "sketches": [of.expr("approx_percentile(value, 0.95, 200)").alias("result")],
        "spread": [of.stddev("value").alias("result")],
        "distinct": [of.expr("size(collect_set(value))").alias("result")],
    }[what]
    rows = (
        session.readStream.schema("key long, value double, time timestamp")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(of_round.data))
        .withWatermark("time", "0 seconds")
    )
    minutes = rows.groupBy("key", of.window("time", "1 minute")).agg(*value)
    results = minutes.select("key", of.col("window.start").alias("start"), "result")
    found: dict[Any, float] = {}

    def each(closed: Any, _number: int) -> None:
        for row in closed.toArrow().to_pylist():
            found[row["key"], row["start"].astimezone(UTC)] = row["result"]

    measured, warm = slow_windows(of_round)
    times = spark.batch_times(of_round, results, measured + warm - 1, each)
    _check(of_round, what, found)
    return {RATE: [FILE_ROWS / seconds for seconds in times[warm:]]}


def _check(of_round: Round, what: str, found: dict[Any, float]) -> None:
    """Raise ValueError if a result differs from that of polars."""
    expected = dict(_by_polars(of_round.data, what))
    for name, value in found.items():
        if abs(value - expected[name]) > TOLERANCE.get(what, 1e-9) * abs(expected[name]):
            raise ValueError(f"{what} of {name} must be {expected[name]}; got {value}")
    of_round.note(f"{len(found)} windows, all as of polars")


def bytewax(of_round: Round, what: str) -> Figures:
    """The values of each minute are collected, a Python tuple after the other, and numpy reduces them."""
    import bytewax.operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.operators import windowing
    from bytewax.testing import TestingSink, TestingSource, run_main

    reduced: Any = {
        "sums": np.sum,
        "quantiles": partial(np.quantile, q=0.95),
        "sketches": partial(np.quantile, q=0.95),
        "spread": partial(np.std, ddof=1),
        "distinct": lambda values: len(set(values)),
    }[what]
    table = pq.read_table([of_round.data / f"{number:06d}.parquet" for number in range(BYTEWAX_FILES)])
    times = [at.astimezone(UTC) for at in table["time"].to_pylist()]
    rows = [
        (str(key), (value, at))
        for key, value, at in zip(table["key"].to_pylist(), table["value"].to_pylist(), times, strict=True)
    ]
    flow, out = Dataflow("aggregates"), list[Any]()
    stream = op.input("in", flow, TestingSource(rows, batch_size=1_000))
    start = datetime.fromtimestamp(BEGIN / 1_000_000, UTC)
    clock: Any = windowing.EventClock(
        lambda item: item[1],
        timedelta(seconds=1),
        now_getter=lambda: start,  # it would overtake the records of a slow run, and drop them as late
        to_system_utc=lambda _: None,
    )
    minute = timedelta(minutes=1)
    minutes = windowing.TumblingWindower(length=minute, align_to=start)
    lists = windowing.collect_window("minutes", stream, clock, minutes)
    results = op.map_value("reduced", lists.down, lambda one: (one[0], reduced([row[0] for row in one[1]])))
    op.output("out", results, TestingSink(out))
    run: Any = run_main
    began = time.perf_counter()
    run(flow)
    seconds = time.perf_counter() - began
    last = times[-1].replace(second=0, microsecond=0)  # of which there may be more in the files
    found = {(int(key), start + number * minute): value for key, (number, value) in out}
    _check(of_round, what, {name: value for name, value in found.items() if name[1] < last})
    return {RATE: [len(rows) / seconds]}


def _files(of_round: Round) -> int:
    """How many files there are."""
    return QUICK_FILES if of_round.quick else FILES


def _prepare(of_round: Round) -> None:
    of_round.data.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(7)
    for number in range(_files(of_round)):
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
        contestants={
            who: partial(run, what=what)
            for who, run in {OURS: ours, "polars": polars, "native": native, "Bytewax": bytewax}.items()
        },
        goals=[
            Goal(figure=RATE, against="polars", at_least=GOALS[what]),
            Goal(figure=RATE, against="native", at_least=1.0),
            Goal(figure=RATE, against="Bytewax", at_least=1.0),
        ],
        prepare=_prepare,
        part_of_all=False,
    )
    for what in VALUES
)
