"""Applications whose keys cannot meet, or whose state by key nobody divides."""

from __future__ import annotations

from typing import Any, NamedTuple

from ridgeline.api import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, StreamCodec
from support.plan.faulty import Listing
from support.plan.parts import Store
from support.rows import in_a_row

faulty = Listing()


class Order(NamedTuple):
    account: int
    name: str
    price: float


class Account(NamedTuple):
    account: str
    name: str


class Orders(InputOperator):
    out = OutputPort(Order)


class Accounts(InputOperator):
    out = OutputPort(Account)


class ByText(Operator):
    orders = InputPort(Order, key="account")
    accounts = InputPort(Account, key="account")

    @orders.process
    def one(self, order: Order) -> None: ...

    @accounts.process
    def two(self, account: Account) -> None: ...


class ByMore(Operator):
    orders = InputPort(Order, key=["account", "name"])
    accounts = InputPort(Account, key="name")

    @orders.process
    def one(self, order: Order) -> None: ...

    @accounts.process
    def two(self, account: Account) -> None: ...


class ByLength(StreamCodec):
    def hash(self, tuple: Any) -> int:
        return len(tuple.name)


class ByCodec(Operator):
    orders = InputPort(Order, codec=ByLength())
    accounts = InputPort(Account, key="name")

    @orders.process
    def one(self, order: Order) -> None: ...

    @accounts.process
    def two(self, account: Account) -> None: ...


def joined(join: Any) -> Application:
    app = Application("test")
    orders = app.add_operator("orders", Orders())
    accounts = app.add_operator("accounts", Accounts())
    app.add_operator("join", join, partitions=2)
    app.add_stream("all_orders", orders.out, join.orders)
    app.add_stream("all_accounts", accounts.out, join.accounts)
    return app


@faulty("`join`: it has 2 partitions, and equal keys of ... such as `KeyedPartitioner()`")
def numbers_against_texts() -> Application:
    return joined(ByText())


class Counting(Operator):
    orders = InputPort(Order)
    accounts = InputPort(Account, key="account", optional=True)

    counts = KeyedState(int, default=0)

    @orders.process
    def one(self, order: Order) -> None: ...

    @accounts.process
    def two(self, account: Account) -> None: ...


class CountingAlong(Operator):
    orders = InputPort(Order, parallel=True)

    counts = KeyedState(int, default=0)
    sums = KeyedState(int, default=0)

    @orders.process
    def one(self, order: Order) -> None: ...


def counting(counter: Any, *, upstream: int = 1, **attributes: Any) -> Application:
    return in_a_row(
        Application("test"), orders=(Orders(), {"partitions": upstream}), counts=(counter, attributes)
    )


@faulty("`counts`: state `counts`, `sums` is kept by key ... only, else without `parallel`")
def state_by_key_beside_an_upstream_of_any_partitions() -> Application:
    return counting(CountingAlong(), upstream=2)


class CountingByKey(CountingAlong):
    orders = InputPort(Order, key="account", parallel=True)

    @orders.process
    def three(self, order: Order) -> None: ...


class Passing(Operator):
    orders = InputPort(Order)
    out = OutputPort(Order)

    @orders.process
    def pass_on(self, order: Order) -> None: ...


class PassingAlong(Passing):
    orders = InputPort(Order, parallel=True)

    @orders.process
    def pass_along(self, order: Order) -> None: ...


@faulty("`counts`: state `counts`, `sums` is kept by key ... then it is divided by its key")
def state_by_key_that_follows_round_robin() -> Application:
    return in_a_row(
        Application("test"),
        orders=Orders(),
        passing=(Passing(), {"partitions": 2}),
        along=PassingAlong(),
        counts=CountingByKey(),
    )


class Newest(Passing):
    orders = InputPort(Order, order="KEPT")
    orders.process(Passing.pass_on)


@faulty(
    "`newest.orders`: it needs the tuples of a key in ... or give `passing` one partition",
    "`newest.orders`: it needs the tuples of a key in ... or give `newest` one partition",
)
def order_that_round_robin_loses() -> Application:
    return in_a_row(
        Application("test"),
        orders=Orders(),
        passing=(Passing(), {"partitions": 3}),
        between=Passing(),
        newest=(Newest(), {"partitions": 2}),
        store=Store(),
    )
