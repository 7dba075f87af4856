"""Applications with faulty streams, ports and shapes."""

from __future__ import annotations

from typing import Any, NamedTuple

from ridgeline.api import Application, InputOperator, InputPort, Operator, OutputPort
from support.plan.faulty import Listing
from support.plan.parts import Balance, Balances, Check, Filter, Payment, Source, Store
from support.rows import in_a_row

faulty = Listing()


@faulty(
    "`source`: its output port is not connected; begin a stream at `source.payments`",
    "`check.payments`: the input port is not ... declare it with `optional=True`",
    "`check`: none of its output ports is connected; ... `check.valid`, `check.rejected`",
    "`store.input`: the input port is not connected; ... declare it with `optional=True`",
)
def nothing_connected() -> Application:
    app = Application("test")
    for name, operator in {"source": Source(), "check": Check(), "store": Store()}.items():
        app.add_operator(name, operator)
    return app


class Choosy(Operator):
    payments = InputPort(Payment)
    main = OutputPort(Payment, optional=False)
    extra = OutputPort(Payment)

    @payments.process
    def go(self, payment: Payment) -> None: ...


@faulty("`choosy.main`: the output port must be ... choosy.main, ...)`")
def required_output_not_connected() -> Application:
    app = Application("test")
    source = app.add_operator("source", Source())
    choosy = app.add_operator("choosy", Choosy())
    store = app.add_operator("store", Store())
    app.add_stream("payments", source.payments, choosy.payments)
    app.add_stream("extra", choosy.extra, store.input)
    return app


@faulty(
    "`source.payments`: 2 streams begin at this ... source.payments, ...)`",
    "`store.input`: 2 streams end at this input ... them in an operator before it",
)
def two_streams_on_one_port() -> Application:
    app = Application("test")
    source = app.add_operator("source", Source())
    other = app.add_operator("other", Source())
    store = app.add_operator("store", Store())
    third = app.add_operator("third", Store())
    app.add_stream("one", source.payments, store.input)
    app.add_stream("two", source.payments, third.input)
    app.add_stream("three", other.payments, store.input)
    return app


class Silent(Operator):
    out = OutputPort(Payment)


class Lazy(Operator):
    data = InputPort(Payment, optional=True)
    out = OutputPort(Payment)

    @data.process
    def go(self, payment: Payment) -> None: ...


class Confused(InputOperator):
    data = InputPort(Payment)
    out = OutputPort(Payment)


@faulty(
    "`silent`: nothing leads to it, but `Silent` is ... or derive it from `InputOperator`",
    "`lazy`: nothing leads to it, but `Lazy` is no ... or derive it from `InputOperator`",
    "`confused`: the input operator `Confused` has ... from `Operator`, or remove them",
)
def roots_that_cannot_be() -> Application:
    app = Application("test")
    for name, kind in (("silent", Silent), ("lazy", Lazy), ("confused", Confused)):
        operator: Any = app.add_operator(name, kind())
        store = app.add_operator(f"{name}_store", Store())
        app.add_stream(name, operator.out, store.input)
    return app


@faulty("`check.processing_mode`: it is AT_MOST_ONCE, ... too, or this one AT_LEAST_ONCE")
def at_most_once_upstream() -> Application:
    modes = ("AT_MOST_ONCE", "at_most_once", "EXACTLY_ONCE")
    first, second, third = ({"processing_mode": mode} for mode in modes)
    return in_a_row(
        Application("test"),
        source=(Source(), first),
        check=(Check(), second),
        balances=(Balances(), third),
        store=Store(),
    )


class Misspelt(NamedTuple):
    account: Payments  # noqa: F821


class Unreadable(Operator):
    number = InputPort(int)
    fields = InputPort({"account": int})
    misspelt = OutputPort(Misspelt)

    @number.process
    def go(self, tuple: Any) -> None: ...


@faulty(
    "`unreadable.number`: <class 'int'> cannot be a ... a `polars.Schema` or `object`",
    "`unreadable.fields`: {'account': <class 'int'>} ... a `polars.Schema` or `object`",
    "`unreadable.misspelt`: the types of `Misspelt` ... define them at module level",
    "`unreadable.fields`: no method of `Unreadable` ... or `@fields.process_batch`, above other decorators",
)
def ports_that_are_no_ports() -> Application:
    app = Application("test")
    source = app.add_operator("source", Source())
    unreadable = app.add_operator("unreadable", Unreadable())
    store = app.add_operator("store", Store())
    app.add_stream("payments", source.payments, unreadable.number, unreadable.fields)
    app.add_stream("out", unreadable.misspelt, store.input)
    return app


class Nothing(InputOperator):
    out = OutputPort(Any)


@faulty("`nothing.out`: the output port is declared as ... ...)` in `__init__`")
def nobody_knows_the_schema() -> Application:
    return in_a_row(Application("test"), nothing=Nothing(), keep=Filter(), store=Store())


class Odd(NamedTuple):
    name: str
    parts: dict[str, int]


class Naming(Source):
    column: str = "tme"

    def timestamp_of(self, port: str) -> str | None:
        return self.column


class BadKeys(Operator):
    payments = InputPort(Payment, key=("acount", "time"))
    pickled = InputPort(object, key="account", optional=True)
    odd = InputPort(Odd, key="parts", optional=True)
    late = OutputPort(Payment, timestamp="tme")
    never = OutputPort(Balance, timestamp="time")
    wrong = OutputPort(Payment, timestamp="cents")

    @payments.process
    def one(self, tuple: Any) -> None: ...

    @pickled.process
    def two(self, tuple: Any) -> None: ...

    @odd.process
    def three(self, tuple: Any) -> None: ...


@faulty(
    "`bad.payments`: the key column `acount` is not ... tz=UTC]); did you mean `account`?",
    "`bad.pickled`: the key is `account`, but tuples ... function: `key=lambda tuple: ...`",
    "`bad.odd`: the column `parts` is map<string, ... or datetime, or give a function",
    "`bad.late`: the timestamp column `tme` is not ... tz=UTC]); did you mean `time`?",
    "`bad.never`: the timestamp column `time` is not ... tuples a column of type datetime",
    '`bad.wrong`: the timestamp column `cents` is ... "ms"))`',
    "`named.payments`: the timestamp column `tme` is ... tz=UTC]); did you mean `time`?",
)
def columns_that_are_not_there() -> Application:
    app = Application("test")
    source = app.add_operator("source", Source())
    bad = app.add_operator("bad", BadKeys())
    store = app.add_operator("store", Store())
    app.add_stream("payments", source.payments, bad.payments)
    app.add_stream("late", bad.late, store.input)
    named = app.add_operator("named", Naming())
    more = app.add_operator("more", Store())
    app.add_stream("more", named.payments, more.input)
    return app
