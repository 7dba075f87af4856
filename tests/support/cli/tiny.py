"""Numbers and their total: the application of the command's tests. How it behaves is said by properties."""

import time
from pathlib import Path
from typing import NamedTuple

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State


class Number(NamedTuple):
    value: int


class Numbers(InputOperator):
    """0, 1, 2, ... in windows of ten; with `count` 0 it never ends."""

    output = OutputPort(Number)

    count: int = 50

    position = State(0)

    def emit_tuples(self):
        last = self.position + 10
        for value in range(self.position, last):
            self.output.emit(Number(value))
        self.position = last
        if last == self.count:
            self.finish()

    def progress(self):
        return (self.position, self.count - self.position) if self.count else None


class Total(Operator):
    """Adds up; appends `window total` to a file at the end of each window."""

    numbers = InputPort(Number)

    path: str = "totals.txt"
    fail_at: int = -1
    hold: str = ""  # a file: as long as it is there, the window goes on

    total = State(0)

    @numbers.process
    def add(self, number: Number) -> None:
        if number.value == self.fail_at:
            self.divide(number.value, 0)
        self.total += number.value

    def divide(self, value: int, by: int) -> float:
        return value / by

    def end_window(self):
        with Path(self.path).open("a") as file:
            file.write(f"{self.context.window_id} {self.total}\n")
        while self.hold and Path(self.hold).exists():
            time.sleep(0.01)


def application(count: int = 50, window: str = "0") -> Application:
    app = Application("tiny", window=window)
    numbers = app.add_operator("numbers", Numbers(count=count))
    total = app.add_operator("total", Total(), recovery_attempts=0)
    app.add_stream("numbers", numbers.output, total.numbers)
    return app
