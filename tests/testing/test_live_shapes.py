"""Changes of applications with loops, dead letters, application windows, slides and watermarks in process."""

from typing import NamedTuple

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State
from ridgeline.operators import Delay
from ridgeline.plan.edits import (
    AddOperator,
    AddSink,
    Edit,
    RemoveOperator,
    Repartition,
    SetAttribute,
)
from ridgeline.testing import CollectorSink, LocalRun, run_local

COLLECTOR = {"class": "ridgeline.testing.CollectorSink"}


class Number(NamedTuple):
    key: int
    value: int


class Numbers(InputOperator):
    """In window w the numbers 10 w to 10 w + 9."""

    output = OutputPort(Number)
    windows: int = 12

    def begin_window(self, window_id: int) -> None:
        for number in range(10 * window_id, 10 * window_id + 10):
            self.output.emit(Number(number % 4, number))

    def emit_tuples(self) -> None: ...


class Countdown(Operator):
    """Passes numbers on until they are 0 or less, one less at each turn of the loop."""

    start = InputPort(Number)
    again = InputPort(Number)
    output = OutputPort(Number)
    done = OutputPort(Number)

    turns = State(0)

    @start.process
    def begin(self, number: Number) -> None:
        if number.value % 10 == 0:
            self.output.emit(Number(number.value, 3))

    @again.process
    def go_on(self, number: Number) -> None:
        self.turns += 1
        port = self.output if number.value > 1 else self.done
        port.emit(Number(number.key, number.value - 1))

    def end_window(self) -> None: ...


def rows(run: LocalRun, name: str, window: int) -> list[tuple[int, ...]]:
    found = run.collected(name, window=window)
    return sorted(tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in found)


def loop() -> Application:
    app = Application("loop", window="10ms")
    numbers = app.add_operator("numbers", Numbers())
    step = app.add_operator("step", Countdown())
    delay = app.add_module("delay", Delay(Number))
    sink = app.add_operator("sink", CollectorSink(Number))
    app.add_stream("numbers", numbers.output, step.start)
    app.add_stream("back", step.output, delay.input)
    app.add_stream("again", delay.output, step.again)
    app.add_stream("done", step.done, sink.input)
    return app


def test_a_loop_goes_on_through_changes() -> None:
    changes: dict[int, list[Edit]] = {
        2: [AddOperator("seen", COLLECTOR), AddSink("back", "seen.input")],
        3: [Repartition("delay", 2)],
        4: [SetAttribute("step", "recovery_attempts", 100)],
        6: [RemoveOperator("seen")],
        7: [AddOperator("seen", COLLECTOR), AddSink("again", "seen.input")],
    }
    run = run_local(loop(), changes=changes, windows=10)
    assert [one.state for one in run.changes] == ["APPLIED"] * 5
    for window in range(10):  # a number goes round three times, a window each
        assert rows(run, "sink", window) == ([(10 * window - 30, 0)] if window >= 3 else [])
    assert rows(run, "seen", 4) == sorted([(40, 3), (30, 2), (20, 1)])
    assert rows(run, "seen", 8) == sorted([(70, 3), (60, 2), (50, 1)])
