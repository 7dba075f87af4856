"""An application whose plan tests change while it runs: numbers, their sums by key, and a sink."""

from typing import NamedTuple

from ridgeline import Application, InputOperator, InputPort, KeyedState, Metric, Operator, OutputPort, State
from ridgeline.testing import CollectorSink

TUPLES = 10
"""In each window."""


class Number(NamedTuple):
    key: int
    value: int


class Numbers(InputOperator):
    output = OutputPort(Number)
    count = State(0)

    def emit_tuples(self) -> None:
        for number in range(self.count, self.count + TUPLES):
            self.output.emit(Number(number % 7, number))
        self.count += TUPLES


class Sums(Operator):
    input = InputPort(Number, key="key")
    output = OutputPort(Number)
    factor: int = 1
    sums = KeyedState(int, key=int)
    added = Metric(0, kind="counter", by_partition=True)

    @input.process
    def add(self, number: Number) -> None:
        self.sums[number.key] = self.sums.get(number.key, 0) + self.factor * number.value
        self.added += 1
        self.output.emit(Number(number.key, self.sums[number.key]))


class Audit(Operator):
    input = InputPort(Number)

    @input.process
    def see(self, number: Number) -> None:
        pass


def application(window="10ms"):
    app = Application("live", window=window)
    numbers = app.add_operator("numbers", Numbers())
    sums = app.add_operator("sums", Sums())
    sink = app.add_operator("sink", CollectorSink(Number))
    app.add_stream("numbers", numbers.output, sums.input)
    app.add_stream("sums", sums.output, sink.input)
    return app
