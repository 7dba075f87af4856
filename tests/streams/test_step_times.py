"""The time of each of several expression steps in a row, beside what polars takes for it by itself."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from ridgeline import Application, InputOperator, OutputPort
from ridgeline.api.clock import SystemClock
from ridgeline.measure.events import OperatorWindow
from ridgeline.operators.frames import _query
from ridgeline.testing import CollectorSink, run_local

FLOATS = pa.RecordBatch.from_pydict({"x": np.random.default_rng(1).random(50_000)})
WINDOWS = 40


class Numbers(InputOperator):
    output = OutputPort(FLOATS.schema)

    def emit_tuples(self) -> None:
        self.output.emit_batch(FLOATS)


def sines(number: int, column: str = "x") -> pl.Expr:
    found = pl.col(column)
    for _ in range(number):
        found = found.sin()
    return found


def alone(expression: pl.Expr) -> float:
    """The least seconds of a processor that polars takes for a batch."""
    frame: Any = pl.from_arrow(FLOATS)
    took = []
    for _ in range(WINDOWS):
        began = time.thread_time()
        frame.select(expression)
        took.append(time.thread_time() - began)
    return min(took)


def test_the_time_of_a_query_is_divided_as_its_steps_take_alone():
    """Processor times, so others that work on the machine do not change them."""
    cheap, dear = sines(4), sines(12)
    app = Application("shares", window=0)
    stream: Any = app.read("numbers", Numbers())
    stream = (
        stream.with_columns("cheap", a=cheap).with_columns("dear", b=dear).with_columns("least", c="a + b")
    )
    stream.filter("none", "b > 2").write("out", CollectorSink())
    run = run_local(app, windows=WINDOWS, clock=SystemClock())
    ids = {one.id: one.name for one in run.plan.physical.operators}
    windows: dict[str, dict[int, OperatorWindow]] = {}
    for event in run.events:
        if isinstance(event, OperatorWindow):
            windows.setdefault(ids[event.operator], {})[event.window_id] = event
    together = [number for number, event in windows["cheap"].items() if event.estimated]
    assert len(together) == WINDOWS - _query.FIRST - (WINDOWS - 1) // _query.EVERY
    taken = {
        name: sorted(windows[name][number].cpu_seconds or 0.0 for number in together)[len(together) // 4]
        for name in ("cheap", "dear", "least", "none")
    }
    ratio = alone(dear) / alone(cheap)
    assert 2 < ratio < 4, "one takes three times the other"
    assert 0.6 * ratio < taken["dear"] / taken["cheap"] < 1.6 * ratio
    assert taken["least"] < taken["cheap"]
    for name, of_window in windows.items():
        for event in of_window.values():
            assert event.estimated == (event.window_id in together and name in taken)
            assert 0 <= event.compute_seconds <= event.ended - event.began + 1e-9
    rows = run.latency(together[-1]).to_pylist()
    assert {row["operator"] for row in rows if row["estimated"]} == set(taken)
