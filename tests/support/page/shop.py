"""An application that pages show: orders, their parsing in two partitions, totals by customer, two sinks."""

import time
from datetime import UTC, datetime
from typing import NamedTuple

from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.testing import CollectorSink, NullSink


class Order(NamedTuple):
    customer: int
    cents: int
    at: datetime


class Orders(InputOperator):
    output = OutputPort(Order, timestamp="at")

    per_window: int = 20
    password: str = "hunter2"

    count = State(0)

    def emit_tuples(self) -> None:
        for number in range(self.count, self.count + self.per_window):
            self.output.emit(Order(number % 7, number % 90, datetime.now(UTC)))
        self.count += self.per_window

    def progress(self) -> tuple[float, float | None]:
        return self.count, 40.0


class Parse(Operator):
    input = InputPort(Order)
    output = OutputPort(Order, timestamp="at")
    rejected = OutputPort(Order, error=True)

    pause: float = 0.0005

    @input.process
    def parse(self, order: Order) -> None:
        time.sleep(self.pause)
        if order.cents == 0:
            self.rejected.emit(order)
        else:
            self.output.emit(order)


class Totals(Operator):
    """The totals of customers."""

    input = InputPort(Order, key="customer")
    output = OutputPort(Order, timestamp="at")

    factor: int = 1

    totals = KeyedState(int, key=int, default=0)

    @input.process
    def add(self, order: Order) -> None:
        self.totals[order.customer] += self.factor * order.cents
        self.output.emit(order)


def shop(window="100ms", partitions=2, orders=Orders, totals=Totals) -> Application:
    app = Application("shop", window=window)
    orders = app.add_operator("orders", orders())
    parse = app.add_operator("parse", Parse(), partitions=partitions)
    totals = app.add_operator("totals", totals())
    ledger = app.add_operator("ledger", CollectorSink(Order))
    audit = app.add_operator("audit", NullSink())
    app.add_stream("orders", orders.output, parse.input)
    app.add_stream("parsed", parse.output, totals.input, audit.input)
    app.add_stream("totals", totals.output, ledger.input)
    return app
