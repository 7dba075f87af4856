"""Applications with faulty modules."""

from __future__ import annotations

from typing import Any

from ridgeline.api import Application, InputPort, Module, OutputPort, State
from support.plan.faulty import Listing
from support.plan.module_parts import Checked, Totals, around
from support.plan.parts import Balance, Balances, Check, Filter, Payment, Store

faulty = Listing()


class Made(Module):
    """A module that a function populates."""

    payments = InputPort(Payment)
    valid = OutputPort(Payment)

    how: Any = None

    def populate(self, app: Application) -> None:
        self.how(self, app)


@faulty(
    "`m.limits`: `Checked` has no property `limits`; did you mean `limit`?",
    "`m.limit`: property `limit` of `Checked` is 0; ... or with `-D m.limit=...`",
)
def properties_of_a_module() -> Application:
    return around(Checked(limit=0, limits=1))


@faulty(
    "`m.lim`: module `m` has no property, operator or module `lim`; did you mean `limit`?",
    "`m.checked.chek.x`: module `m.checked` has no ... `chek`; did you mean `check`?",
    "`m.log.pth`: `Store` has no property `pth`; did you mean `path`?",
    properties={"m.lim": "1", "m.checked.chek.x": "1", "m.log.pth": "1"},
)
def overrides_that_reach_nothing() -> Application:
    class Limited(Totals):
        limit: int = 1

    return around(Limited())


@faulty("`m`: `Made.populate` raised ValueError: no such ... give the module other properties")
def populate_raises() -> Application:
    names: dict[str, Any] = {}
    exec("def how(module, app):\n    raise ValueError('no such table')", names)
    return around(Made(how=names["how"]))


@faulty(
    "`m.payments`: `populate` of `Made` connects the ... in it",
    "`m.valid`: `populate` of `Made` connects the ... `self.valid.connect(...)` in it",
)
def ports_connected_to_nothing() -> Application:
    return around(Made(how=lambda module, app: None))


def twice(module: Any, app: Application) -> None:
    check = app.add_operator("check", Check())
    filter = app.add_operator("filter", Filter())
    app.add_stream("between", check.valid, filter.data)
    module.payments.connect(check.payments, check.payments)
    module.valid.connect(filter.passed)
    module.valid.connect(check.rejected)


@faulty(
    "`m.payments`: `populate` of `Made` connects the ... twice; connect each port once",
    "`m.valid`: `populate` of `Made` connects the ... several in an operator before",
    "`m.filter`: its output port is not connected; begin a stream at `m.filter.passed`",
)
def ports_connected_twice() -> Application:
    return around(Made(how=twice))


def refuse_direction(module: Any, app: Application) -> None:
    check = app.add_operator("check", Check())
    module.payments.connect(check.valid)


@faulty("`m`: `Made.populate` raised StructureError: the ... or give the module other properties")
def ports_connected_the_wrong_way() -> Application:
    return around(Made(how=refuse_direction))


class Around(Module):
    """Has the operator of another place in it."""

    payments = InputPort(Payment)
    valid = OutputPort(Payment)

    source: Any = None

    def __post_init__(self) -> None:
        self.check = Check()

    def populate(self, app: Application) -> None:
        app.add_operator("check", self.check)
        self.payments.connect(self.check.payments)
        self.valid.connect(self.check.valid)
        if self.source is not None:
            app.add_stream("far", self.source.payments, app.add_operator("log", Store()).input)


@faulty("`m`: `Around.populate` raised StructureError: the ... or give the module other properties")
def ports_of_another_place() -> Application:
    app = around(module := Around())
    module.source = app.operators[0].operator
    return app


class Elsewhere(Around):
    """Has an operator of its own, which it does not add."""

    def populate(self, app: Application) -> None:
        self.payments.connect(self.check.payments)
        self.valid.connect(app.add_operator("check", Check()).valid)


@faulty(
    "`m.payments`: `populate` of `Elsewhere` connects ... of an operator that `populate` adds",
    "`m.check.payments`: the input port is not connected; ... declare it with `optional=True`",
)
def a_port_of_what_is_not_added() -> Application:
    return around(Elsewhere())


class Endless(Module):
    payments = InputPort(Payment)
    valid = OutputPort(Payment)

    def populate(self, app: Application) -> None:
        for number in range(3):
            inner = app.add_module(f"n{number}", Endless())
            self.payments.connect(inner.payments)
        self.valid.connect(inner.valid)


@faulty(
    "`m.n0.n0.n0.n0.n0.n0.n0.n0.n0.n0.n0.n0.n0.n0.n0 ... as by a property that counts down",
)
def a_module_that_contains_another_of_its_kind_without_end() -> Application:
    return around(Endless())


class Itself(Checked):
    def populate(self, app: Application) -> None:
        super().populate(app)
        app.add_module("again", self)


@faulty("`m.again`: module `Itself` contains itself; add another module, or none")
def a_module_that_contains_itself() -> Application:
    return around(Itself())


@faulty("`m.check`: the operators form a cycle: `m.check ... through a `Delay`, or remove it")
def a_cycle_through_a_module() -> Application:
    app = Application("test")
    module = app.add_module("m", Checked())
    app.add_stream("round", module.valid, module.payments)
    return app


@faulty(
    "`m.how`: `how` is both a property of `Made` and ... `-D` could not tell them apart",
)
def names_that_cannot_be() -> Application:
    def how(module: Any, app: Application) -> None:
        check = app.add_operator("check", Check())
        log = app.add_operator("how", Store())
        app.add_stream("rejected", check.rejected, log.input)
        module.payments.connect(check.payments)
        module.valid.connect(check.valid)

    return around(Made(how=how))


class Handling(Module):
    payments = InputPort(Payment, key="account")
    valid = OutputPort(Payment, error=True, lateness=0, divided_by="account")
    count = State(0)

    @payments.process
    def go(self, payment: Payment) -> None: ...

    def populate(self, app: Application) -> None: ...


@faulty(
    "`m.count`: `Handling` declares state, which a ... declare it in an operator inside",
    "`m.payments`: `key` would do nothing on a port ... the port of the operator inside",
    "`m.payments`: `Handling` has a method for the ... tuples in an operator inside",
    "`m.valid`: `error`, `lateness`, `divided_by` ... the port of the operator inside",
)
def a_module_that_thinks_it_is_an_operator() -> Application:
    return around(Handling())


class Mistyped(Module):
    payments = InputPort(Balance)
    valid = OutputPort(Balance)

    def populate(self, app: Application) -> None:
        check = app.add_operator("check", Check())
        balances = app.add_operator("balances", Balances())
        app.add_stream("valid", check.valid, balances.payments)
        app.add_stream("balances", balances.balances, app.add_operator("log", Store()).input)
        self.payments.connect(check.payments)
        self.valid.connect(check.rejected)


@faulty(
    "`m.payments`: schema mismatch on stream `in`: ... in an operator between them",
    "`m.valid`: schema mismatch on stream `out`: ... in an operator between them",
)
def typed_ports_that_do_not_fit() -> Application:
    return around(Mistyped())


@faulty(
    "`m`: `Made.populate` added to the application, ... and the like of that `app`",
    "`m`: `Made.populate` sets `attributes` of its ... set it on the application",
)
def populate_of_the_wrong_application() -> Application:
    def how(module: Any, view: Application) -> None:
        app.add_operator("outside", Store())
        view.attributes["windows_kept"] = 3
        check = view.add_operator("check", Check())
        module.payments.connect(check.payments)
        module.valid.connect(check.valid)

    app = around(Made(how=how))
    return app
