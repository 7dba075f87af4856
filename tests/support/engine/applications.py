"""Applications small enough to run on Spark in a second, for tests of the engine.

Their windows hold the same however slow the machine is, by `window_work`.
"""

import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pydantic import Field

from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State, Unifier
from ridgeline.testing import CollectorSink, ListInput


class Payment(NamedTuple):
    account: int
    cents: int
    time: datetime


class Balance(NamedTuple):
    account: int
    cents: int


class Number(NamedTuple):
    value: int


def payment(i):
    cents = (i * 7919) % 10_000 - (10_001 if i % 97 == 0 else 0)
    return Payment((i * 31) % 200, cents, datetime(2026, 1, 1, tzinfo=UTC) + timedelta(milliseconds=i))


class PaymentInput(InputOperator):
    """Reproducible payments; the union over partitions is the same for any number of them."""

    payments = OutputPort(Payment, timestamp="time")

    count: int = Field(default=2_000, ge=0)
    per_window: int = Field(default=200, gt=0)

    position = State(0)

    def emit_tuples(self):
        stop = min(self.position + self.per_window, self.count)
        for i in range(self.position, stop):
            if i % self.context.partitions == self.context.partition:
                self.payments.emit(payment(i))
        self.position = stop
        if stop == self.count:
            self.finish()


class Check(Operator):
    payments = InputPort(Payment)
    valid = OutputPort(Payment)
    rejected = OutputPort(Payment, error=True)

    @payments.process
    def examine(self, payment):
        (self.valid if payment.cents >= 0 else self.rejected).emit(payment)


class Balances(Operator):
    """Keyed state by its vectorised side."""

    payments = InputPort(Payment, key="account")
    balances = OutputPort(Balance)

    totals = KeyedState(int, default=0)

    @payments.process_batch
    def add(self, batch):
        accounts, index = np.unique(batch["account"].to_numpy(), return_inverse=True)
        added = np.zeros(len(accounts), dtype=np.int64)
        np.add.at(added, index, batch["cents"].to_numpy())
        self.totals.put_many(accounts, self.totals.get_many(accounts) + added)

    def end_window(self):
        accounts, totals = self.totals.changed_arrays()
        self.balances.emit_batch(pa.RecordBatch.from_arrays([accounts, totals], names=["account", "cents"]))


class MergeTop(Unifier):
    input = InputPort(Balance)
    output = OutputPort(Balance)

    def begin_window(self, window_id):
        self.seen = []

    @input.process
    def collect(self, balance):
        self.seen.append(balance)

    def end_window(self):
        for balance in largest(self.seen):
            self.output.emit(balance)


class TopBalances(Operator):
    """Keyed state tuple by tuple, in application windows."""

    balances = InputPort(Balance, key="account")
    top = OutputPort(Balance, unifier=MergeTop())

    known = KeyedState(int)

    @balances.process
    def note(self, balance):
        self.known[balance.account] = balance.cents

    def end_window(self):
        for balance in largest(Balance(*item) for item in self.known.items()):
            self.top.emit(balance)


def largest(balances: Iterable[Balance]):
    return sorted(balances, key=lambda balance: (-balance.cents, balance.account))[:5]


def payments_application(*, count=2_000, per_window=200):
    """Three shuffles, keyed state, a unifier, application windows of five, an error port."""
    app = Application("payments", window="1ms", window_work="1h")
    source = app.add_operator("payments", PaymentInput(count=count, per_window=per_window), partitions=2)
    check = app.add_operator("check", Check())
    balances = app.add_operator("balances", Balances(), partitions=3)
    top = app.add_operator("top", TopBalances(), partitions=2, application_window_count=5)
    app.add_stream("payments", source.payments, check.payments)
    app.add_stream("valid", check.valid, balances.payments)
    app.add_stream("balances", balances.balances, top.balances, sink(app, "balance_store", Balance))
    app.add_stream("top", top.top, sink(app, "top_store", Balance))
    app.add_stream("rejected", check.rejected, sink(app, "rejected_store", Payment))
    return app


def sink(app, name, schema):
    """The input port of a new collecting sink."""
    return app.add_operator(name, CollectorSink(schema)).input


class Counter(InputOperator):
    """Emits `per_window` numbers a window, from 0 to `count` - 1, one partition after the other in turn."""

    numbers = OutputPort(Number)

    count: int = 100
    per_window: int = 10

    position = State(0)

    def emit_tuples(self):
        stop = min(self.position + self.per_window, self.count)
        for i in range(self.position, stop):
            if i % self.context.partitions == self.context.partition:
                self.numbers.emit(Number(i))
        self.position = stop
        if stop == self.count:
            self.finish()


class Sum(Operator):
    """The sum of all numbers so far, once a window."""

    numbers = InputPort(Number)
    sums = OutputPort(Number)

    total = State(0)

    @numbers.process
    def add(self, number):
        self.total += number.value

    def end_window(self):
        self.sums.emit(Number(self.total))


class FailingSum(Sum):
    """Fails when it meets `bad`, as long as fewer than `failures` notes of failure lie in `folder`."""

    bad: int = -1
    failures: int = 1_000_000
    folder: str = ""

    def add_or_fail(self, number):
        notes = len(list(Path(self.folder).iterdir())) if self.folder else 0
        if number.value == self.bad and notes < self.failures:
            if self.folder:
                Path(self.folder, str(notes)).touch()
            raise ValueError(f"cannot add {number.value}")
        self.total += number.value

    numbers = InputPort(Number)
    numbers.process(add_or_fail)


class WaitingSum(Sum):
    """In window 1 it puts a file `waits` into `folder` and waits until the file `go` is there."""

    folder: str = ""

    def end_window(self):
        if self.context.window_id == 1:
            Path(self.folder, "waits").touch()
            while not Path(self.folder, "go").exists():
                time.sleep(0.01)
        self.sums.emit(Number(self.total))


def sum_application(summing=None, *, count=100, per_window=10, partitions=1, **attributes):
    """Numbers, their running sum, a sink; the sum in a container of its own."""
    app = Application("sums", window="1ms", window_work="1h")
    source = app.add_operator("numbers", Counter(count=count, per_window=per_window), partitions=partitions)
    total = app.add_operator("total", summing or Sum(), **attributes)
    app.add_stream("numbers", source.numbers, total.numbers, locality="NODE_LOCAL")
    app.add_stream("sums", total.sums, sink(app, "store", Number))
    return app


def list_application(items, *, partitions=2):
    """A list of numbers, their running sums in each partition, a sink."""
    app = Application("list", window="1ms", window_work="1h")
    source = app.add_operator("numbers", ListInput(Number, items), partitions=partitions)
    total = app.add_operator("total", Sum())
    app.add_stream("numbers", source.output, total.numbers)
    app.add_stream("sums", total.sums, sink(app, "store", Number))
    return app
