"""Planted: what a stream is written to and read from, expressions by name, and SQL over streams."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import polars as pl

from ridgeline import Application, DeadLetter, InputPort, Module, Operator, OutputPort, Stream
from ridgeline.operators import ConsoleOutput, FileOutput, Filter, tumbling
from ridgeline.operators import aggregate as agg
from ridgeline.testing import CollectorSink, ListInput


class Payment(NamedTuple):
    card: str
    amount: float
    time: datetime


class Price(NamedTuple):
    card: str
    cents: int


class Pager(Operator):
    payments = InputPort(Payment)

    @payments.process
    def page(self, payment: Payment) -> None:
        """Page."""


class Clean(Module):
    payments = InputPort(Payment)
    clean = OutputPort(Payment)


app = Application("ends")
payments = app.read("payments", ListInput(Payment, [], timestamp="time", lateness="5s"))
prices = app.read("prices", ListInput(Price, []))
records = payments.with_columns("records", cents="amount * 100", large=lambda payment: payment.amount > 5)
untyped: Stream[Any] = payments.group_by("card").aggregate("untyped", n=agg.count())

sink: CollectorSink[Payment] = payments.write("sink", CollectorSink(Payment))
rows = records.write("rows", CollectorSink(Price))
kept = untyped.write("kept", CollectorSink(Price))
file: FileOutput = payments.write("file", FileOutput("out"))
console: ConsoleOutput = payments.write("console")
anything = prices.write("anything", CollectorSink())
pager: Pager = payments.write("pager", Pager(), partitions=2)
payments.write("port", Pager().payments)
payments.write("module", Clean())
app.dead_letters(CollectorSink(DeadLetter))
app.dead_letters(FileOutput("bad"))
parts = payments.branch("parts", large="amount > 5", card=lambda payment: payment.card == "", partitions=2)
short = payments.select("short", "card", pl.col("amount") * 2, on_error="SKIP", euros="amount / 100")
sums = app.sql("sums", "select 1 as n from p", p=payments, windows=tumbling("1m"), on_error="SKIP")
sums.late.write("late")
typed: Stream[Price] = app.sql("typed", "select card, 1 as cents from p", schema=Price, p=payments)
modules = app.read("modules", Clean())

app.read("no_input", CollectorSink(Payment))  # error: an output
app.read("no_source", Filter(lambda payment: True))  # error: takes tuples
payments.write("no_output", ListInput(Payment, []))  # error: an input
payments.write("other_sink", CollectorSink(Price))  # error: payments into a sink of prices
payments.write("class", CollectorSink)  # error: a class
prices.write("port", Pager().payments)  # error: takes payments
app.dead_letters(CollectorSink(Payment))  # error: a sink of payments
app.dead_letters(Pager().payments)  # error: a port of payments
payments.branch("wrong", large=5)  # error: no expression
payments.branch("partition", large="amount > 5", partition=2)  # error: no such attribute
payments.branch("typo", large=lambda payment: payment.amout > 5)  # error: no such field
payments.select("number", amount=5)  # error: no expression
payments.with_columns("partition", cents="amount * 100", partition=2)  # error: no such attribute
payments.with_columns("typo", cents=lambda payment: payment.amout)  # error: no such field
payments.with_columns("partitions", cents="amount * 100", partitions="two")  # error: a text
app.sql("totals", "select * from p", p="payments")  # error: no stream
app.sql("minutes", "select * from p", p=payments, windows="1m")  # error: no windows
app.sql("table", "select * from p", p=payments.table("by_card", key="card"))  # error: a table
wrong: Stream[Payment] = app.sql("wrong", "select * from p", schema=Price, p=payments)  # error: prices
