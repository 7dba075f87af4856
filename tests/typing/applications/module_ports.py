"""Planted: ports of modules that are connected wrongly, inside and outside."""

from __future__ import annotations

from typing import assert_type

from operators import Balance, Balances, Payment, PaymentInput
from ridgeline import Application, InputPort, InputProxy, Module, OutputPort, OutputProxy


class Totals(Module):
    payments = InputPort(Payment)
    balances = OutputPort(Balance)

    limit: int = 10

    def populate(self, app: Application) -> None:
        inner = app.add_operator("balances", Balances())
        self.payments.connect(inner.payments)
        self.balances.connect(inner.balances)
        self.payments.connect(inner.balances)  # error: an output port
        self.balances.connect(inner.payments)  # error: an input port


class Mistyped(Module):
    balances = InputPort(Balance)

    def populate(self, app: Application) -> None:
        inner = app.add_operator("balances", Balances())
        self.balances.connect(inner.payments)  # error: payments, not balances


app = Application("modules")
source = app.add_operator("source", PaymentInput())
totals = app.add_module("totals", Totals(limit=3), partitions=2)
after = app.add_module("after", Mistyped())
assert_type(totals.payments, InputProxy[Payment])
assert_type(totals.balances, OutputProxy[Balance])
app.add_stream("payments", source.payments, totals.payments)
app.add_stream("balances", totals.balances, after.balances)
app.add_stream("wrong", source.payments, after.balances)  # error: payments, not balances
app.add_stream("round", totals.balances, totals.payments)  # error: balances, not payments
app.add_module("other", Totals(limit="3"))  # error: no number
app.add_module("another", Balances())  # error: an operator
