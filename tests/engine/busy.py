"""An application whose time is known: A -> {B, C}, B -> D, C -> {E, F}, each operator busy for so long a window."""

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
    """Busy for `milliseconds` a window, from window `moved_at` on for `moved`; notes in `folder` how long it really was."""

    input = InputPort(Tick)
    output = OutputPort(Tick, optional=True)

    milliseconds: int
    moved: int = 0
    moved_at: int = 1_000_000
    folder: str = ""

    @input.process
    def work(self, tick):
        clock = self.context.clock
        start = clock.monotonic()
        clock.wait((self.moved if tick.window >= self.moved_at else self.milliseconds) / 1e3)
        seconds = clock.monotonic() - start
        if self.folder:
            Path(self.folder, f"{self.context.name}-{tick.window}").write_text(repr(seconds))
        self.output.emit(tick)


def busy_application(folder="", *, locality=None, moved_at=1_000_000, window=0):
    """`locality` NODE_LOCAL puts every operator into a container of its own, CONTAINER_LOCAL all into one."""
    app = Application("busy", window=window)
    ticks = app.add_operator("A", Ticks())
    steps = {
        name: app.add_operator(name, Busy(milliseconds=busy, moved=150 if name == "D" else busy, moved_at=moved_at, folder=str(folder)))
        for name, busy in BUSY.items()
    }
    app.add_stream("a", ticks.output, steps["B"].input, steps["C"].input, locality=locality)
    app.add_stream("b", steps["B"].output, steps["D"].input, locality=locality)
    app.add_stream("c", steps["C"].output, steps["E"].input, steps["F"].input, locality=locality)
    return app


def really(folder, name, window):
    """Seconds that an operator was busy in a window."""
    return float(Path(folder, f"{name}-{window}").read_text())
