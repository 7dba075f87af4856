"""A hundred applications with one fault each, drawn at random: the fault names step, culprit and remedy."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

import polars as pl
import pytest

from ridgeline import Application, RidgelineError, Stream
from ridgeline.operators import aggregate as agg
from ridgeline.operators import tumbling
from ridgeline.plan.validation import find_faults
from ridgeline.testing import CollectorSink, ListInput
from support.depth import deep


class Order(NamedTuple):
    ident: str
    country: str | None
    cents: int
    weight: float
    time: datetime


class Short(NamedTuple):
    ident: str
    cents: int


def shortened(order: Order) -> Short:
    return Short(order.ident, order.cents)


def misspelt(chance: random.Random, name: str) -> str:
    """A name with two letters swapped, one left out, or one doubled."""
    at = chance.randrange(1, len(name) - 1)
    left_out, doubled = name[:at] + name[at + 1 :], name[:at] + name[at] + name[at:]
    return chance.choice([left_out, doubled, name + "s"])


NUMBERS, TEXTS = ("cents", "weight"), ("ident", "country")
Made = tuple[Callable[[Stream[Any]], Any], list[str]]
"""A faulty step, and the texts that its fault has."""


def wrong_column(chance: random.Random, step: str) -> Made:
    column = chance.choice([*NUMBERS, *TEXTS])
    wrong = misspelt(chance, column)
    steps: list[Callable[[Stream[Any]], Any]] = [
        lambda s: s.filter(step, f"{wrong} is not null"),
        lambda s: s.filter(step, pl.col(wrong).is_not_null()),
        lambda s: s.select(step, "time", wrong),
        lambda s: s.with_columns(step, new=pl.col(wrong)),
        lambda s: s.with_columns(step, new=f"coalesce({wrong}, null)"),
        lambda s: s.rename(step, {wrong: "x"}),
        lambda s: s.drop(step, wrong),
        lambda s: s.cast(step, {wrong: str}),
        lambda s: s.split(step, f"{wrong} is null")[0],
        lambda s: s.branch(step, some=f"{wrong} is null").some,
        lambda s: s.transform(step, lambda f: f.with_columns(x=pl.col(wrong))),
        lambda s: s.with_times(step, wrong),
        lambda s: s.group_by("ident").window(tumbling("1m")).aggregate(step, n=agg.max(wrong)),
        lambda s: s.group_by(wrong).window(tumbling("1m")).aggregate(step, n=agg.count()),
        lambda s: s.deduplicate(step, key=wrong),
    ]
    return chance.choice(steps), [step, wrong]


def wrong_type(chance: random.Random, step: str) -> Made:
    number, text = chance.choice(NUMBERS), chance.choice(TEXTS)
    steps: list[Made] = [
        (lambda s: s.with_columns(step, new=pl.col(number) + pl.col(text)), [text]),
        (lambda s: s.with_columns(step, new=f"{number} * {text}"), ["new"]),
        (lambda s: s.filter(step, f"{number} > 'much'"), ["string", number]),
        (lambda s: s.filter(step, text), ["String"]),
        (lambda s: s.filter(step, pl.col(number).str.len_chars() > 2), [number]),
        (lambda s: s.select(step, new=pl.col(text).dt.year()), ["new", "year"]),
        (lambda s: s.with_times(step, text), [text]),
        (lambda s: s.group_by("ident").window(tumbling("1m")).aggregate(step, n=agg.sum(text)), [text]),
    ]
    make, texts = chance.choice(steps)
    return make, [step, *texts]


def wrong_name(chance: random.Random, step: str) -> Made:
    steps: list[Made] = [
        (lambda s: s.filter("orders", "cents > 0"), ["orders"]),
        (lambda s: s.filter("", "cents > 0"), ["name"]),
        (lambda s: s.select(step, "ident", pl.col("cents").alias("ident")), [step, "ident"]),
        (lambda s: s.rename(step, {"ident": "cents"}), [step, "cents"]),
        (lambda s: s.branch(step, rest="cents > 0").rest, [step, "rest"]),
        (lambda s: s.branch(step, small="cents < 5").smal, [step, "smal"]),
        (lambda s: s.filter(step, "cents > 0", partition=2), ["partition"]),
        (lambda s: s.with_columns(step, new="cents", partition=2), [step, "partition"]),
        (lambda s: s.map(step, shortened, on_error="SKIPP"), [step, "SKIPP"]),
        (lambda s: s.filter(step, "cents > 0", partitions=0), [step, "partitions"]),
    ]
    return chance.choice(steps)


def wrong_function(chance: random.Random, step: str) -> Made:
    async def waits(order: Order) -> Short:
        return shortened(order)

    steps: list[Made] = [
        (lambda s: s.map(step, lambda order: order), ["schema", "annotate"]),
        (lambda s: s.flat_map(step, lambda order: [order]), ["schema", "annotate"]),
        (lambda s: s.with_columns(step, new=lambda order: order.cents), ["new", "annotate"]),
        (lambda s: s.enrich(step, shortened, Short), ["async def"]),
        (lambda s: s.enrich(step, waits, Short, timeout="soon"), ["timeout", "soon"]),
        (lambda s: s.enrich(step, waits, Short, concurrency=0), ["concurrency"]),
        (lambda s: s.transform(step, lambda f: f.collect().height), ["frame"]),
        (lambda s: s.transform(step, lambda f: f.nothing()), ["nothing"]),
        (lambda s: s.filter(step, "nonsense(cents) > 2"), ["nonsense"]),
        (lambda s: s.filter(step, "cents > > 2"), ["cents > > 2"]),
        (lambda s: s.filter(step, pl.col("cents") > pl.col("cents").mean()), ["window"]),
        (lambda s: s.with_columns(step, new=pl.col("cents").cum_sum()), ["new", "window"]),
        (lambda s: s.with_columns(step, new=5), ["new", "pl.lit"]),
        (lambda s: s.map(step, shortened, schema=int), ["int"]),
        (lambda s: s.sample(step, 1.5), ["share"]),
        (lambda s: s.limit_rate(step, -1), ["rate"]),
        (lambda s: s.write(step, CollectorSink), ["CollectorSink"]),
        (lambda s: s.union(step, s.map("short", shortened)), ["country"]),
        (lambda s: s.process(step, ListInput(Order, [])), ["ListInput", "takes no tuples"]),
        (lambda s: s.map("short", shortened).write(step, CollectorSink(Order)), ["ident"]),
    ]
    make, texts = chance.choice(steps)
    return make, [step, *texts]


def told(make: Callable[[Stream[Any]], Any]) -> list[str]:
    """The texts of the faults of an application with a step: those of calls, or of the validation."""
    app = Application("faulty")
    orders = app.read("orders", ListInput(Order, [], "time", lateness="5s"))
    known = orders.filter("known", "country is not null")
    try:
        made = make(known)
    except (RidgelineError, TypeError, AttributeError) as error:
        return [str(error)]
    if isinstance(made, Stream):
        made.write("end", CollectorSink())
    return [str(fault) for fault in find_faults(app)]


@pytest.mark.parametrize("seed", range(deep(40)))
def test_the_fault_names_step_culprit_and_remedy(seed: int) -> None:
    chance = random.Random(seed)
    step = chance.choice(["dear", "totals", "by_country", "checked"])
    kind = [wrong_column, wrong_type, wrong_name, wrong_function][seed % 4]
    make, texts = kind(chance, step)
    faults = told(make)
    assert faults, "no fault was found"
    assert any(all(text in fault for text in texts) for fault in faults), (texts, faults)
    assert any("; " in fault or "did you mean" in fault for fault in faults), faults
    assert len(faults) <= 2, faults
