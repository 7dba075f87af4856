"""Rows into a Delta table, beside a bare loop of `write_deltalake` with the same batches.

`ours` runs as users run it, on `local[2]`: segments, commits and marks. A window is a batch. All write one
version for each, so they do the same work: our output would write windows that wait together, as few versions
of many rows. `as it runs` does so, and has no goal. Each is measured from its first version to its last, by
the history of the table.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from benchmarks import ours as running
from benchmarks.frame import Benchmark, Figures, Goal, Round
from ridgeline import Application, InputOperator, OutputPort, State
from ridgeline.connect import Sink
from ridgeline.connectors.lake import DeltaOutput

SCHEMA = pa.schema(
    [("id", pa.int64()), ("symbol", pa.string()), ("price", pa.float64()), ("at", pa.timestamp("us", "UTC"))]
)
RATE = "rows/s"


def batch_of(rows: int) -> pa.RecordBatch:
    """The rows of each window."""
    ids = range(rows)
    columns = [
        pa.array(ids, pa.int64()),
        pa.array([f"symbol {one % 1000}" for one in ids]),
        pa.array([one / 7 for one in ids]),
        pa.array(ids, pa.timestamp("us", "UTC")),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class Generate(InputOperator):
    """The same batch in each window."""

    output = OutputPort(SCHEMA)
    rows: int
    windows: int
    position = State(0)

    def setup(self, context: object) -> None:
        self._batch = batch_of(self.rows)

    def emit_tuples(self) -> None:
        self.output.emit_batch(self._batch)
        self.position += 1
        if self.position == self.windows:
            self.finish()


def size_of(of_round: Round) -> tuple[int, int]:
    """Windows, and rows of each."""
    return (4, 1000) if of_round.quick else (80, 100_000)


class WindowByWindow(DeltaOutput):
    """Windows that wait are not written together."""

    def sink(self) -> Sink:
        sink = super().sink()
        sink.most_bytes = 1
        return sink


def figures(path: Path, of_round: Round, *, together: bool = False) -> Figures:
    """The rate; all rows must be there, in a version for each window unless they are written `together`."""
    table = DeltaTable(path)
    windows, rows = size_of(of_round)
    assert table.to_pyarrow_dataset().count_rows() == windows * rows
    writes = sorted(
        (one["timestamp"], one["operationMetrics"]["num_added_rows"])
        for one in table.history()
        if one["operation"] == "WRITE"
    )
    assert together or [added for _, added in writes] == [rows] * windows
    seconds = (writes[-1][0] - writes[0][0]) / 1000
    of_round.note(f"{len(writes)} versions of {windows * rows:,} rows in {seconds:.2f} s")
    return {RATE: [sum(added for _, added in writes[1:]) / max(seconds, 0.001)]}


def ours(of_round: Round, partitions: int, *, together: bool = False) -> Figures:
    windows, rows = size_of(of_round)
    path = of_round.folder / "table"
    app = Application("rows", window="1ms")
    read = app.add_operator("rows", Generate(windows=windows, rows=rows))
    output = DeltaOutput(path) if together else WindowByWindow(path)
    table = app.add_operator("table", output, partitions=partitions)
    app.add_stream("rows", read.output, table.input)
    running.run(of_round, app, None)
    return figures(path, of_round, together=together)


def bare(of_round: Round) -> Figures:
    windows, rows = size_of(of_round)
    path = of_round.folder / "table"
    batch = batch_of(rows)
    for _ in range(windows):
        write_deltalake(path, batch, mode="append")
    return figures(path, of_round)


BENCHMARKS = [
    Benchmark(
        name="delta-output",
        title="delta-output: 80 versions of 100,000 rows of a Delta table, beside deltalake alone",
        contestants={
            "ours": partial(ours, partitions=1),
            "ours, 2 partitions": partial(ours, partitions=2),
            "ours, as it runs": partial(ours, partitions=1, together=True),
            "deltalake": bare,
        },
        goals=[Goal(figure=RATE, against="deltalake", at_least=0.8)],
        budget_seconds=180,
        part_of_all=False,
    )
]
