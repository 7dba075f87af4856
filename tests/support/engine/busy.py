"""An application of known times: A -> {B, C}, B -> D, C -> {E, F}, each operator busy for a set time."""

import os
from pathlib import Path
from typing import NamedTuple

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort

BUSY = {"B": 5, "C": 100, "D": 30, "E": 20, "F": 2}


class Tick(NamedTuple):
    window: int


class Ticks(InputOperator):
    output = OutputPort(Tick)

    def emit_tuples(self):
        self.output.emit(Tick(self.context.window_id))


class Busy(Operator):
    """Busy for `milliseconds` a window, from `moved_at` on for `moved`; writes the real time to `folder`."""

    input = InputPort(Tick)
    output = OutputPort(Tick, optional=True)

    milliseconds: int
    moved: int = 0
    moved_at: int = 1_000_000
    folder: str = ""

    def setup(self, context):
        self.notes = (
            os.open(f"{self.folder}/{context.name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            if self.folder
            else None
        )

    def teardown(self):
        if self.notes is not None:
            os.close(self.notes)

    @input.process
    def work(self, tick):
        clock = self.context.clock
        start = clock.monotonic()
        clock.wait((self.moved if tick.window >= self.moved_at else self.milliseconds) / 1e3)
        seconds = clock.monotonic() - start
        if self.notes is not None:
            os.write(self.notes, f"{tick.window} {seconds!r}\n".encode())
        self.output.emit(tick)


def busy_application(folder="", *, locality=None, moved_at=1_000_000, window=0):
    """`locality` NODE_LOCAL puts every operator into a container of its own, CONTAINER_LOCAL all into one."""
    app = Application("busy", window=window)
    ticks = app.add_operator("A", Ticks())
    steps = {
        name: app.add_operator(
            name,
            Busy(
                milliseconds=busy, moved=150 if name == "D" else busy, moved_at=moved_at, folder=str(folder)
            ),
        )
        for name, busy in BUSY.items()
    }
    app.add_stream("a", ticks.output, steps["B"].input, steps["C"].input, locality=locality)
    app.add_stream("b", steps["B"].output, steps["D"].input, locality=locality)
    app.add_stream("c", steps["C"].output, steps["E"].input, steps["F"].input, locality=locality)
    return app


def really(folder, name, window):
    """Seconds that an operator was busy in a window."""
    notes = (line.split() for line in Path(folder, name).read_text().splitlines())
    return {int(number): float(seconds) for number, seconds in notes}[window]
