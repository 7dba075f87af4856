"""Faults that newcomers meet: one each, which names the step or the call, and says what to do."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import polars as pl
import pytest

from ridgeline import Application, OperatorAttributes, RidgelineError, Stream
from ridgeline.operators import (
    absence,
    rolling,
    session,
    tumbling,
)
from ridgeline.operators import aggregate as agg
from ridgeline.plan.validation import find_faults
from ridgeline.streams.aggregating import AggregatesAll, AggregatesWindows
from ridgeline.testing import CollectorSink, ListInput
from support.testing.shares import share


class Order(NamedTuple):
    ident: str
    cents: int
    time: datetime


Steps = Callable[[Stream[Any]], Any]


def faults(steps: Steps, *, timed: bool = True) -> list[str]:
    app = Application("faulty")
    times: dict[str, Any] = {"timestamp": "time", "lateness": "5s"} if timed else {}
    steps(app.read("orders", ListInput(Order, [], **times)))
    return [str(fault) for fault in find_faults(app)]


def other(orders: Stream[Any]) -> Stream[Any]:
    return orders.app.read("others", ListInput(Order, [], "time", lateness="5s"))


NO_TIMES: dict[str, Steps] = {
    "puts records into windows": lambda s: (
        s.window(tumbling("1m")).aggregate("step", n=agg.count()).write("out")
    ),
    "sorts records": lambda s: s.sort_within("step").write("out"),
    "forgets keys": lambda s: s.deduplicate("step", "ident", within="1m").write("out"),
    "joins records": lambda s: s.join_within("step", other(s), "ident", "1m").write("out"),
    "joins tuples": lambda s: s.join("step", other(s).table("table", "ident"), "ident", versions="1h").write(
        "out"
    ),
}


@pytest.mark.parametrize("what", NO_TIMES)
def test_steps_that_need_times_are_refused_without(what: str) -> None:
    (fault,) = faults(NO_TIMES[what], timed=False)
    assert fault.startswith(("`step.input`: ", "`step.left`: "))
    assert f"{what} by their times, but no step upstream declares both `timestamp` and `lateness`; " in fault
    assert 'give an input `timestamp="time", lateness="5s"`' in fault
    assert 'the step `with_times("time", lateness="5s")`' in fault
    assert faults(NO_TIMES[what]) == []


def test_times_from_a_step_are_times() -> None:
    def steps(orders: Stream[Any]) -> None:
        timed = orders.with_times("time", lateness="1s").filter("some", lambda order: order.cents > 0)
        timed.window(session("1m")).aggregate("step", n=agg.count()).write("out")

    assert faults(steps, timed=False) == []


def no_schema(orders: Stream[Any]) -> Stream[Any]:
    return orders.map("mapped", lambda order: order)


ONE_FAULT: dict[str, Steps] = {
    "there is no column `centss`": lambda s: (
        s.window(tumbling("1m")).aggregate("step", n=agg.sum("centss")).select("more", "n").write("out")
    ),
    "property `schema` of `Map` is required": lambda s: no_schema(s).select("step", "none").write("out"),
    "property `schema` of `Map` is required ": lambda s: no_schema(s).explode("step", "none").write("out"),
    "property `schema` of `Map` is required and": lambda s: (
        no_schema(s).group_by("none").aggregate("step", n=agg.count()).write("out")
    ),
    "is 'soon'; must be a number of seconds": lambda s: (
        s.app.read("late", ListInput(Order, [], "time", lateness="soon")).sort_within("step").write("out"),
        s.write("all"),
    ),
    "join a stream with the table, `stream.join(..., step)`": lambda s: s.table("step", "ident"),
    'nothing reads what it emits; let a step read the stream, or write it: `.write("name")`': lambda s: (
        s.filter("step", lambda order: order.cents > 0)
    ),
}


@pytest.mark.parametrize("what", ONE_FAULT)
def test_one_cause_is_one_fault(what: str) -> None:
    (fault,) = faults(ONE_FAULT[what])
    assert what in fault


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (
            lambda s: s.split("step", "cents > 0").write("out"),
            "take them apart: `matching, others = stream.split(...)`, then `matching.write(...)`",
        ),
        (lambda s: s.group_by("ident").write("out"), "call `write` before `group_by`"),
        (lambda s: s.group_by("ident").filter("step", "cents > 0"), "call `filter` before `group_by`"),
        (lambda s: s.window(tumbling("1m")).write("out"), "aggregate the windows first: `.aggregate("),
        (lambda s: s.table("step", "ident").write("out"), "its rows are a stream: `.changes.write(...)`"),
    ],
)
def test_a_step_of_what_is_no_stream_says_where_the_stream_is(steps: Steps, text: str) -> None:
    with pytest.raises(AttributeError) as error:
        faults(steps)
    assert text in str(error.value)


@pytest.mark.parametrize("method", [AggregatesWindows.__call__, AggregatesAll.__call__])
def test_aggregate_is_typed_with_each_attribute(method: Any) -> None:
    named = inspect.get_annotations(method)
    forward = inspect.get_annotations(OperatorAttributes)
    declared = {name: kind.__forward_arg__ for name, kind in forward.items()}
    assert {name: named.get(name) for name in declared} == declared


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (lambda s: s.group_by(lambda order: order.ident), "`group_by` takes names of columns, but got"),
        (lambda s: s.detect("step", absence("5s")), 'it needs a key: `.group_by("key").detect(...)`'),
        (lambda s: s.count(), 'it is an aggregate: `.aggregate("totals", count=agg.count(...))`'),
        (lambda s: s.fliter("step", "cents > 0"), "has no step `fliter`; did you mean `filter`?"),
        (
            lambda s: s.deduplicate("step", "ident").duplicates,
            "`app.stream(stream.point.operator.duplicates)` is that of its port `duplicates`",
        ),
        (
            lambda s: s.aggregate("step", n=agg.count(), total="sum(cents)"),
            "`total` of step `step` is 'sum(cents)', which is no aggregate; give one, such as",
        ),
        (
            lambda s: s.aggregate("step", n=agg.count(), partition=2),
            "`partition` of step `step` is 2, which is no aggregate; give one, such as",
        ),
        (lambda s: s.aggregate("step", n=agg.count(), partition=2), "; or did you mean `partitions`?"),
        (
            lambda s: s.group_by("ident").aggregate("step", ident=agg.count()),
            "aggregate `ident` of step `step` has the name of a column of its key; give it another name",
        ),
        (
            lambda s: (
                s.rename("named", {"cents": "window_end"})
                .group_by("window_end")
                .window(tumbling("1m"))
                .aggregate("step", n=agg.count())
            ),
            "is grouped by `window_end`, a name that the borders of its windows have, too; give these",
        ),
        (
            lambda s: s.join_in_window("step", s, "ident", session("1m")),
            "the windows of step `step` must be tumbling or sliding ones by time",
        ),
        (
            lambda s: s.app.sql("step", "select count(*) as n from s", s=s, windows=rolling("1m")),
            "the windows of step `step` must be tumbling or sliding ones by time",
        ),
        (lambda _: agg.avg("cents"), "there is no aggregate `avg`; did you mean `mean`?"),  # type: ignore[attr-defined]
    ],
)
def test_a_wrong_call_says_what_to_do(steps: Steps, text: str) -> None:
    with pytest.raises((AttributeError, RidgelineError)) as error:
        faults(steps)
    assert text in str(error.value)


async def waits(order: Order) -> Order:
    return order


class Asks:
    async def __call__(self, order: Order) -> Order:
        return order


@pytest.mark.parametrize(
    ("step", "function"),
    share(
        2,
        [
            lambda s, f: s.map("step", f, schema=Order),
            lambda s, f: s.flat_map("step", f, schema=Order),
            lambda s, f: s.filter("step", f),
            lambda s, f: s.split("step", f)[0],
            lambda s, f: s.branch("step", some=f).some,
            lambda s, f: s.with_columns("step", new=f),
        ],
        [waits, Asks(), partial(waits)],
    ),
)
def test_a_function_that_waits_belongs_into_enrich(step: Any, function: Any) -> None:
    found = faults(lambda s: (step(s, function).write("out"), s.write("all")))
    assert any(
        "must not be an `async def`, which nothing awaits here; `enrich` takes one" in one for one in found
    )
    assert all("step" in one for one in found)


class Item(NamedTuple):
    ident: str
    tags: list[str]
    time: datetime


class Pair(NamedTuple):
    both: tuple[int, int]


class Bag(NamedTuple):
    tags: set[str]


class Either(NamedTuple):
    value: int | str


class Anything(NamedTuple):
    value: Any


async def look_up(order: Order, table: str) -> Order:
    return order


def both(left: Order, right: Order) -> Order:
    return left if right else right


def items(app: Application) -> Stream[Any]:
    return app.read("items", ListInput(Item, [], "time", lateness="5s"))


THIRD: dict[str, Steps] = {
    "the key column `tags` is list<item: string>, whose values cannot be keys; take other columns, or make": (
        lambda s: items(s.app).group_by("tags").aggregate("step", n=agg.count()).write("out")
    ),
    "the key column `tags` is list<item: string>, whose values cannot be keys; take": lambda s: (
        items(s.app).group_by("tags").window(tumbling("1m")).aggregate("step", n=agg.count()).write("out")
    ),
    "column `tags` is list<item: string>, which is compared with nothing; name one of plain values": (
        lambda s: items(s.app).aggregate("step", n=agg.only(agg.count(), "tags", ["a"])).write("out")
    ),
    "its column is the aggregate `count`, and an aggregate takes a column; aggregate the results": (
        lambda s: s.aggregate("step", n=agg.sum(agg.count())).write("out")  # type: ignore[arg-type]
    ),
    "is <function both": lambda s: s.map("step", both).write("out"),  # type: ignore[arg-type]
    "must take one argument, the tuple; it has the parameters (left, right)": lambda s: s.map(
        "step", lambda left, right: right, Order
    ).write("out"),  # type: ignore[arg-type, misc]
    "the predicate must take one argument, the tuple; it has the parameters ()": lambda s: s.split(
        "step", lambda: True
    )[0].write("out"),  # type: ignore[arg-type, misc]
    "must take one argument, the tuple; it has the parameters (order, table)": lambda s: s.enrich(
        "step", look_up
    ).write("out"),  # type: ignore[arg-type]
    "`with_columns` keeps all columns": lambda s: s.select("step", "*").write("out"),
    "which has no column type; use list[...] for items of one type, or a NamedTuple": lambda s: s.map(
        "step", lambda order: Pair((1, 2)), Pair
    ).write("out"),
    "which has no column type; use list[...] of the items": lambda s: s.map(
        "step", lambda order: Bag(set()), Bag
    ).write("out"),
    "a column has one type; use that, a field for each, or a port of `object`": lambda s: s.map(
        "step", lambda order: Either(1), Either
    ).write("out"),
    "say what it is; a port of `object` takes whole tuples of any kind": lambda s: s.map(
        "step", lambda order: Anything(1), Anything
    ).write("out"),
}


@pytest.mark.parametrize("what", THIRD)
def test_what_a_run_would_have_met_is_a_fault_before_it(what: str) -> None:
    found = faults(lambda s: (THIRD[what](s), s.write("all")))
    (fault,) = found
    assert "step" in fault
    assert what in fault


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (
            lambda s: s.app.read("sink", CollectorSink(Order)),
            "`read` adds inputs, but `sink` is a `CollectorSink`, which takes tuples; lead a stream to it",
        ),
        (
            lambda s: s.filter(pl.col("cents") > 0, "dear"),
            "the first argument of a step is its name, a text; got <Expr",
        ),
        (
            lambda s: s.write(5, CollectorSink()),
            "the first argument of a step is its name, a text; got 5 for a `CollectorSink`",
        ),
        (
            lambda s: s.group_by("ident").aggregate("step", agg.sum("cents")),
            'without a name for its column; name it: `aggregate("step", result=agg.sum(...))`',
        ),
        (
            lambda s: s.window(tumbling("1m")).aggregate("step", agg.count()),
            'name it: `aggregate("step", result=agg.count(...))`',
        ),
        (lambda s: s.aggregate("step", "cents"), "step `step` has 'cents' without a name for its column"),
        (
            lambda s: s.union("step", other(Application("another").read("orders", ListInput(Order, [])))),
            "step `step` of application `faulty` got a stream of another one, `another`; read its input",
        ),
        (
            lambda s: s.join(
                "step", Application("another").read("o", ListInput(Order, [])).table("t", "ident")
            ),
            "got a stream of another one, `another`",
        ),
        (
            lambda s: s.join_as_of("step", Application("another").read("o", ListInput(Order, [])), "ident"),
            "got a stream of another one, `another`",
        ),
    ],
)
def test_a_call_that_cannot_be_meant_names_the_step(steps: Steps, text: str) -> None:
    with pytest.raises(RidgelineError) as error:
        faults(steps)
    assert text in str(error.value)
