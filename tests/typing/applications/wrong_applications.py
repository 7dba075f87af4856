"""Planted: streams whose ends do not fit, attributes that are not there, wrong ports of modules."""

from __future__ import annotations

from typing import assert_type

from operators import Balance, Balances, Payment, PaymentInput
from ridgeline import Application, InputPort, InputProxy, Module, OutputPort, OutputProxy, ProcessingMode
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


app.add_stream("swapped", balances.payments, payments.payments)  # error: input before output
app.add_stream("two outputs", payments.payments, balances.balances)  # error: an output as a sink
app.add_stream("an operator", payments, balances.payments)  # error: no port


app = Application("attributes", window="1s", heartbeat_timeout="1m")
app.add_operator("right", Balances(), partitions=2, processing_mode="AT_MOST_ONCE")
app.add_operator("also right", Balances(), processing_mode=ProcessingMode.EXACTLY_ONCE)
app.add_operator("name", Balances(), partition=2)  # error: the attribute is `partitions`
app.add_operator("type", Balances(), partitions="two")  # error: a number
app.add_operator("mode", Balances(), processing_mode="SOMETIMES")  # error: no such mode
Application("name", snapshot_intervall=3)  # error: the attribute is `snapshot_interval`
Application("scope", partitions=3)  # error: an attribute of operators


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


totals = app.add_module("totals", Totals(limit=3), partitions=2)
after = app.add_module("after", Mistyped())
assert_type(totals.payments, InputProxy[Payment])
assert_type(totals.balances, OutputProxy[Balance])
app.add_stream("payments", payments.payments, totals.payments)
app.add_stream("balances", totals.balances, after.balances)
app.add_stream("wrong", payments.payments, after.balances)  # error: payments, not balances
app.add_stream("round", totals.balances, totals.payments)  # error: balances, not payments
app.add_module("other", Totals(limit="3"))  # error: no number
app.add_module("another", Balances())  # error: an operator
