"""An application whose runs are rewound, and what its output shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.operators import FileOutput
from ridgeline.testing import CollectorSink, run_local

WINDOWS = 10
LAST = 6


class Count(NamedTuple):
    key: int
    total: int


class Numbers(InputOperator):
    numbers = OutputPort(Count)
    position = State(0)
    most: int = 4 * WINDOWS

    def emit_tuples(self) -> None:
        for number in range(self.position, min(self.most, self.position + 4)):
            self.numbers.emit(Count(number % 3, number))
        self.position += 4
        if self.position >= self.most:
            self.finish()


class Totals(Operator):
    numbers = InputPort(Count, key="key")
    totals = OutputPort(Count)
    sums = KeyedState(int, default=0)
    seen = State(0)

    @numbers.process
    def add(self, number: Count) -> None:
        self.sums[number.key] += number.total
        self.totals.emit(Count(number.key, self.sums[number.key]))


def application(output: Operator | None = None) -> Application:
    app = Application("rewound")
    numbers = app.add_operator("numbers", Numbers())
    totals = app.add_operator("totals", Totals(), partitions=2)
    sink = app.add_operator("sink", CollectorSink(Count) if output is None else output)
    app.add_stream("numbers", numbers.numbers, totals.numbers)
    app.add_stream("totals", totals.totals, sink.input)
    return app


def rows(folder: Path, output: str = "sink") -> list[list[int]]:
    found: list[list[int]] = []
    for file in sorted(folder.glob(f"{output}-*")):
        if file.suffix == ".parquet":
            found += [list(row.values()) for row in pq.read_table(file).to_pylist()]
        else:
            found += [list(json.loads(line).values()) for line in file.read_text().splitlines()]
    return found


def wanted(folder: Path) -> list[list[int]]:
    """The rows of a run that was never rewound."""
    run_local(application(FileOutput(path=str(folder))), checkpoint=folder / "state")
    return sorted(rows(folder))
