"""Planted: the input port of a stream stands before its output port."""

from __future__ import annotations

from operators import Balances, PaymentInput
from ridgeline import Application

app = Application("swapped")
payments = app.add_operator("payments", PaymentInput())
balances = app.add_operator("balances", Balances())
app.add_stream("right", payments.payments, balances.payments)
app.add_stream("swapped", balances.payments, payments.payments)  # error: input before output
app.add_stream("two outputs", payments.payments, balances.balances)  # error: an output as a sink
app.add_stream("an operator", payments, balances.payments)  # error: no port
