"""A running sum for each of 1,000 keys, batch form, of Parquet files of 64-byte tuples.

A window is two files, of which all read the two columns that they need. After it the sums that it changed are
at the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import spark
from benchmarks.data import KEYS, NUMBERS, sums_of, write_parquet
from benchmarks.frame import OURS, WARM_UP, Benchmark, Figures, Goal, Round
from benchmarks.throughput import RATE, Latest, check, rates_of_ours
from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort
from ridgeline.operators import FileReplayInput

FILES = 2
"""In a window."""
TWICE = "ours, 2 processes"
_Sums = npt.NDArray[np.int64]


class Sum(Operator):
    """Running sums; emits those that a window changed."""

    data = InputPort(NUMBERS, key="key")
    sums = OutputPort(NUMBERS)
    totals = KeyedState(int, default=0)

    @data.process_batch
    def add(self, batch: pa.RecordBatch) -> None:
        """Add what each key got."""
        keys, sums = partial_sums(batch)
        self.totals.put_many(keys, self.totals.get_many(keys) + sums)

    def end_window(self) -> None:
        """Emit what changed."""
        keys, totals = self.totals.changed_arrays()
        self.sums.emit_batch(pa.RecordBatch.from_arrays([pa.array(keys), pa.array(totals)], schema=NUMBERS))


class Partial(Operator):
    """The sums of each batch."""

    data = InputPort(NUMBERS, parallel=True)
    sums = OutputPort(NUMBERS)

    @data.process_batch
    def add(self, batch: pa.RecordBatch) -> None:
        """Emit what each key got."""
        arrays = [pa.array(column) for column in partial_sums(batch)]
        self.sums.emit_batch(pa.RecordBatch.from_arrays(arrays, schema=NUMBERS))


def partial_sums(batch: pa.RecordBatch) -> tuple[_Sums, _Sums]:
    """The keys of a batch and the sums of their values."""
    keys = batch["key"].to_numpy()
    sums = np.bincount(keys, weights=batch["value"].to_numpy(), minlength=KEYS).astype(np.int64)
    found = np.flatnonzero(np.bincount(keys, minlength=KEYS))
    return found, sums[found]


def ours(of_round: Round, window_rows: int, measured: int) -> Figures:
    """One partition of each operator, so all are in one process; checkpoints on."""
    app = Application("keyed-sum", window=0)
    files = app.add_operator(
        "files",
        FileReplayInput(path=of_round.data, schema=NUMBERS, format="parquet", rows_per_window=window_rows),
    )
    total = app.add_operator("sum", Sum())
    latest = app.add_operator("latest", Latest())
    app.add_stream("rows", files.output, total.data)
    app.add_stream("sums", total.sums, latest.data)
    windows = of_round.windows(measured)
    figures = rates_of_ours(of_round, app, windows, lambda _window: window_rows)
    _check(of_round, Latest.found, windows)
    return figures


def ours_twice(of_round: Round, window_rows: int, measured: int) -> Figures:
    """Two processes: each has the files of one half of a window, and sums up its batches first."""
    app = Application("keyed-sum-twice", window=0)
    files = app.add_operator(
        "files",
        FileReplayInput(
            path=of_round.data,
            schema=NUMBERS,
            format="parquet",
            rows_per_window=window_rows,
            rows_in_turn=window_rows // FILES,
        ),
        partitions=2,
    )
    partly = app.add_operator("partial", Partial())
    total = app.add_operator("sum", Sum())
    latest = app.add_operator("latest", Latest())
    app.add_stream("rows", files.output, partly.data)
    app.add_stream("partial_sums", partly.sums, total.data)
    app.add_stream("sums", total.sums, latest.data)
    windows = of_round.windows(measured)
    figures = rates_of_ours(of_round, app, windows, lambda _window: window_rows)
    _check(of_round, Latest.found, windows)
    return figures


def native(of_round: Round, window_rows: int, measured: int) -> Figures:
    """`groupBy("key").agg(sum("value"))` in update mode, state in RocksDB."""
    session = spark.session("keyed-sum", spark.ROCKS)
    rows = (
        session.readStream.schema("key long, value long")
        .option("maxFilesPerTrigger", FILES)
        .parquet(str(of_round.data))
    )
    windows = of_round.windows(measured)
    latest: dict[int, int] = {}

    def each(changed: Any, number: int) -> None:
        table = changed.toArrow()
        if number < windows:
            latest.update(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))

    times = spark.batch_times(
        of_round,
        rows.groupBy("key").agg({"value": "sum"}).toDF("key", "value"),
        windows - 1,
        each,
        outputMode="update",
    )
    _check(of_round, latest, windows)
    return {RATE: of_round.warm([window_rows / seconds for seconds in times])}


def bytewax(of_round: Round, window_rows: int, measured: int, processes: int = 1) -> Figures:
    """A batch a file; its sums go to the keys' logics, whose sums come out. No recovery."""
    import bytewax.operators as op

    from benchmarks import dataflow

    class Running(op.StatefulBatchLogic[int, int, int]):
        def __init__(self, resumed: int | None) -> None:
            self.total = resumed or 0

        def on_batch(self, values: list[int]) -> tuple[Iterable[int], bool]:
            self.total += sum(values)
            return [self.total], False

        def snapshot(self) -> int:
            return self.total

    def sums(batch: pa.RecordBatch) -> list[tuple[str, int]]:
        keys, values = partial_sums(batch)
        return list(zip(map(str, keys.tolist()), values.tolist(), strict=True))

    def steps(batches: Any) -> Any:
        return op.stateful_batch("sum", op.flat_map("partial", batches, sums), Running)

    windows = of_round.windows(measured)
    warm = len(of_round.warm(range(windows)))
    paths = [of_round.data / f"{number:06d}.parquet" for number in range(windows * FILES)]
    latest: dict[str, int] = {}
    flow = dataflow.Flow(
        dataflow.Pieces(paths, _read, (windows - warm) * FILES), steps, latest.update, latest
    )
    seconds = flow.run(processes)
    _check(of_round, {int(key): value for key, value in flow.found.items()}, windows)
    return {RATE: [warm * window_rows / seconds]}


def _read(path: Path) -> list[pa.RecordBatch]:
    return pq.read_table(path, columns=NUMBERS.names, use_threads=False).combine_chunks().to_batches()


def _check(of_round: Round, found: dict[int, int], windows: int) -> None:
    check("sums by key", found, sums_of(of_round.data, windows * FILES))


def _prepare(of_round: Round, window_rows: int, measured: int) -> None:
    write_parquet(of_round.data, (measured + WARM_UP + 2) * FILES, window_rows // FILES)


def _benchmark(name: str, rows: int, measured: int) -> Benchmark:
    contestants: dict[str, Callable[..., Figures]] = {
        OURS: ours,
        TWICE: ours_twice,
        "native": native,
        "Bytewax": bytewax,
        "Bytewax, 2 processes": partial(bytewax, processes=2),
    }
    return Benchmark(
        name=name,
        title=f"keyed running sum, batch form, from Parquet, {rows:,} tuples a window",
        contestants={
            who: partial(run, window_rows=rows, measured=measured) for who, run in contestants.items()
        },
        goals=[
            Goal(figure=RATE, against="native", at_least=4.0),
            Goal(figure=RATE, against="Bytewax", at_least=1.0),
            Goal(figure=RATE, of=TWICE, against="Bytewax, 2 processes", at_least=1.0),
        ],
        prepare=partial(_prepare, window_rows=rows, measured=measured),
    )


BENCHMARKS = [_benchmark("keyed-sum-1m", 1_000_000, 30), _benchmark("keyed-sum-100k", 100_000, 100)]
