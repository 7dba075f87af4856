"""An application of many operators for the page: in layers, each reads from one or two others."""

from __future__ import annotations

import random
from typing import NamedTuple

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State
from ridgeline.testing import NullSink

LAYER = 25
"""Operators side by side."""


class Number(NamedTuple):
    value: int


class Numbers(InputOperator):
    """Two numbers a window."""

    output = OutputPort(Number, optional=True)
    count = State(0)

    def emit_tuples(self) -> None:
        for value in range(self.count, self.count + 2):
            self.output.emit(Number(value))
        self.count += 2


class Join(Operator):
    """Passes on what comes first in a window."""

    one = InputPort(Number)
    other = InputPort(Number, optional=True)
    output = OutputPort(Number, optional=True)

    @one.process
    def take_one(self, number: Number) -> None:
        self.output.emit(number)

    @other.process
    def take_other(self, number: Number) -> None:
        pass


class Add(Join):
    """Another class, so that branches differ."""


def many_application(operators: int, window: str = "500ms") -> Application:
    """An application of so many operators, always the same; its critical path may be anywhere."""
    app = Application(f"many-{operators}", window=window)
    drawn = random.Random(operators)
    layer = [(f"source_{number}", app.add_operator(f"source_{number}", Numbers())) for number in range(5)]
    readers = {name: (one.output, []) for name, one in layer}
    left = operators - len(layer) - 1
    while left:
        here = []
        for number in range(left, max(0, left - LAYER), -1):
            name = f"step_{number}"
            one = app.add_operator(name, drawn.choice((Join, Add))())
            sources = drawn.sample(layer, 2 if drawn.random() < 0.36 else 1)
            for port, (source, _) in zip((one.one, one.other), sources, strict=False):
                readers[source][1].append(port)
            readers[name] = (one.output, [])
            here.append((name, one))
        left -= len(here)
        layer = here
    end = app.add_operator("end", NullSink())
    readers[layer[0][0]][1].append(end.input)
    for name, (port, sinks) in readers.items():
        if sinks:
            app.add_stream(f"{name}_out", port, *sinks)
    return app
