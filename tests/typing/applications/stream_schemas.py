"""Planted: streams whose ends have different schemas, with operators of the library and of a test between."""

from __future__ import annotations

from operators import Balance, Balances, Payment, PaymentInput
from ridgeline import Application
from ridgeline.operators import ConsoleOutput, FileReplayInput, Filter, Map
from ridgeline.testing import CollectorSink, ListInput


def is_large(payment: Payment) -> bool:
    return payment.cents > 1_000


def to_balance(payment: Payment) -> Balance:
    return Balance(payment.account, payment.cents)


app = Application("schemas")
payments = app.add_operator("payments", PaymentInput())
balances = app.add_operator("balances", Balances())
large = app.add_operator("large", Filter(is_large))
mapped = app.add_operator("mapped", Map(to_balance, schema=Balance))
console = app.add_operator("console", ConsoleOutput())
sink = app.add_operator("sink", CollectorSink(Balance))
listed = app.add_operator("listed", ListInput(Balance, [(1, 1.0)]))
read = app.add_operator("read", FileReplayInput("in.csv", Balance, "csv"))
app.add_stream("right", payments.payments, large.data, mapped.data, console.input)
app.add_stream("also right", mapped.output, sink.input, console.input)
app.add_stream("other schema", balances.balances, balances.payments)  # error: Balance, not Payment
app.add_stream("one of two", payments.payments, large.data, sink.input)  # error: the second sink
app.add_stream("filtered", large.output, sink.input)  # error: still a Payment
app.add_stream("mapped", mapped.output, large.data)  # error: no Payment any more
app.add_stream("listed", listed.output, balances.payments)  # error: a list of Balance
app.add_stream("read", read.output, balances.payments)  # error: a file of Balance
