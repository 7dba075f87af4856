"""The time of each of several expression steps in a row, beside what polars takes for it by itself."""

from __future__ import annotations

import time

import numpy as np
import polars as pl
import pyarrow as pa

from ridgeline import Application, InputOperator, OutputPort
from ridgeline.api.clock import SystemClock
from ridgeline.testing import CollectorSink, run_local

BATCH = pa.RecordBatch.from_pydict({"x": np.random.default_rng(1).random(100_000)})
WINDOWS = 12
NAMES = ("cheap", "dear")


class Numbers(InputOperator):
    output = OutputPort(BATCH.schema)

    def emit_tuples(self) -> None:
        self.output.emit_batch(BATCH)
        self.output.emit_batch(BATCH)


def sines(number: int) -> pl.Expr:
    """A function of a function and so on: polars computes it in the thread that asks."""
    found = pl.col("x")
    for _ in range(number):
        found = found.sin()
    return found


def alone(expression: pl.Expr) -> float:
    """The least seconds of a processor that polars takes for two batches."""
    frame = pl.DataFrame(pl.from_arrow(BATCH))
    took = []
    for _ in range(WINDOWS):
        began = time.thread_time()
        frame.select(expression)
        frame.select(expression)
        took.append(time.thread_time() - began)
    return min(took)


def test_each_step_is_measured_by_itself() -> None:
    """Processor times: others that work on the machine do not change them."""
    cheap, dear = sines(4), sines(16)
    app = Application("steps", window=0)
    steps = app.read("numbers", Numbers()).with_columns("cheap", a=cheap).with_columns("dear", b=dear)
    steps.filter("none", "b > 2").write("sink", CollectorSink())
    run = run_local(app, windows=WINDOWS, clock=SystemClock())
    rows = [row for window in range(WINDOWS) for row in run.latency(window).to_pylist()]
    least = {name: min(row["cpu_ms"] / 1e3 for row in rows if row["operator"] == name) for name in NAMES}
    assert not any(row["estimated"] for row in rows)
    wanted = alone(dear) - alone(cheap)
    assert 0.6 * wanted < least["dear"] - least["cheap"] < 1.7 * wanted
