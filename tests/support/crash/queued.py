"""Two applications with a queue between them: one writes numbered rows of many keys, the other checks them.

The reader fails if a row of a key is missing, comes twice or out of order. It writes what it got to files.
"""

from typing import NamedTuple

from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.operators import FileOutput, QueueInput, QueueOutput


class Numbered(NamedTuple):
    key: int
    number: int


class Rows(InputOperator):
    """`a_window` rows a window, `windows` times."""

    output = OutputPort(Numbered)
    windows: int = 100
    a_window: int = 50
    keys: int = 16
    position = State(0)

    def emit_tuples(self):
        for number in range(self.position, self.position + self.a_window):
            self.output.emit(Numbered(number % self.keys, number // self.keys))
        self.position += self.a_window
        if self.position >= self.windows * self.a_window:
            self.finish()


class PassOn(Operator):
    rows = InputPort(Numbered, key="key")
    passed = OutputPort(Numbered)

    @rows.process
    def on(self, row):
        self.passed.emit(row)


class Check(Operator):
    rows = InputPort(Numbered, key="key")
    checked = OutputPort(Numbered)
    last = KeyedState(int, default=-1)

    @rows.process
    def check(self, row):
        expected = self.last[row.key] + 1
        if row.number != expected:
            raise ValueError(f"key {row.key}: {row.number} came, {expected} was due")
        self.last[row.key] = row.number
        self.checked.emit(row)


def application(role: str, queue: str, output: str = "", partitions: int = 2) -> Application:
    app = Application(role, window="20ms")
    if role == "writer":
        rows = app.add_operator("rows", Rows())
        pass_on = app.add_operator("pass_on", PassOn(), partitions=partitions)
        out = app.add_operator("queue", QueueOutput(path=queue))
        app.add_stream("rows", rows.output, pass_on.rows)
        app.add_stream("passed", pass_on.passed, out.input)
        return app
    rows = app.add_operator("queue", QueueInput(path=queue, schema=Numbered), partitions=partitions)
    check = app.add_operator("check", Check(), partitions=partitions)
    files = app.add_operator("files", FileOutput(path=output, format="jsonl", roll_seconds=0.2))
    app.add_stream("rows", rows.output, check.rows)
    app.add_stream("checked", check.checked, files.input)
    return app
