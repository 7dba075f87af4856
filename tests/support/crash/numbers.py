"""An application to be killed: numbers, sums by last digit behind a shuffle, files; it can wait."""

import os
import time
from pathlib import Path
from typing import NamedTuple

from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.operators import FileOutput


class Number(NamedTuple):
    value: int


class Sum(NamedTuple):
    window: int
    digit: int
    sum: int


class Numbers(InputOperator):
    numbers = OutputPort(Number)

    windows: int = 10
    per_window: int = 100

    position = State(0)

    def emit_tuples(self):
        for i in range(self.position, self.position + self.per_window):
            if i % self.context.partitions == self.context.partition:
                self.numbers.emit(Number(i))
        self.position += self.per_window
        if self.position >= self.per_window * self.windows:
            self.finish()


class Sums(Operator):
    """In the window `wait_in` partition 0 writes its process id and waits for the file `go` in `folder`.

    Each window takes `pause_seconds` at least, so that others are in flight meanwhile. Its state changes by
    `state_bytes` more, which are a file if they are many.
    """

    numbers = InputPort(Number, key="value")
    sums = OutputPort(Sum)

    wait_in: int = -1
    folder: str = ""
    pause_seconds: float = 0.0
    state_bytes: int = 0

    last = State(b"")
    totals = KeyedState(int, default=0)

    @numbers.process
    def add(self, number):
        self.totals[number.value % 10] += number.value

    def end_window(self):
        time.sleep(self.pause_seconds)
        if self.state_bytes:
            self.last = os.urandom(self.state_bytes)
        if self.context.window_id == self.wait_in and self.context.partition == 0:
            Path(self.folder, f"pid-{os.getpid()}").touch()
            while not Path(self.folder, "go").exists():
                time.sleep(0.01)
        for digit, total in self.totals.changed():
            self.sums.emit(Sum(self.context.window_id, digit, total))


def application(output: str, folder: str = "", wait_in: int = -1, locality: str = "") -> Application:
    app = Application("numbers", window="10ms", window_work="1h")  # a window holds what a plain run gives it
    numbers = app.add_operator("numbers", Numbers(), partitions=2, recovery_attempts=1)
    sums = app.add_operator("sums", Sums(folder=folder, wait_in=wait_in), partitions=2, recovery_attempts=1)
    store = app.add_operator(
        "store", FileOutput(path=output, format="jsonl", roll_seconds=0), recovery_attempts=1
    )
    app.add_stream("numbers", numbers.numbers, sums.numbers, locality=locality or None)
    app.add_stream("sums", sums.sums, store.input)
    return app
