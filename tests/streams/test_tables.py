"""Steps that need a key: each adds one operator, as the long form does, and faults name what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from ridgeline import Application, InputPort, Operator, OutputPort, RidgelineError, Stream, ValidationError
from ridgeline.operators import absence, rate, session, streak, tumbling
from ridgeline.operators import aggregate as agg
from ridgeline.plan.edits import Repartition
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deeper

AT = datetime(2026, 1, 1, tzinfo=UTC)


class Order(NamedTuple):
    id: int
    customer: str
    time: datetime


class Customer(NamedTuple):
    id: str
    country: str
    gone: bool


ORDERS = [(1, "ann", AT), (1, "ann", AT), (2, "bob", AT), (3, "cyd", AT)]
CUSTOMERS = [("ann", "CH", False), ("bob", "NO", False), ("bob", "NO", True)]


def orders() -> ListInput[Order]:
    return ListInput(Order, ORDERS, "time", lateness="1s")


def customers() -> ListInput[Customer]:
    return ListInput(Customer, CUSTOMERS)


def test_a_table_is_joined_by_its_key_unless_another_is_said() -> None:
    app = Application("shop")
    table = app.read("customers", customers()).table("by_id", ["id"])
    mine = app.read("mine", customers())
    first = mine.join("first", table)
    assert first.schema.names == ["id", "country", "gone", "country_right", "gone_right"]
    assert mine.join("second", table, "id", "anti").schema.names == ["id", "country", "gone"]
    assert mine.join("third", table, suffix="_2", broadcast=True).schema.names[-1] == "gone_2"


def one_late(app: Application, name: str, first: int) -> Stream[Any]:
    """Three records, of which the last is late."""
    rows = [Order(first + minute, "ann", AT + timedelta(minutes=minute)) for minute in (0, 9, 3)]
    return app.read(name, ListInput(Order, [*rows[:2], END_WINDOW, rows[2]], "time", lateness="1s"))


def test_records_that_are_late_for_a_step_have_a_stream() -> None:
    """Those of both sides of a join, and of steps that put records in order."""
    app = Application("shop")
    left, right = one_late(app, "left", 0), one_late(app, "right", 10)
    for name, pairs in {
        "within": left.join_within("within", right, on="customer", within="1s"),
        "window": left.join_in_window("window", right, "customer", tumbling("1s")),
        "as_of": left.join_as_of("as_of", right, on="customer"),
    }.items():
        pairs.write(f"{name}_pairs", CollectorSink())
        pairs.late.write(f"{name}_late", CollectorSink(Order))
        pairs.late_right.write(f"{name}_late_right", CollectorSink(Order))
    in_order = left.sort_within("sorted")
    in_order.write("in_order", CollectorSink(Order))
    in_order.late.write("sorted_late", CollectorSink(Order))
    run = run_local(app)
    for name in ("within_late", "window_late", "as_of_late", "sorted_late"):
        assert [order.id for order in run.collected(name)] == [3]
    for name in ("within_late_right", "window_late_right", "as_of_late_right"):
        assert [order.id for order in run.collected(name)] == [13]


class Alert(NamedTuple):
    customer: str
    what: str
    since: datetime


class Odd(Operator):
    """An operator of one's own beside patterns."""

    orders = InputPort(Order, key="customer")
    odd = OutputPort(Alert)

    @orders.process
    def look(self, order: Order) -> None:
        if order.id % 2:
            self.odd.emit(Alert(order.customer, "odd", order.time))


def test_patterns_unite_with_operators_of_ones_own() -> None:
    app = Application("shop")
    stream = app.read("orders", orders()).sort_within("sorted", key="customer", partitions=2)
    many = stream.group_by("customer").detect("many", rate(2, within="1s"), partitions=2)
    odd = stream.process("odd", Odd())
    many.union("alerts", odd).write("sink", CollectorSink(Alert))
    found = Counter(alert.what for alert in run_local(app).collected("sink"))
    assert found == {"rate": 1, "odd": 3}


@pytest.mark.parametrize(
    "kinds", [(pa.binary(), pa.large_binary()), (pa.binary(2), pa.binary()), (pa.string(), pa.large_string())]
)
def test_keys_of_one_kind_meet_whatever_their_types(kinds: tuple[pa.DataType, pa.DataType]) -> None:
    keys = [b"aa", b"bb", b"cc"] if kinds[1] != pa.large_string() else ["aa", "bb", "cc"]
    joins: list[Callable[[Stream_, Stream_], Stream_]] = [
        lambda one, other: one.join("j", other.table("t", "key"), partitions=2),
        lambda one, other: one.join_within("j", other, "key", "1m", partitions=2),
        lambda one, other: one.join_in_window("j", other, "key", tumbling("1m"), partitions=2),
        lambda one, other: one.join_as_of("j", other, "key", partitions=2),
    ]
    for join in joins:
        app = Application("bytes")
        sides = []
        for name, kind, rows in (("one", kinds[0], [END_WINDOW]), ("other", kinds[1], [])):
            schema = pa.schema([("key", kind), ("time", pa.timestamp("us", "UTC")), (name, pa.int64())])
            items = [{"key": key, "time": AT, name: number} for number, key in enumerate(keys)]
            sides.append(app.read(name, ListInput(schema, [*rows, *items], "time", lateness="1s")))
        found = join(*sides).collect()
        assert sorted((row["key"], row["one"], row["other"]) for row in found) == [
            (key, number, number) for number, key in enumerate(keys)
        ]


Stream_ = Stream[Any]


@pytest.mark.parametrize(
    ("step", "what"),
    [
        (lambda one, other: one.join("j", other), r"joins with a table, but got Stream.*other.table"),
        (lambda one, other: one.join("j", other.table("t", "id"), {"customer": "country"}), "whose key is"),
        (lambda one, other: one.join("j", other.table("t", "id"), on="customer"), "whose key is"),
        (lambda one, other: one.join_within("j", other.table("t", "id"), "id", "1s"), "use `join`"),
        (lambda one, other: one.deduplicate("d", "idd"), "`idd`"),
        (lambda one, other: one.join("d", other.table("t", "idd"), on={"customer": "idd"}), "`idd`"),
        (lambda one, other: one.join("d", other.table("t", "id"), on={"custmer": "id"}), "`custmer`"),
        (lambda one, other: one.join("d", other.table("t", "id"), on="id"), "never equal"),
        (lambda one, other: other.table("t", "id", deleted="country").changes, "country`, which is string"),
        (lambda one, other: one.join_in_window("j", other, "id", session("1m")), "must be tumbling ones"),
        (lambda one, other: other.group_by("id").detect("d", absence("1s")), r"d\.input.*with_times\("),
        (lambda one, other: one.group_by("id").detect("d", streak("id", 2)), "not true or false; compare it"),
    ],
)
def test_wrong_tables_and_columns_are_refused_before_it_runs(
    step: Callable[[Stream_, Stream_], Stream_], what: str
) -> None:
    app = Application("shop")
    streams = app.read("orders", orders()), app.read("customers", customers())

    def run() -> None:
        step(*streams).write("sink", CollectorSink())
        streams[1].write("rest", CollectorSink())
        run_local(app)

    with pytest.raises((RidgelineError, ValidationError), match=what):
        run()


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Click(NamedTuple):
    user: str
    page: str
    time: datetime


def at(minute: float) -> datetime:
    return NOON + timedelta(minutes=minute)


PAGES = [("ann", "/", 0), ("bob", "/", 0.5), ("ann", "/a", 1), ("ann", "/", 40)]
CLICKS = [Click(user, page, at(minute)) for user, page, minute in PAGES]


def source(items: list[Any] | None = None) -> ListInput:
    return ListInput(Click, CLICKS if items is None else items, "time", lateness="5s")


@pytest.mark.parametrize("partitions", [1, pytest.param(2, marks=deeper), 3, pytest.param(5, marks=deeper)])
def test_windows_without_a_key_have_all_records(partitions: int) -> None:
    app = Application("clicks", window="1s")
    items = [item for click in CLICKS for item in (click, END_WINDOW)]
    hours = app.read("clicks", source(items), partitions=2).window(tumbling("1h"))
    hours.aggregate("hours", clicks=agg.count(), last=agg.last("page"), partitions=partitions).write(
        "sink", CollectorSink()
    )
    changes = {2: [Repartition("hours", partitions % 3 + 1)]} if partitions % 3 + 1 != partitions else {}
    run = run_local(app, changes=changes)
    assert [(row["clicks"], row["last"]) for row in run.collected("sink")] == [(4, "/")]


class Count(Operator):
    clicks = InputPort(Click, key="user")
    output = OutputPort(Click)

    @clicks.process
    def note(self, click: Click) -> None:
        self.output.emit(click)


def test_an_operator_of_ones_own_must_have_the_key() -> None:
    app = Application("clicks")
    clicks = app.read("clicks", source())
    clicks.group_by("user").process("count", Count(), partitions=2).write("sink", CollectorSink(Click))
    assert len(run_local(app).collected("sink")) == 4
    with pytest.raises(RidgelineError, match=r"port `clicks` has key='user'; declare it as .*key='page'"):
        clicks.group_by("page").process("other", Count())
    with pytest.raises(TypeError, match="no operator"):
        clicks.group_by("page").process("other", Count)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({}, "step `counts` has no aggregate"),
        ({"partitions": 2}, "step `counts` has no aggregate"),
        ({"n": agg.count(), "close_after": "10s"}, r"option of the windows: `window\(\.\.\., close_after"),
        ({"n": agg.count(), "emit": "records"}, r"option of aggregates without `window\("),
        ({"n": agg.count}, r"`n` of step `counts` is a function; call it: `n=agg.count\(...\)`"),
    ],
)
def test_what_is_no_aggregate_is_refused(given: dict[str, Any], fault: str) -> None:
    clicks = Application("clicks").read("clicks", source())
    with pytest.raises((RidgelineError, TypeError), match=fault):
        clicks.group_by("user").window(tumbling("1m")).aggregate("counts", **given)


def test_a_key_without_columns_is_refused() -> None:
    with pytest.raises(RidgelineError, match="needs the columns"):
        Application("clicks").read("clicks", source()).group_by()
