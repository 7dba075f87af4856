"""Numbered rows that a writer of Spark (`SparkOutput`) puts into a folder for each window."""

from typing import NamedTuple

from ridgeline import Application, InputOperator, OutputPort, State
from ridgeline.operators import SparkOutput


class Number(NamedTuple):
    value: int


class Numbers(InputOperator):
    """`per_window` numbers a window, without an end."""

    numbers = OutputPort(Number)
    per_window: int = 10
    position = State(0)

    def emit_tuples(self) -> None:
        for number in range(self.position, self.position + self.per_window):
            self.numbers.emit(Number(number))
        self.position += self.per_window


def application(output: str) -> Application:
    app = Application("numbers", window="300ms")
    numbers = app.add_operator("numbers", Numbers())
    options = {"path": f"{output}/window={{window_id}}"}
    store = app.add_operator("store", SparkOutput(format="json", options=options, mode="overwrite"))
    app.add_stream("numbers", numbers.numbers, store.input)
    return app
