"""Metrics and callbacks of operators in slots: exact, though an attempt fails and a process dies."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from ridgeline import Application, InputPort, Metric, Operator, OutputPort, State, metric
from ridgeline.measure.events import OperatorMetrics
from ridgeline.operators import ConsoleOutput
from ridgeline.testing import END_WINDOW, ListInput
from support.engine.on_spark import run_on_spark

pytestmark = pytest.mark.spark
WINDOWS = 6


class Measured(Operator):
    """Measures its numbers, notes its callbacks in a folder, and fails once in window 3."""

    numbers = InputPort(object)
    out = OutputPort(object)
    folder: str
    dies: bool = False

    count = Metric(0, kind="counter")
    greatest = Metric(0, aggregate="max")
    ever = State(0)

    def activate(self) -> None:
        self._note("activate")

    @numbers.process
    def add(self, number: int) -> None:
        self.count += 1
        self.ever += 1
        self.greatest = max(self.greatest, number)
        self.out.emit(number)
        if number == 3_000 and self._note("failed") == 1:
            if self.dies:
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("as planned")

    @metric(kind="counter", cumulative=True)
    def seen(self) -> int:
        return self.ever

    def handle_idle_time(self) -> None:
        self._note(f"idle-{self.context.partition}", self.context.window_id)

    def before_checkpoint(self, window_id: int) -> None:
        self._note(f"before-{self.context.partition}", window_id)

    def checkpointed(self, window_id: int) -> None:
        self._note(f"commits-{self.context.partition}", window_id)

    def committed(self, window_id: int) -> None:
        self._note(f"commits-{self.context.partition}", window_id)

    def _note(self, what: str, value: object = "") -> int:
        with Path(self.folder, what).open("a+", encoding="utf-8") as file:
            file.write(f"{value}\n")
            file.seek(0)
            return len(file.readlines())


def application(folder: Path, *, dies: bool, partitions: int) -> Application:
    app = Application("measured", window=0)
    items: list[Any] = []
    for window in range(WINDOWS):
        items += [window * 1_000 + number for number in range(7 if window != 4 else 0)]
        items += [END_WINDOW]
    source = app.add_operator("source", ListInput(object, items[:-1]))
    step = app.add_operator("step", Measured(folder=str(folder), dies=dies), partitions=partitions)
    app.add_stream("numbers", source.output, step.numbers)
    app.add_stream("out", step.out, app.add_operator("console", ConsoleOutput()).input)
    return app


@pytest.mark.parametrize(
    ("partitions", "dies"),
    [
        (2, False),
        (3, False),
        pytest.param(1, True, marks=pytest.mark.crash),
        pytest.param(2, True, marks=pytest.mark.crash),
    ],
)
def test_values_and_callbacks_are_exact_though_an_attempt_fails_or_a_slot_dies(
    spark_context: SparkContext, tmp_path: Path, partitions: int, dies: bool
) -> None:
    app = application(tmp_path, dies=dies, partitions=partitions)
    run = run_on_spark(app, spark_context, tmp_path / "checkpoint")
    found = [event for event in run.events if isinstance(event, OperatorMetrics)]
    assert [event.window_id for event in found] == list(range(WINDOWS))
    assert [event.values["count"] for event in found] == [7, 7, 7, 7, 0, 7]
    assert [event.values["seen"] for event in found] == [7, 14, 21, 28, 28, 35]
    assert [event.values["greatest"] for event in found] == [6, 1006, 2006, 3006, 0, 5006]
    assert all(len(event.partitions) == partitions for event in found)
    for partition in range(partitions):
        told = [int(one) for one in (tmp_path / f"commits-{partition}").read_text(encoding="utf-8").split()]
        assert told[::2] == told[1::2] == sorted(set(told))
        assert told[-1] == WINDOWS - 1
        # Windows that had begun when the input finished in the last one are void; they are heard of, too.
        idle = {int(one) for one in (tmp_path / f"idle-{partition}").read_text(encoding="utf-8").split()}
        assert idle & set(range(WINDOWS)) == {4}
        before = {int(one) for one in (tmp_path / f"before-{partition}").read_text(encoding="utf-8").split()}
        assert before >= set(range(WINDOWS))
