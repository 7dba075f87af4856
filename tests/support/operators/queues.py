"""Two applications with a durable queue between them, for the tests of queues."""

from collections import defaultdict
from typing import NamedTuple

from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort
from ridgeline.operators import QueueInput, QueueOutput
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local


class Order(NamedTuple):
    customer: int
    number: int


class PassOn(Operator):
    """Divides the orders by customer, so that partitions of the queue have customers of their own."""

    orders = InputPort(Order, key="customer")
    passed = OutputPort(Order)

    @orders.process
    def on(self, order):
        self.passed.emit(order)


class Number(Operator):
    """Fails if an order of a customer comes twice, is missing, or comes out of order; or if `broken`."""

    broken: bool = False

    orders = InputPort(Order, key="customer")
    numbered = OutputPort(Order)
    last = KeyedState(int, default=-1)

    @orders.process
    def check(self, order):
        if self.broken:
            raise ValueError("as the test asked")
        expected = self.last[order.customer] + 1
        if order.number != expected:
            raise ValueError(f"customer {order.customer}: order {order.number} came, {expected} was due")
        self.last[order.customer] = order.number
        self.numbered.emit(order)


def orders(windows, a_window=20, customers=7):
    """Orders of all windows, numbered by customer."""
    counts = defaultdict(int)
    found = []
    for number in range(windows * a_window):
        customer = number * number % customers
        found.append(Order(customer, counts[customer]))
        counts[customer] += 1
    return found


def in_windows(rows, a_window=20):
    lists = []
    for start in range(0, len(rows), a_window):
        lists += [*rows[start : start + a_window], END_WINDOW]
    return lists


def writer(path, rows, partitions=1, **properties):
    app = Application("shop")
    source = app.add_operator("source", ListInput(Order, in_windows(rows)))
    divide = app.add_operator("divide", PassOn(), partitions=partitions)
    queue = app.add_operator("queue", QueueOutput(path=path, **properties))
    app.add_stream("orders", source.output, divide.orders)
    app.add_stream("divided", divide.passed, queue.input)
    return app


def reader(path, partitions=1, name="board", **properties):
    app = Application(name)
    queue = app.add_operator(
        "queue", QueueInput(path=path, schema=Order, **properties), partitions=partitions
    )
    check = app.add_operator("check", Number(), partitions=2)
    sink = app.add_operator("sink", CollectorSink(Order))
    app.add_stream("orders", queue.output, check.orders)
    app.add_stream("numbered", check.numbered, sink.input)
    return app


def read_all(path, folder, partitions=1, **properties):
    return run_local(reader(path, partitions, **properties), checkpoint=folder).collected("sink")
