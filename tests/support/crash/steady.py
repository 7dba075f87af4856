"""An application to be changed while it runs and is killed: its result does not depend on the changes."""

import time
from typing import NamedTuple

from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.operators import FileOutput

KEYS = 97


class Number(NamedTuple):
    key: int
    value: int


class Sum(NamedTuple):
    key: int
    value: int
    sum: int


class Numbers(InputOperator):
    """So many numbers a window; `name` changes nothing."""

    output = OutputPort(Number)
    per_window: int = 40
    name: str = ""

    count = State(0)

    def emit_tuples(self) -> None:
        for number in range(self.count, self.count + self.per_window):
            self.output.emit(Number(number * 31 % KEYS, number))
        self.count += self.per_window


class Same(Operator):
    """Passes numbers on, as they came for each key."""

    input = InputPort(Number, key="key")
    output = OutputPort(Number)

    @input.process
    def take(self, number: Number) -> None:
        self.output.emit(number)


class Sums(Operator):
    """Running sums by key; a window takes `pause_seconds` at least."""

    input = InputPort(Number, key="key")
    output = OutputPort(Sum)
    pause_seconds: float = 0.0

    sums = KeyedState(int, default=0)

    @input.process
    def add(self, number: Number) -> None:
        self.sums[number.key] += number.value
        self.output.emit(Sum(number.key, number.value, self.sums[number.key]))

    def end_window(self) -> None:
        time.sleep(self.pause_seconds)


class Audit(Operator):
    """Numbers that it has seen; one that comes twice is an error."""

    input = InputPort(Number)
    last = State(-1)

    @input.process
    def see(self, number: Number) -> None:
        if number.value <= self.last:
            raise ValueError(f"{number.value} came after {self.last}")
        self.last = number.value


def application(output: str) -> Application:
    app = Application("steady", window="5ms", recovery_attempts=1000)
    numbers = app.add_operator("numbers", Numbers())
    same = app.add_operator("same", Same(), partitions=2)
    sums = app.add_operator("sums", Sums(), partitions=2)
    store = app.add_operator("store", FileOutput(path=output, format="jsonl", roll_seconds=0.2))
    app.add_stream("numbers", numbers.output, same.input)
    app.add_stream("same", same.output, sums.input)
    app.add_stream("sums", sums.output, store.input)
    return app
