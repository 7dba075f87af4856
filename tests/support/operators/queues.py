"""Two applications with a durable queue between them, for the tests of queues."""

import threading
from collections import defaultdict
from functools import partial
from typing import NamedTuple

from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort
from ridgeline.operators import QueueInput, QueueOutput
from ridgeline.testing import END_WINDOW, CollectorSink, Faults, ListInput, run_local


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
    source = app.read("source", ListInput(Order, in_windows(rows)))
    divided = source.process("divide", PassOn(), partitions=partitions)
    divided.write("queue", QueueOutput(path=path, **properties))
    return app


def reader(path, partitions=1, name="board", **properties):
    app = Application(name)
    queue = app.read("queue", QueueInput(path=path, schema=Order, **properties), partitions=partitions)
    queue.process("check", Number(), partitions=2).write("sink", CollectorSink(Order))
    return app


def check_both_sides(path, folder, random, *, kinds=("exception", "kill", "repeat", "restart")):
    """Writer and reader stop in turn, fail and change their partitions; each row comes once."""
    rows, found = orders(12), []
    while len(found) < len(rows):
        for side, make in (
            ("writer", lambda many: writer(path, rows, many)),
            ("reader", partial(reader, path)),
        ):
            run = run_local(
                make(random.choice([1, 2, 3])),
                checkpoint=folder / side,
                windows=random.randrange(1, 6),
                faults=Faults(seed=random.randrange(2**32), rate=0.05, kinds=kinds),
                interleave=random.choice([None, random.randrange(1000)]),
            )
            found += run.collected("sink") if side == "reader" else []
    assert sorted(found) == sorted(rows)


def check_reading_while_it_is_written(path, folder):
    rows, found = orders(6), []
    run_local(writer(path, rows), checkpoint=folder / "writer", windows=1)
    beside = threading.Thread(target=lambda: found.extend(read_all(path, folder / "reader")))
    beside.start()
    run_local(writer(path, rows), checkpoint=folder / "writer")
    beside.join(60)
    assert sorted(found) == sorted(rows)


def read_all(path, folder, partitions=1, **properties):
    return run_local(reader(path, partitions, **properties), checkpoint=folder).collected("sink")
