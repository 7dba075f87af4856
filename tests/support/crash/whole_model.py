"""An application with timers, control tuples, declared metrics and dead letters, to be killed."""

import time
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ridgeline import (
    Application,
    InputOperator,
    InputPort,
    KeyedState,
    Metric,
    Operator,
    OutputPort,
    State,
    Timers,
)
from ridgeline.operators import FileOutput

START = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = 11
PER_WINDOW = 20


class Reading(NamedTuple):
    key: int
    value: int
    time: datetime


class Found(NamedTuple):
    kind: str
    key: int
    value: int


class Flush(NamedTuple):
    number: int


class Readings(InputOperator):
    """So many readings a window, and a control tuple in every seventh window."""

    readings = OutputPort(Reading, timestamp="time", lateness="0s")
    windows: int = 60
    pause_seconds: float = 0.0
    count = State(0)

    def emit_tuples(self) -> None:
        time.sleep(self.pause_seconds)
        window = self.count // PER_WINDOW
        if window % 7 == 3:
            self.readings.emit_control(Flush(window))
        for number in range(self.count, self.count + PER_WINDOW):
            self.readings.emit(Reading(number % KEYS, number, START + timedelta(milliseconds=100 * number)))
        self.count += PER_WINDOW
        if window + 1 == self.windows:
            self.finish()


class Watch(Operator):
    """Sums by key; a timer per reading of an even key; refuses every 13th value."""

    readings = InputPort(Reading, key="key")
    found = OutputPort(Found)
    taken = Metric(0, kind="counter")
    sums = KeyedState(int, default=0)
    quiet = Timers(key=int, by="record")

    @readings.process
    def take(self, reading: Reading) -> None:
        if reading.value % 13 == 5:
            raise ValueError(f"{reading.value} is refused")
        self.taken += 1
        self.sums[reading.key] += reading.value
        self.found.emit(Found("sum", reading.key, self.sums[reading.key]))
        if reading.key % 2 == 0:
            self.quiet.set(
                reading.key, reading.time + timedelta(milliseconds=900 + 100 * (reading.value % 5))
            )

    @readings.control
    def flush(self, flush: Flush) -> None:
        self.found.emit(Found("flush", self.context.partition, flush.number))

    @quiet.expired
    def fire(self, key: int, when: datetime) -> None:
        self.found.emit(Found("quiet", key, round((when - START).total_seconds() * 10)))


def application(output: str, partitions: str = "2") -> Application:
    app = Application("whole-model", window="10ms", recovery_attempts=1000)
    readings = app.add_operator("readings", Readings())
    watch = app.add_operator("watch", Watch(), partitions=int(partitions), on_error="SKIP")
    found = app.add_operator("found", FileOutput(path=f"{output}/found", format="jsonl", roll_seconds=0.2))
    app.add_stream("readings", readings.readings, watch.readings)
    app.add_stream("found", watch.found, found.input)
    app.dead_letters(FileOutput(path=f"{output}/refused", format="jsonl", roll_seconds=0.2))
    return app
