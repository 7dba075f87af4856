"""An endless application whose operators note their setup and teardown in a folder."""

import os
from pathlib import Path
from typing import NamedTuple

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State


class Number(NamedTuple):
    value: int


class Numbers(InputOperator):
    numbers = OutputPort(Number)

    position = State(0)

    def emit_tuples(self):
        for _ in range(10):
            self.numbers.emit(Number(self.position))
            self.position += 1


class Noted(Operator):
    numbers = InputPort(Number)

    folder: str
    total = State(0)

    def setup(self, context):
        Path(self.folder, f"setup-{os.getpid()}").touch()

    def teardown(self):
        Path(self.folder, f"teardown-{os.getpid()}").touch()

    @numbers.process
    def add(self, number):
        self.total += number.value


def application(folder: str):
    app = Application("noted", window="5ms")
    source = app.add_operator("numbers", Numbers(), partitions=2)
    noted = app.add_operator("noted", Noted(folder=folder), partitions=2)
    app.add_stream("numbers", source.numbers, noted.numbers, locality="NODE_LOCAL")
    return app
