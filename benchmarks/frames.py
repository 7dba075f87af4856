"""What frames are used for: filter, two columns, sums and counts by key and minute, 20 million records.

From Parquet, 4 million records a window, with checkpoints on: so many an input that catches up takes by
itself (`window_records`). polars reads all files at once, with one thread or one for each core:
a query over what lies there, without windows, state or commits. Between the two stand the same windows by
pyarrow and polars, without an engine. Bytewax has its records as Python tuples and fewer of them, as a rate
is what counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import ours as engine
from benchmarks import spark
from benchmarks.frame import OURS, Benchmark, Figures, Goal, Round
from benchmarks.throughput import RATE
from ridgeline import Application, InputPort, Operator
from ridgeline.api.publisher import Publisher
from ridgeline.operators import FileReplayInput, aggregate, tumbling

FILE_ROWS, FILES_A_WINDOW, MEASURED, WARM, KEYS = 250_000, 16, 5, 2, 100
WINDOW_ROWS = FILES_A_WINDOW * FILE_ROWS
FILES = (MEASURED + WARM) * FILES_A_WINDOW
QUICK_FILES = 40
MICROSECONDS = 60
"""Between two records: a million of them take a minute."""
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
LINES = pa.schema(
    [
        ("key", pa.int64()),
        ("price", pa.float64()),
        ("units", pa.int64()),
        ("time", pa.timestamp("us", "UTC")),
    ]
)
BYTEWAX_ROWS = 500_000
TWICE = "ours, 2 processes"
ONE_THREAD = "polars, 1 thread"
FLOOR = "windows without an engine"
Results = dict[tuple[int, datetime], tuple[int, int, float]]
"""By key and start of the minute: lines, the highest band, and the amount."""


class Shown(Publisher):
    """Keeps the results at the driver."""

    found: ClassVar[Results] = {}

    def __init__(self) -> None:
        self._staged: Sequence[pa.RecordBatch] = ()

    def stage(self, window_id: int, values: Sequence[pa.RecordBatch]) -> None:
        """Keep them until the commit."""
        self._staged = values

    def publish(self, window_id: int) -> None:
        """Take them over."""
        for batch in self._staged:
            self.found.update(_results(batch.to_pylist()))
        self._staged = ()


class Show(Operator):
    """Hands results to the driver."""

    data = InputPort(Any, parallel=True)

    @data.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Hand a batch over."""
        self.context.hand_over(batch)

    def publisher(self) -> Shown:
        """The driver's half."""
        return Shown()


def _results(rows: Sequence[Mapping[str, Any]]) -> Results:
    return {
        (row["key"], row["start"].astimezone(UTC)): (row["lines"], row["band"], row["amount"]) for row in rows
    }


def ours(of_round: Round, processes: int = 1) -> Figures:
    """One process, or two: each reads one of the two files of a window, and has half of the keys."""
    app = Application("frames", window=0)
    source = FileReplayInput(
        path=of_round.data,
        schema=LINES,
        format="parquet",
        rows_per_window=WINDOW_ROWS,
        rows_in_turn=FILE_ROWS,
        timestamp="time",
        lateness=0,
    )
    lines = app.read("lines", source, partitions=processes)
    priced = lines.filter("sold", "units > 2", partition_parallel=True).with_columns(
        "priced", amount="price * units", band="cast(floor(price / 10) as int)", partition_parallel=True
    )
    totals = (
        priced.group_by("key")
        .window(tumbling("1m"))
        .aggregate(
            "totals",
            partitions=processes,
            start=aggregate.window_start(),
            lines=aggregate.count(),
            band=aggregate.max("band"),
            amount=aggregate.sum("amount"),
        )
    )
    totals.write("shown", Show())
    warm, windows = _windows(of_round)
    seen = engine.run(of_round, app, windows)
    _check(of_round, Shown.found, windows * FILES_A_WINDOW)
    return _rate(engine.window_times(seen)[warm:])


def _rate(times: Sequence[float]) -> Figures:
    """Records a second over windows together: several may be committed at once."""
    return {RATE: [WINDOW_ROWS * len(times) / sum(times)]}


def _windows(of_round: Round) -> tuple[int, int]:
    """How many windows are left out, and how many there are."""
    return (1, 3) if of_round.quick else (WARM, WARM + MEASURED)


def _query(frame: Any) -> Any:
    """The query over a `polars.LazyFrame`."""
    import polars as pl

    return (
        frame.filter(pl.col("units") > 2)
        .with_columns(
            amount=pl.col("price") * pl.col("units"), band=(pl.col("price") / 10).floor().cast(pl.Int64)
        )
        .group_by("key", start=pl.col("time").dt.truncate("1m"))
        .agg(lines=pl.len(), band=pl.col("band").max(), amount=pl.col("amount").sum())
    )


def _by_polars(files: list[Path]) -> Results:
    import polars as pl

    return _results(_query(pl.scan_parquet(files)).collect().to_dicts())


def _files(of_round: Round, begin: int = 0, end: int = FILES) -> list[Path]:
    return [of_round.data / f"{number:06d}.parquet" for number in range(begin, end)]


def _check(of_round: Round, found: Results, files: int) -> None:
    """Raise ValueError if a result differs from that of polars; windows that are open yet have none."""
    expected = _by_polars(_files(of_round, 0, files))
    if not found:
        raise ValueError("there are no results")
    for name, (lines, band, amount) in found.items():
        wanted = expected[name]
        if (lines, band) != wanted[:2] or abs(amount - wanted[2]) > 1e-9 * wanted[2]:
            raise ValueError(f"{name} must be {wanted}; got {(lines, band, amount)}")
    of_round.note(f"{len(found)} windows, all as of polars")


def polars(of_round: Round, threads: int | None = None) -> Figures:
    """The second run of the query: in the first one it reads its libraries."""
    if threads is not None:
        os.environ["POLARS_MAX_THREADS"] = str(threads)  # read when it is imported
    files = _files(of_round, 0, QUICK_FILES) if of_round.quick else _files(of_round, WARM * FILES_A_WINDOW)
    _by_polars(files)
    began = time.perf_counter()
    found = _by_polars(files)
    seconds = time.perf_counter() - began
    of_round.note(f"{len(found)} windows in {seconds:.2f} s")
    return {RATE: [len(files) * FILE_ROWS / seconds]}


def floor(of_round: Round) -> Figures:
    """The same windows without an engine: pyarrow reads, polars computes with one thread, open minutes merge.

    No more can be had of windows over the same libraries. What `ours` takes beyond it is ours: steps batch by
    batch, messages, exact sums, state, and the commit. What polars alone takes less is the price of windows.
    The notes have the parts of a window.
    """
    os.environ["POLARS_MAX_THREADS"] = "1"  # as in workers
    import polars as pl

    warm, windows = _windows(of_round)
    parts: list[tuple[float, ...]] = []
    found: Results = {}
    opened = pl.DataFrame()
    for number in range(windows):
        began = time.perf_counter()
        batches = []
        for file in _files(of_round, number * FILES_A_WINDOW, (number + 1) * FILES_A_WINDOW):
            with pq.ParquetFile(file) as rows:
                batches += rows.iter_batches(FILE_ROWS, use_threads=False)
        read = time.perf_counter()
        frame: Any = pl.from_arrow(pa.Table.from_batches(batches))
        partial_sums = _query(frame.lazy()).collect()
        queried = time.perf_counter()
        both = pl.concat([opened, partial_sums]) if number else partial_sums
        merged = both.group_by("key", "start").agg(
            pl.col("lines").sum(), pl.col("band").max(), pl.col("amount").sum()
        )
        over = pl.col("start") <= frame["time"].max() - timedelta(minutes=1)
        found.update(_results(merged.filter(over).to_dicts()))
        opened = merged.filter(~over)
        ended = time.perf_counter()
        parts.append((read - began, queried - read, ended - queried, ended - began))
    means = 1_000 * np.mean(parts[warm:], axis=0)
    of_round.note("ms a window: read {:.1f}, query {:.1f}, merge {:.1f}, in all {:.1f}".format(*means))
    _check(of_round, found, windows * FILES_A_WINDOW)
    return _rate([times[-1] for times in parts[warm:]])


def native(of_round: Round) -> Figures:
    """Structured Streaming with a watermark, in append mode, state in RocksDB."""
    from pyspark.sql import functions as of

    session = spark.session("frames", spark.ROCKS)
    rows = (
        session.readStream.schema("key long, price double, units long, time timestamp")
        .option("maxFilesPerTrigger", FILES_A_WINDOW)
        .parquet(str(of_round.data))
    )
    priced = (
        rows.filter("units > 2")
        .withColumn("amount", of.col("price") * of.col("units"))
        .withColumn("band", of.floor(of.col("price") / 10))
    )
    totals = (
        priced.withWatermark("time", "0 seconds")
        .groupBy("key", of.window("time", "1 minute"))
        .agg(of.count("*").alias("lines"), of.max("band").alias("band"), of.sum("amount").alias("amount"))
        .select("key", of.col("window.start").alias("start"), "lines", "band", "amount")
    )
    warm, windows = _windows(of_round)
    found: Results = {}

    def each(closed: Any, number: int) -> None:
        table = closed.toArrow()
        if number < windows:
            found.update(_results(table.to_pylist()))

    times = spark.batch_times(of_round, totals, windows - 1, each)
    _check(of_round, found, windows * FILES_A_WINDOW)
    return _rate(times[warm:])


def bytewax(of_round: Round) -> Figures:
    """A tuple after the other, made before the time is taken; `fold_window` with an `EventClock`."""
    import bytewax.operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.operators import windowing
    from bytewax.testing import TestingSink, TestingSource, run_main

    table = pq.read_table(_files(of_round, 0, BYTEWAX_ROWS // FILE_ROWS))
    columns = [table[name].to_pylist() for name in ("key", "price", "units")]
    times = [time.astimezone(UTC) for time in table["time"].to_pylist()]
    items = list(zip(*columns, times, strict=True))

    def priced(item: Any) -> Any:
        key, price, units, at = item
        return str(key), (price * units, int(price // 10), at)

    flow = Dataflow("frames")
    lines = op.input("lines", flow, TestingSource(items, batch_size=1_000))
    sold = op.map("priced", op.filter("sold", lines, lambda item: item[2] > 2), priced)
    clock: Any = windowing.EventClock(
        lambda item: item[2],
        timedelta(seconds=1),
        now_getter=lambda: BEGIN,  # it would overtake the records of a slow run, and drop them as late
        to_system_utc=lambda _: None,
    )
    minutes = windowing.TumblingWindower(length=timedelta(minutes=1), align_to=BEGIN)
    folded = windowing.fold_window(
        "totals",
        sold,
        clock,
        minutes,
        lambda: (0, 0, 0.0),
        lambda total, item: (total[0] + 1, max(total[1], item[1]), total[2] + item[0]),
        lambda one, other: (one[0] + other[0], max(one[1], other[1]), one[2] + other[2]),
    )
    out: list[Any] = []
    op.output("out", folded.down, TestingSink(out))
    began = time.perf_counter()
    run: Any = run_main
    run(flow)
    seconds = time.perf_counter() - began
    found = {(int(key), BEGIN + number * timedelta(minutes=1)): total for key, (number, total) in out}
    _check(of_round, found, BYTEWAX_ROWS // FILE_ROWS)
    return {RATE: [len(items) / seconds]}


def _prepare(of_round: Round) -> None:
    of_round.data.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(7)
    begin = int(BEGIN.timestamp() * 1_000_000)
    for number in range(QUICK_FILES if of_round.quick else FILES):
        times = begin + (number * FILE_ROWS + np.arange(FILE_ROWS)) * MICROSECONDS
        columns = [
            pa.array(random.integers(0, KEYS, FILE_ROWS)),
            pa.array(random.normal(100, 15, FILE_ROWS).round(2)),
            pa.array(random.integers(1, 10, FILE_ROWS)),
            pa.array(times).cast(LINES.field("time").type),
        ]
        pq.write_table(pa.table(columns, schema=LINES), of_round.data / f"{number:06d}.parquet")


BENCHMARKS = (
    Benchmark(
        name="frame",
        title="filter, two columns, sums by key and minute, 20 million records from Parquet",
        contestants={
            OURS: ours,
            TWICE: partial(ours, processes=2),
            "polars": polars,
            ONE_THREAD: partial(polars, threads=1),
            FLOOR: floor,
            "native": native,
            "Bytewax": bytewax,
        },
        goals=[
            Goal(figure=RATE, against=ONE_THREAD, at_least=0.6),
            Goal(figure=RATE, of=TWICE, against="polars", at_least=0.6),
            Goal(figure=RATE, of=TWICE, against="native", at_least=4.0),  # it has both cores, too
            Goal(figure=RATE, against="Bytewax", at_least=4.0),
        ],
        prepare=_prepare,
        part_of_all=False,
        budget_seconds=300,
    ),
)
