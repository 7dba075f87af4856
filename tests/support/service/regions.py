"""The operators of applications of several regions: numbers without gaps, and one that passes them on."""

from __future__ import annotations

from typing import NamedTuple

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State
from ridgeline.testing import CollectorSink


class Number(NamedTuple):
    value: int


class Numbers(InputOperator):
    """Ten numbers a window, up to `most`; -1: without end."""

    output = OutputPort(Number)
    most: int = -1
    next = State(0)

    def emit_tuples(self) -> None:
        if 0 <= self.most <= self.next:
            self.finish()
            return
        for value in range(self.next, self.next + 10):
            self.output.emit(Number(value))
        self.next += 10


class PassOn(Operator):
    numbers = InputPort(Number)
    passed = OutputPort(Number)
    note: str = ""

    @numbers.process
    def take(self, number: Number) -> None:
        self.passed.emit(number)


def to_two_sinks(most: int, window: str) -> Application:
    """Numbers to the sink `fast`, and through a queue to the sink `slow`."""
    app = Application("fan", window=window)
    numbers = app.add_operator("numbers", Numbers(most=most))
    fast = app.add_operator("fast", CollectorSink(Number))
    gate = app.add_operator("gate", PassOn())
    slow = app.add_operator("slow", CollectorSink(Number))
    app.add_stream("numbers", numbers.output, fast.input, gate.numbers, decoupled={gate.numbers})
    app.add_stream("passed", gate.passed, slow.input)
    return app
