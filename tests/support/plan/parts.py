"""Operators that the plans of these tests are made of. They are planned, never run."""

from datetime import datetime
from typing import Any, NamedTuple

from pydantic import Field

from ridgeline.api import Application, InputOperator, InputPort, Operator, OutputPort, Unifier
from ridgeline.api.operator import PassThroughUnifier


class Payment(NamedTuple):
    account: int
    cents: int
    time: datetime


class Balance(NamedTuple):
    account: int
    cents: int


class Source(InputOperator):
    payments = OutputPort(Payment, timestamp="time")

    count: int = Field(default=10, ge=0)
    accounts: list[int] = Field(default=[1, 2], min_length=1)


class Check(Operator):
    payments = InputPort(Payment)
    valid = OutputPort(Payment)
    rejected = OutputPort(Payment, error=True)

    @payments.process
    def check(self, payment: Payment) -> None: ...


class Balances(Operator):
    payments = InputPort(Payment, key="account")
    balances = OutputPort(Balance)

    @payments.process_batch
    def add(self, batch: Any) -> None: ...

    def slider_of(self, port: str) -> type[Unifier]:
        return PassThroughUnifier


class Join(Operator):
    left = InputPort(Payment, key="account")
    right = InputPort(Balance, key="account")
    joined = OutputPort(Balance, optional=True)

    @left.process
    def note(self, payment: Payment) -> None: ...

    @right.process
    def join(self, balance: Balance) -> None: ...


class Filter(Operator):
    data = InputPort(Any)
    passed = OutputPort(Any)

    @data.process
    def filter(self, tuple: Any) -> None: ...


class Follow(Operator):
    payments = InputPort(Payment, parallel=True)
    valid = OutputPort(Payment)

    @payments.process
    def check(self, payment: Payment) -> None: ...


class Store(Operator):
    input = InputPort(Any)

    path: str = "store"

    @input.process_batch
    def write(self, batch: Any) -> None: ...


class MergeBalances(Unifier):
    input = InputPort(Balance)
    output = OutputPort(Balance)

    size: int = Field(default=10, gt=0)

    @input.process
    def merge(self, balance: Balance) -> None: ...


class TopBalances(Operator):
    balances = InputPort(Balance, key="account")
    top = OutputPort(Balance, unifier=MergeBalances(size=3))

    @balances.process
    def note(self, balance: Balance) -> None: ...


def payments_app() -> Application:
    """Source (2) -> check (1) -> balances (3) -> top (2) and a store, top -> store, rejected -> store."""
    app = Application("payments", window="200ms")
    source = app.add_operator("source", Source(), partitions=2)
    check = app.add_operator("check", Check())
    balances = app.add_operator("balances", Balances(), partitions=3)
    top = app.add_operator("top", TopBalances(), partitions=2, application_window_count=5)
    stores = {
        name: app.add_operator(name, Store()) for name in ("balance_store", "top_store", "rejected_store")
    }
    app.add_stream("payments", source.payments, check.payments)
    app.add_stream("valid", check.valid, balances.payments)
    app.add_stream("balances", balances.balances, top.balances, stores["balance_store"].input)
    app.add_stream("top", top.top, stores["top_store"].input)
    app.add_stream("rejected", check.rejected, stores["rejected_store"].input)
    return app
