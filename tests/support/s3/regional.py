"""An application of two regions: numbers to a fast sink, and through a queue to another one."""

from typing import NamedTuple

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State
from ridgeline.testing import CollectorSink


class Number(NamedTuple):
    value: int


class Numbers(InputOperator):
    """Ten numbers a window, up to `most`."""

    output = OutputPort(Number)
    most: int = 100
    next = State(0)

    def emit_tuples(self):
        if self.next >= self.most:
            self.finish()
            return
        for value in range(self.next, self.next + 10):
            self.output.emit(Number(value))
        self.next += 10


class PassOn(Operator):
    numbers = InputPort(Number)
    passed = OutputPort(Number)

    @numbers.process
    def take(self, number):
        self.passed.emit(number)


def application():
    app = Application("fan", window="200ms")
    numbers = app.add_operator("numbers", Numbers())
    fast = app.add_operator("fast", CollectorSink(Number))
    on = app.add_operator("on", PassOn())
    slow = app.add_operator("slow", CollectorSink(Number))
    app.add_stream("numbers", numbers.output, fast.input, on.numbers, decoupled={on.numbers})
    app.add_stream("passed", on.passed, slow.input)
    return app
