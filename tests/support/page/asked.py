"""An application of which the answer to each question is known: what is slow, hot, changed, or has failed."""

import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.cli.remote.client import Client
from ridgeline.plan.edits import SetProperty
from ridgeline.stram.changes import EditPlan
from ridgeline.testing import CollectorSink
from support.waiting import PATIENCE_SECONDS, wait_until

WINDOW_SECONDS = 0.5
PER_WINDOW = 40
WAITING = 40_000
"""Orders that wait at the start; none arrives."""
HOT = "berlin"
HOT_SHARE = 0.7
CITIES = (*[HOT] * 14, "paris", "oslo", "rome", "lima", "cairo", "quito")
FAILED = 5
"""The window that fails once."""
REASON = "the ledger's connection was reset"
CHANGED_FROM, CHANGED_TO = 0.0002, 0.008
"""Seconds that `parse` sleeps for each order, before ann's change and since."""
NOTE = "a new supplier"
WHO = "ann"


class Order(NamedTuple):
    number: int
    city: str
    at: datetime


class Parsed(NamedTuple):
    number: int
    city: str
    at: datetime
    partition: int


class Orders(InputOperator):
    """Orders that wait; so many of each window are of the hot city."""

    output = OutputPort(Order, timestamp="at")
    count = State(0)

    def emit_tuples(self) -> None:
        for number in range(self.count, self.count + PER_WINDOW):
            self.output.emit(Order(number, CITIES[number % len(CITIES)], datetime.now(UTC)))
        self.count += PER_WINDOW

    def progress(self) -> tuple[float, float | None]:
        return self.count, float(max(0, WAITING - self.count))


class Parse(Operator):
    """Sleeps for each order, and says in which partition."""

    orders = InputPort(Order, key="city")
    parsed = OutputPort(Parsed, timestamp="at")
    pause: float = CHANGED_FROM

    @orders.process
    def parse(self, order: Order) -> None:
        time.sleep(self.pause)
        self.parsed.emit(Parsed(*order, self.context.partition))


class Totals(Operator):
    """Counts by city. The first attempt at one window fails."""

    parsed = InputPort(Parsed, key="city")
    totals = OutputPort(Parsed, timestamp="at")
    struck: str = ""
    """A file that says that it has failed."""
    counts = KeyedState(int, key=str, default=0)

    def begin_window(self, window_id: int) -> None:
        if window_id == FAILED and not Path(self.struck).exists():
            Path(self.struck).touch()
            raise ConnectionResetError(REASON)

    @parsed.process
    def add(self, order: Parsed) -> None:
        self.counts[order.city] += 1
        self.totals.emit(order)


def application(folder: Path) -> Application:
    app = Application("asked", window=f"{round(1000 * WINDOW_SECONDS)}ms")
    orders = app.add_operator("orders", Orders())
    parse = app.add_operator("parse", Parse(), partitions=2)
    totals = app.add_operator("totals", Totals(struck=str(folder / "struck")))
    ledger = app.add_operator("ledger", CollectorSink(Parsed))
    app.add_stream("orders", orders.output, parse.orders)
    app.add_stream("parsed", parse.parsed, totals.parsed)
    app.add_stream("totals", totals.totals, ledger.input)
    return app


@contextmanager
def asked(context, folder):
    """It runs; once 15 windows are committed ann makes `parse` slower. `changed`: the window and the time."""
    handle = application(folder).start(context=context, checkpoint=str(folder / "checkpoint"), quiet=True)
    try:
        handle.client = Client(handle.url)
        committed(handle, 15)
        at = time.time()
        edit = SetProperty("parse", "pause", CHANGED_TO)
        change = handle._running().changes.ask(EditPlan((edit,), NOTE), WHO)
        assert change.done.wait(PATIENCE_SECONDS)
        handle.changed = change.window, at
        committed(handle, change.window + 9)
        yield handle
    finally:
        handle.stop(PATIENCE_SECONDS)


def committed(handle, window):
    """Wait until a window is committed."""
    wait_until(lambda: handle.watch.run()["windows"] > window, f"window {window}", every=0.05)
