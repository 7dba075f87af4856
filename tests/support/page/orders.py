"""An application for the page: a module, partitions of which one is slow, a hot key, errors, late records."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ridgeline import (
    Application,
    InputOperator,
    InputPort,
    KeyedState,
    Metric,
    Module,
    Operator,
    OutputPort,
    State,
)
from ridgeline.operators import Filter
from ridgeline.testing import CountSink

HOT = "berlin"
"""The city of most orders."""
CITIES = (HOT, HOT, HOT, HOT, "paris", "oslo", "rome", HOT, "lima", "cairo")
BRANCHES = 4
"""Equal branches behind the score."""
_LATE = timedelta(minutes=5)


class Order(NamedTuple):
    number: int
    city: str
    amount: float
    at: datetime


class Orders(InputOperator):
    """A number of orders in each window; some of them come too late."""

    output = OutputPort(Order, timestamp="at", lateness="2s")
    per_window: int = 40
    count = State(0)

    def emit_tuples(self) -> None:
        now = datetime.now(UTC)
        for number in range(self.count, self.count + self.per_window):
            at = now - _LATE if number % 97 == 96 else now
            self.output.emit(Order(number, CITIES[number % len(CITIES)], float(number % 50), at))
        self.count += self.per_window


class Check(Operator):
    """Let orders with an amount through; count the others as errors."""

    data = InputPort(Order)
    valid = OutputPort(Order)
    invalid = OutputPort(Order, error=True, optional=True)
    refused = Metric(0, kind="counter", help="Orders without an amount.")

    @data.process
    def check(self, order: Order) -> None:
        if order.amount:
            self.valid.emit(order)
        else:
            self.refused += 1
            self.invalid.emit(order)


class Enrich(Operator):
    """Pass orders on."""

    data = InputPort(Order)
    output = OutputPort(Order)

    @data.process
    def pass_on(self, order: Order) -> None:
        self.output.emit(order)


class Clean(Module):
    """Checked orders, enriched."""

    orders = InputPort(Order)
    clean = OutputPort(Order)

    def populate(self, app: Application) -> None:
        check = app.add_operator("check", Check())
        enrich = app.add_operator("enrich", Enrich())
        app.add_stream("valid", check.valid, enrich.data)
        self.orders.connect(check.data)
        self.clean.connect(enrich.output)


class Score(Operator):
    """Take long over each order: the operator that the critical path must name."""

    data = InputPort(Order, key="city")
    output = OutputPort(Order)
    microseconds: int = 1_000
    password: str = "geheim"
    seen = KeyedState(int, key=str, default=0)

    @data.process
    def score(self, order: Order) -> None:
        self.seen[order.city] += 1
        time.sleep(self.microseconds / 1e6)
        self.output.emit(order)


def orders_application(window: str = "100ms") -> Application:
    """The application, named `orders`."""
    app = Application("orders", window=window)
    orders = app.add_operator("orders", Orders())
    clean = app.add_module("clean", Clean())
    score = app.add_operator("score", Score(), partitions=3)
    store = app.add_operator("store", CountSink())
    app.add_stream("orders", orders.output, clean.orders)
    app.add_stream("clean", clean.clean, score.data)
    sinks = [store.input]
    for number in range(BRANCHES):
        chosen = app.add_operator(f"branch_{number}", Filter[Order](lambda order: order.amount > 10))
        count = app.add_operator(f"count_{number}", CountSink())
        app.add_stream(f"chosen_{number}", chosen.output, count.input)
        sinks.append(chosen.data)
    app.add_stream("scored", score.output, *sinks)
    return app
