"""Running sums by key of a steady stream; the sink notes when each window is seen: for `ridgeline run`."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.api.publisher import Publisher

KEYS = 1_000
PER_SECOND = 2_000
WINDOW_SECONDS = 0.01


class Number(NamedTuple):
    key: int
    value: int


class Numbers(InputOperator):
    """So many numbers a window, from 0 on."""

    output = OutputPort(Number)
    count = State(0)

    def emit_tuples(self) -> None:
        for number in range(self.count, self.count + round(PER_SECOND * WINDOW_SECONDS)):
            self.output.emit(Number(number % KEYS, number))
        self.count += round(PER_SECOND * WINDOW_SECONDS)


class Sums(Operator):
    """Running sums by key."""

    input = InputPort(Number, key="key")
    output = OutputPort(Number)
    offset: int = 0
    sums = KeyedState(int, default=0)

    @input.process
    def add(self, number: Number) -> None:
        self.sums[number.key] += number.value
        self.output.emit(Number(number.key, self.sums[number.key] + self.offset))


class Seen(Operator):
    """Notes when each window with tuples can be seen: a line with the time in nanoseconds since 1970."""

    input = InputPort(Number)
    path: str
    total = State(0)

    @input.process
    def take(self, number: Number) -> None:
        self.total += 1

    def end_window(self) -> None:
        self.context.hand_over(self.total)

    def publisher(self) -> Publisher:
        return Times(self.path)


class Times(Publisher):
    """Appends the time of each publication, and how many tuples had come."""

    groups_windows = True

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._total = 0

    def stage(self, window_id: int, values: Sequence[int]) -> None:
        self._total = max([self._total, *values])

    def publish(self, window_id: int) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{time.time_ns()} {self._total}\n")


def application(path: str = "seen.txt", partitions: int = 2) -> Application:
    app = Application("steady-sums", window=WINDOW_SECONDS)
    numbers = app.add_operator("numbers", Numbers())
    sums = app.add_operator("sums", Sums(), partitions=int(partitions))
    seen = app.add_operator("seen", Seen(path=path))
    app.add_stream("numbers", numbers.output, sums.input)
    app.add_stream("sums", sums.output, seen.input)
    return app
