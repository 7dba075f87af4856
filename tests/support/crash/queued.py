"""Numbered rows of many keys, and a check that fails if one is missing, comes twice or out of order."""

from typing import NamedTuple

from ridgeline import InputOperator, InputPort, KeyedState, Operator, OutputPort, State


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
