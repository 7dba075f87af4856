"""The application on the pictures of the docs: orders that come at a rate, a hot city, a change too many."""

from __future__ import annotations

import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from ridgeline import (
    Application,
    InputOperator,
    InputPort,
    KeyedState,
    Module,
    Operator,
    OutputPort,
    State,
)
from ridgeline.operators import Filter
from ridgeline.plan.edits import SetProperty
from ridgeline.sla import record_age, window_latency
from ridgeline.stram.changes import EditPlan
from ridgeline.testing import CountSink
from support.service.history import events, write_log
from support.waiting import PATIENCE_SECONDS, wait_until

WINDOW = "250ms"
PER_SECOND = 200
FAILED = 8
"""The window that fails once."""
CITIES = (
    *("berlin", "paris", "oslo", "rome", "berlin", "lima", "cairo", "quito", "accra", "dakar"),
    *("berlin", "delhi", "hanoi", "kyoto", "lagos", "milan", "osaka", "paris", "perth", "seoul"),
)
QUICK, SLOW = 0.0004, 0.006
"""Seconds that `score` takes for an order, before ann's change and since."""
WHO, NOTE = "ann", "a larger model"


class Order(NamedTuple):
    number: int
    city: str
    amount: float
    at: datetime


class Orders(InputOperator):
    """Orders that arrive at a rate, whether they are taken or not."""

    output = OutputPort(Order, timestamp="at")
    progress_unit = "records"

    per_second: int = PER_SECOND
    count = State(0)
    began = State(0.0)

    def emit_tuples(self) -> None:
        self.began = self.began or time.time()
        end = min(self._arrived(), self.count + self.context.budget)
        for number in range(self.count, int(end)):
            at = datetime.fromtimestamp(self.began + number / self.per_second, UTC)
            self.output.emit(Order(number, CITIES[number % len(CITIES)], float(number % 50), at))
        self.count = int(end)

    def progress(self) -> tuple[float, float | None]:
        return self.count, float(max(0, self._arrived() - self.count))

    def _arrived(self) -> int:
        return int((time.time() - self.began) * self.per_second) if self.began else 0


class Check(Operator):
    """Let orders with an amount through, and say which have none."""

    data = InputPort(Order)
    valid = OutputPort(Order, timestamp="at")
    invalid = OutputPort(Order, error=True, optional=True)

    @data.process
    def check(self, order: Order) -> None:
        if order.amount:
            self.valid.emit(order)
            return
        self.invalid.emit(order)
        if order.number % 500 == 0:
            print(f"order {order.number} from {order.city} has no amount")


class Enrich(Operator):
    """Pass orders on. The first attempt at one window fails."""

    data = InputPort(Order)
    output = OutputPort(Order, timestamp="at")
    failed: str = ""
    """A file that says that it has failed."""

    def begin_window(self, window_id: int) -> None:
        if window_id == FAILED and not Path(self.failed).exists():
            Path(self.failed).touch()
            raise ConnectionResetError("the connection to the directory was reset")

    @data.process
    def enrich(self, order: Order) -> None:
        self.output.emit(order)


class Clean(Module):
    """Checked orders, enriched."""

    failed: str = ""
    orders = InputPort(Order)
    clean = OutputPort(Order)

    def populate(self, app: Application) -> None:
        check = app.add_operator("check", Check())
        enrich = app.add_operator("enrich", Enrich(failed=self.failed))
        app.add_stream("valid", check.valid, enrich.data)
        self.orders.connect(check.data)
        self.clean.connect(enrich.output)


class Score(Operator):
    """Take long over each order: the operator that the critical path names."""

    data = InputPort(Order, key="city")
    output = OutputPort(Order, timestamp="at")
    pause: float = QUICK
    seen = KeyedState(int, key=str, default=0)

    @data.process
    def score(self, order: Order) -> None:
        self.seen[order.city] += 1
        time.sleep(self.pause)
        self.output.emit(order)


def pictured_application(failed: Path) -> Application:
    app = Application("orders", window=WINDOW)
    orders = app.add_operator("orders", Orders())
    clean = app.add_module("clean", Clean(failed=str(failed)))
    score = app.add_operator("score", Score())
    large = app.add_operator("large", Filter[Order](lambda order: order.amount > 40))
    ledger, alarms = (app.add_operator(name, CountSink()) for name in ("ledger", "alarms"))
    app.add_stream("orders", orders.output, clean.orders)
    app.add_stream("clean", clean.clean, score.data)
    app.add_stream("scored", score.output, large.data, ledger.input)
    app.add_stream("large", large.output, alarms.input)
    app.promise(record_age("ledger", p99="5s"), window_latency(p99="2s"))
    return app


@contextmanager
def pictured(context, folder):
    """It runs, after an earlier run; event logs are in `logs`. `slow()`: ann's change, which is too much."""
    logs = folder / "logs"
    logs.mkdir()
    began = time.time() - 86_400
    write_log(logs / "sunday.jsonl", events(400, began=began, end="failed", reason="the disk is full"))

    def start(day):
        app, log = pictured_application(folder / f"{day} failed"), str(logs / f"{day}.jsonl")
        return app.start(context=context, checkpoint=str(folder / day), quiet=True, event_log=log)

    monday = start("monday")
    wait_until(lambda: monday.watch.run()["windows"] > FAILED + 4, "the earlier run", every=0.05)
    monday.stop(PATIENCE_SECONDS)
    handle = start("tuesday")

    def slow():
        change = handle._running().changes.ask(EditPlan((SetProperty("score", "pause", SLOW),), NOTE), WHO)
        wait_until(change.done.is_set, "the change", every=0.05)

    handle.slow, handle.logs = slow, logs
    try:
        yield handle
    finally:
        handle.stop(PATIENCE_SECONDS)
