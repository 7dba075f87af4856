"""Faults that newcomers meet: one each, at the call or before anything runs, which says what to do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, get_type_hints

import polars as pl
import pytest

from ridgeline import Application, OperatorAttributes, RidgelineError, Stream
from ridgeline.operators import absence, rolling, session, tumbling
from ridgeline.operators import aggregate as agg
from ridgeline.plan.validation import find_faults
from ridgeline.streams.expressing import Keywords
from ridgeline.testing import CollectorSink, ListInput


class Order(NamedTuple):
    ident: str
    cents: int
    time: datetime


class Short(NamedTuple):
    ident: str


class Item(NamedTuple):
    ident: str
    tags: list[str]
    time: datetime


class Both(NamedTuple):
    both: tuple[int, int]


class Bag(NamedTuple):
    tags: set[str]


class Either(NamedTuple):
    value: int | str


class Anything(NamedTuple):
    value: Any


def shortened(order: Order) -> Short:
    return Short(order.ident)


def either(left: Order, right: Order) -> Order:
    return left if right else right


async def waits(order: Order) -> Order:
    return order


async def look_up(order: Order, table: str) -> Order:
    return order


class Asks:
    async def __call__(self, order: Order) -> Order:
        return order


Steps = Callable[[Stream[Any]], Any]


def faults(steps: Steps, *, timed: bool = True) -> list[str]:
    """What is said of steps of orders: at a call, or of the application."""
    app = Application("faulty")
    times: dict[str, Any] = {"timestamp": "time", "lateness": "5s"} if timed else {}
    try:
        steps(app.read("orders", ListInput(Order, [], **times)))
    except (RidgelineError, TypeError, AttributeError) as error:
        return [str(error)]
    return [str(fault) for fault in find_faults(app)]


def other(orders: Stream[Any]) -> Stream[Any]:
    return orders.app.read("others", ListInput(Order, [], "time", lateness="5s"))


def elsewhere() -> Stream[Any]:
    return Application("another").read("o", ListInput(Order, []))


def items(orders: Stream[Any]) -> Stream[Any]:
    return orders.app.read("items", ListInput(Item, [], "time", lateness="5s"))


def no_schema(orders: Stream[Any]) -> Stream[Any]:
    return orders.map("mapped", lambda order: order)


NO_TIMES: dict[str, Steps] = {
    "puts records into windows": lambda s: s.window(tumbling("1m")).aggregate("step", n=agg.count()),
    "sorts records": lambda s: s.sort_within("step"),
    "forgets keys": lambda s: s.deduplicate("step", "ident", within="1m"),
    "joins records": lambda s: s.join_within("step", other(s), "ident", "1m"),
}


@pytest.mark.parametrize("what", NO_TIMES)
def test_steps_that_need_times_are_refused_without(what: str) -> None:
    def written(orders: Stream[Any]) -> None:
        NO_TIMES[what](orders).write("out")

    (fault,) = faults(written, timed=False)
    assert fault.startswith(("`step.input`: ", "`step.left`: "))
    assert f"{what} by their times, but no step upstream declares both `timestamp` and `lateness`; " in fault
    assert 'give an input `timestamp="time", lateness="5s"`' in fault
    assert 'the step `with_times("time", lateness="5s")`' in fault
    assert faults(written) == []


def test_times_from_a_step_are_times() -> None:
    def steps(orders: Stream[Any]) -> None:
        timed = orders.with_times("time", lateness="1s").filter("some", lambda order: order.cents > 0)
        timed.window(session("1m")).aggregate("step", n=agg.count()).write("out")

    assert faults(steps, timed=False) == []


NO_KEY = "whose values cannot be keys; take"
ANOTHER = "of another one, `another`"
NO_SCHEMA = "property `schema` of `Map` is required"
MINUTE, N = tumbling("1m"), {"n": agg.count()}


def by_its_end(orders: Stream[Any]) -> Any:
    return orders.rename("named", {"cents": "window_end"}).group_by("window_end").window(MINUTE)


FAULTS: list[tuple[Steps, *tuple[str, ...]]] = [
    # one cause is one fault
    (
        lambda s: s.window(MINUTE).aggregate("step", n=agg.sum("centss")).select("more", "n"),
        "no column `centss`",
    ),
    (lambda s: no_schema(s).select("step", "none"), NO_SCHEMA),
    (lambda s: no_schema(s).group_by("none").aggregate("step", **N), NO_SCHEMA),
    (
        lambda s: s.app.read("late", ListInput(Order, [], "time", lateness="soon")).sort_within("step"),
        "is 'soon'; must be a number of seconds",
    ),
    # what a run would have met
    (lambda s: items(s).group_by("tags").aggregate("step", **N), "the key column `tags`", NO_KEY),
    (lambda s: items(s).group_by("tags").window(MINUTE).aggregate("step", **N), "list<item: string>", NO_KEY),
    (lambda s: s.aggregate("step", n=agg.sum(agg.count())), "aggregate `count`", "aggregate the results"),  # type: ignore[arg-type]
    (lambda s: s.map("step", either), "is <function either"),  # type: ignore[arg-type]
    (lambda s: s.map("step", lambda left, right: right, Order), "the parameters (left, right)"),
    (lambda s: s.split("step", lambda: True)[0], "the predicate must take one argument", "parameters ()"),
    (lambda s: s.enrich("step", look_up), "must take one argument, the tuple", "parameters (order, table)"),
    (lambda s: s.select("step", "*"), "`with_columns` keeps all columns"),
    (lambda s: s.map("step", lambda _: Both((1, 2)), Both), "no column type; use list[...]", "NamedTuple"),
    (lambda s: s.map("step", lambda _: Bag(set()), Bag), "no column type; use list[...] of the items"),
    (lambda s: s.map("step", lambda _: Either(1), Either), "one type; use that, a field for each, or a port"),
    (lambda s: s.map("step", lambda _: Anything(1), Anything), "say what it is; a port of `object` takes"),
    (lambda s: s.map("step", shortened, schema=int), "int"),
    (lambda s: s.map("step", shortened, on_error="SKIPP"), "SKIPP"),
    (lambda s: s.filter("step", "cents > 0", partitions=0), "partitions"),
    (lambda s: s.filter("step", "cents > > 2"), "cents > > 2"),
    (lambda s: s.enrich("step", shortened, Short), "async def"),
    (lambda s: s.enrich("step", waits, Order, timeout="soon"), "timeout", "soon"),
    (lambda s: s.transform("step", lambda f: f.collect().height), "frame"),
    (lambda s: s.transform("step", lambda f: f.nothing()), "nothing"),
    (lambda s: s.sample("step", 1.5), "share"),
    (lambda s: s.limit_rate("step", -1), "rate"),
    (lambda s: s.union("step", s.map("short", shortened)), "cents"),
    (lambda s: s.group_by("idnt").window(MINUTE).aggregate("step", **N), "idnt"),
    # what a call says
    (lambda s: s.group_by("ident").filter("step", "cents > 0"), "call `filter` before `group_by`"),
    (lambda s: s.group_by("ident").write("out"), "call `write` before `group_by`"),
    (lambda s: s.window(MINUTE).write("out"), "aggregate the windows first: `.aggregate("),
    (lambda s: s.table("step", "ident").write("out"), "its rows are a stream: `.changes.write(...)`"),
    (
        lambda s: s.split("step", "cents > 0").write("out"),
        "take them apart: `matching, others = stream.split(",
    ),
    (lambda s: s.group_by(lambda order: order.ident), "`group_by` takes names of columns, but got"),
    (lambda s: s.detect("step", absence("5s")), 'it needs a key: `.group_by("key").detect(...)`'),
    (lambda s: s.count(), 'it is an aggregate: `.aggregate("totals", count=agg.count(...))`'),
    (lambda s: s.fliter("step", "cents > 0"), "has no step `fliter`; did you mean `filter`?"),
    (lambda s: s.branch("step", small="cents < 5").smal, "step", "smal"),
    (lambda s: s.deduplicate("step", "ident").duplicates, "`app.stream(stream.point.operator.duplicates)`"),
    (
        lambda s: s.aggregate("step", total="sum(cents)", **N),
        "`total` of step `step`",
        "no aggregate; give one",
    ),
    (lambda s: s.aggregate("step", partition=2, **N), "`partition`", "; or did you mean `partitions`?"),
    (lambda s: s.filter("step", "cents > 0", partition=2), "partition"),
    (lambda s: s.group_by("ident").aggregate("step", ident=agg.count()), "`ident`", "give it another name"),
    (lambda s: by_its_end(s).aggregate("step", **N), "is grouped by `window_end`", "`at=agg.window_end("),
    (
        lambda s: s.join_in_window("step", s, "ident", session("1m")),
        "must be tumbling ones by time",
    ),
    (lambda s: s.app.sql("step", "select 1 as n from s", s=s, windows=rolling("1m")), "must be tumbling or"),
    (lambda _: agg.avg("cents"), "there is no aggregate `avg`; did you mean `mean`?"),  # type: ignore[attr-defined]
    (lambda s: s.app.read("sink", CollectorSink(Order)), "`read` adds inputs", "lead a stream to it"),
    (lambda s: s.process("step", ListInput(Order, [])), "ListInput", "takes no tuples"),
    (lambda s: s.write("step", CollectorSink), "CollectorSink"),  # type: ignore[arg-type]
    (lambda s: s.filter("orders", "cents > 0"), "orders"),
    (lambda s: s.filter(pl.col("cents") > 0, "dear"), "the first argument of a step is its name", "<Expr"),
    (lambda s: s.write(5, CollectorSink()), "the first argument of a step is its name", "a `CollectorSink`"),
    (lambda s: s.group_by("ident").aggregate("step", agg.sum("cents")), '`aggregate("step", result=agg.sum('),
    (lambda s: s.window(MINUTE).aggregate("step", agg.count()), '`aggregate("step", result=agg.count(...))`'),
    (lambda s: s.aggregate("step", "cents"), "step `step` has 'cents' without a name for its column"),
    (lambda s: s.union("step", other(elsewhere())), "step `step` of application `faulty`", ANOTHER),
    (lambda s: s.join("step", elsewhere().table("t", "ident")), ANOTHER),
    (lambda s: s.join_as_of("step", elsewhere(), "ident"), ANOTHER),
]


@pytest.mark.parametrize("row", FAULTS, ids=[f"{place}-{row[1][:40]}" for place, row in enumerate(FAULTS)])
def test_a_fault_names_the_step_or_the_call_and_says_what_to_do(row: tuple[Any, ...]) -> None:
    steps, *words = row

    def written(orders: Stream[Any]) -> None:
        orders.write("all")
        made = steps(orders)
        if isinstance(made, Stream):
            made.write("out", CollectorSink())

    (fault,) = faults(written)
    assert all(word in fault for word in words), fault


def test_what_nobody_reads_says_how_it_is_read() -> None:
    def unread(orders: Stream[Any]) -> None:
        orders.filter("step", lambda order: order.cents > 0)

    assert 'let a step read the stream, or write it: `.write("name")`' in faults(unread)[0]
    [table] = faults(lambda s: s.table("step", "ident"))
    assert "join a stream with the table, `stream.join(..., step)`" in table


def test_what_a_sink_does_not_take_names_the_column() -> None:
    (fault,) = faults(lambda s: s.map("short", shortened).write("step", CollectorSink(Order)))
    assert "step" in fault
    assert "cents" in fault


def test_aggregate_is_typed_with_each_attribute() -> None:
    named, declared = get_type_hints(Keywords.__call__), get_type_hints(OperatorAttributes)
    assert {name: named.get(name) for name in declared} == declared


@pytest.mark.parametrize(
    "step",
    [
        lambda s, f: s.map("step", f, schema=Order),
        lambda s, f: s.flat_map("step", f, schema=Order),
        lambda s, f: s.filter("step", f),
        lambda s, f: s.split("step", f)[0],
        lambda s, f: s.branch("step", some=f).some,
        lambda s, f: s.with_columns("step", new=f),
    ],
)
def test_a_function_that_waits_belongs_into_enrich(step: Any) -> None:
    for function in (waits, Asks(), partial(waits)):
        found = faults(lambda s, f=function: (step(s, f).write("out"), s.write("all")))
        what = "must not be an `async def`, which nothing awaits here; `enrich` takes one"
        assert any(what in one for one in found)
        assert all("step" in one for one in found)
