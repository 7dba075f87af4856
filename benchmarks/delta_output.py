"""Rows into a Delta table, beside a bare loop of `write_deltalake` with the same batches.

In process. A window is a batch and a version of the table, in both. `ours` has segments, commits and marks.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from benchmarks.frame import Benchmark, Figures, Goal, Round
from ridgeline import Application, InputOperator, OutputPort, State
from ridgeline.operators.lake import DeltaOutput
from ridgeline.testing import run_local

SCHEMA = pa.schema(
    [("id", pa.int64()), ("symbol", pa.string()), ("price", pa.float64()), ("at", pa.timestamp("us", "UTC"))]
)
RATE = "rows/s"


def batch_of(number: int, rows: int) -> pa.RecordBatch:
    """The rows of a window."""
    ids = range(number * rows, (number + 1) * rows)
    columns = [
        pa.array(ids, pa.int64()),
        pa.array([f"symbol {one % 1000}" for one in ids]),
        pa.array([one / 7 for one in ids]),
        pa.array(ids, pa.timestamp("us", "UTC")),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def batches_of(of_round: Round) -> list[pa.RecordBatch]:
    """The windows, made before the clock runs."""
    count, rows = (3, 1000) if of_round.quick else (20, 100_000)
    return [batch_of(number, rows) for number in range(count)]


BATCHES: list[pa.RecordBatch] = []


class Generate(InputOperator):
    """A batch a window."""

    output = OutputPort(SCHEMA)
    position = State(0)

    def emit_tuples(self) -> None:
        self.output.emit_batch(BATCHES[self.position])
        self.position += 1
        if self.position == len(BATCHES):
            self.finish()


def figures(path: Path, began: float, of_round: Round) -> Figures:
    """The rate; all rows must be there."""
    took = time.perf_counter() - began
    rows = sum(len(batch) for batch in BATCHES)
    table = DeltaTable(path)
    assert table.to_pyarrow_dataset().count_rows() == rows
    of_round.note(f"{table.version() + 1} versions of {rows:,} rows")
    return {RATE: [rows / took]}


def ours(of_round: Round, partitions: int, **properties: Any) -> Figures:
    BATCHES[:] = batches_of(of_round)
    path = of_round.folder / "table"
    app = Application("rows")
    rows = app.add_operator("rows", Generate())
    table = app.add_operator("table", DeltaOutput(path, **properties), partitions=partitions)
    app.add_stream("rows", rows.output, table.input)
    began = time.perf_counter()
    run_local(app, checkpoint=of_round.folder / "checkpoint")
    return figures(path, began, of_round)


def bare(of_round: Round) -> Figures:
    BATCHES[:] = batches_of(of_round)
    path = of_round.folder / "table"
    began = time.perf_counter()
    for batch in BATCHES:
        write_deltalake(path, batch, mode="append")
    return figures(path, began, of_round)


BENCHMARKS = [
    Benchmark(
        name="delta-output",
        title="delta-output: 20 windows of 100,000 rows into a Delta table, beside deltalake alone",
        contestants={
            "ours": partial(ours, partitions=1),
            "ours, 2 partitions": partial(ours, partitions=2),
            "deltalake": bare,
        },
        goals=[Goal(figure=RATE, against="deltalake", at_least=0.8)],
        budget_seconds=90,
        part_of_all=False,
    )
]
