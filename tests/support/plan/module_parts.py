"""Modules that the plans of these tests are made of."""

from typing import Any

from pydantic import Field

from ridgeline.api import Application, InputPort, Module, OutputPort
from support.plan.parts import Balance, Balances, Check, Filter, Payment, Source, Store


class Checked(Module):
    """Check, then filter: what is rejected goes out by a port of its own."""

    payments = InputPort(Payment)
    valid = OutputPort(Payment)
    rejected = OutputPort(Payment, optional=True)

    limit: int = Field(3, gt=0)
    filters: int = 1

    def populate(self, app: Application) -> None:
        check = app.add_operator("check", Check(), partitions=min(self.limit, 4))
        self.payments.connect(check.payments)
        self.rejected.connect(check.rejected)
        last = check.valid
        for number in range(self.filters):
            filter = app.add_operator(f"filter{number}", Filter())
            app.add_stream(f"to{number}", last, filter.data)
            last = filter.passed
        self.valid.connect(last)


class Totals(Module):
    """A module in a module, and two inner ports of one proxy."""

    payments = InputPort(Payment)
    balances = OutputPort(Balance)

    def populate(self, app: Application) -> None:
        checked = app.add_module("checked", Checked(limit=1))
        balances = app.add_operator("balances", Balances())
        log = app.add_operator("log", Store())
        app.add_stream("valid", checked.valid, balances.payments)
        self.payments.connect(checked.payments, log.input)
        self.balances.connect(balances.balances)


def around(module: Any, **attributes: Any) -> Application:
    """Source -> module -> store."""
    app = Application("test")
    source = app.add_operator("source", Source())
    inner = app.add_module("m", module, **attributes)
    store = app.add_operator("store", Store())
    outputs = [name for name in ("valid", "balances", "out") if hasattr(type(module), name)]
    app.add_stream("in", source.payments, inner.payments)
    app.add_stream("out", getattr(inner, outputs[0]), store.input)
    return app
