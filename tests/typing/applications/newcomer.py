"""Planted: errors of a newcomer's hand in programs of streams."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from ridgeline import Application, DeadLetter, Stream
from ridgeline.operators import FileInput, FileOutput, hysteresis, sequence, session, streak, tumbling
from ridgeline.operators import aggregate as agg
from ridgeline.testing import CollectorSink, ListInput


class Payment(NamedTuple):
    card: str
    amount: float
    approved: bool
    time: datetime


class Price(NamedTuple):
    card: str
    cents: int
    time: datetime


def cents(payment: Payment) -> Price:
    return Price(payment.card, round(payment.amount * 100), payment.time)


app = Application("newcomer", on_error="SKIP")
payments = app.read("payments", ListInput(Payment, [], timestamp="time", lateness="10s"))
files = app.read("files", FileInput("in/*.jsonl", schema=Payment, timestamp="time", lateness="5s"))
prices = app.read("prices", ListInput(Price, [], timestamp="time", lateness="5s"))
table = prices.table("by_card", key="card")
both: Stream[Payment] = payments.union("both", files)
cards = both.sort_within("in_order", key="card").group_by("card")
frauds = cards.detect("frauds", sequence("not approved", "amount > 500", within="10m"))
frauds.write("alerts", CollectorSink())
hot = cards.detect("hot", hysteresis("amount", above=80, below=70), partitions=2)
odd = cards.detect("odd", streak("amount > 80", 3), value="amount")
known: Stream[dict[str, Any]] = both.join("known", table, on="card", how="left", partitions=2)
near = payments.join_within("near", prices, on={"card": "card"}, within="5s")
as_of = payments.join_as_of("as_of", prices, on="card", how="left")
sessions = cards.window(session("5m")).aggregate("sessions", n=agg.count(), last=agg.last("amount"))
sessions.late.write("late", FileOutput("late"))
best = cards.top("best", 3, by="amount")
app.dead_letters(CollectorSink(DeadLetter))

app.read("no_class", FileInput("in", schema=5))  # error: no class
app.read("no_option", FileInput("in", schema=Payment, timestmp="time"))  # error: no such property
app.read("no_until", FileInput("in", schema=Payment, until="never"))  # error: no such end
cards.detect("no_pattern", "amount > 5")  # error: no pattern
cards.detect("no_above", hysteresis("amount", upper=80, below=70))  # error: no such argument
cards.window("5m")  # error: no windows
both.window(tumbling(5, zone=3))  # error: no zone
both.join("no_table", prices, on="card")  # error: a stream, no table
both.join("no_how", table, on="card", how="outer")  # error: no such way
both.join_within("no_within", prices, on="card")  # error: how near
both.join_within("a_table", table, on="card", within="5s")  # error: a table, no stream
both.deduplicate("no_key", keys="card")  # error: no such argument
both.map("typo", lambda payment: payment.amout)  # error: no such field
prices.map("not_prices", cents)  # error: takes payments
both.group_by("card").aggregate("twice", agg.count())  # error: without a name
both.with_columns("no_expression", 5)  # error: no expression
both.with_times("no_lateness", "time", latness="5s")  # error: no such argument
agg.quantile("amount", "0.95")  # error: no number
cards.top("no_number", "3", by="amount")  # error: no number
both.split("no_pair", "amount > 5").matching.write("pair")  # error: a tuple
both.collect(window=5)  # error: no such argument
both.preview("20")  # error: no number
