"""Steps that need a key: each adds one operator, as the long form does, and faults name what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from ridgeline import (
    Application,
    InputPort,
    Operator,
    OutputPort,
    RidgelineError,
    Stream,
    ValidationError,
)
from ridgeline.operators import Deduplicate, LatestByKey, TableJoin, aggregate, rate, tumbling
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local

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


def long() -> Application:
    app = Application("shop")
    source = app.add_operator("orders", orders())
    once = app.add_operator("once", Deduplicate("id", "1h"), partitions=2)
    app.add_stream("orders", source.output, once.input)
    rows = app.add_operator("customers", customers())
    latest = app.add_operator("by_id", LatestByKey("id", "gone"))
    app.add_stream("customers", rows.output, latest.input)
    known = app.add_operator("known", TableJoin({"customer": "id"}, "left", deleted="gone"))
    app.add_stream("once", once.output, known.input)
    app.add_stream("by_id", latest.output, known.table)
    sink = app.add_operator("sink", CollectorSink())
    app.add_stream("known", known.output, sink.input)
    return app


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


LATE: dict[str, Callable[[Stream_], Any]] = {
    "window": lambda s: s.group_by("customer").window(tumbling("1m")).aggregate("n", n=aggregate.count()),
    "within": lambda s: s.join_within("n", one_late(s.app, "right", 10), on="customer", within="1s"),
    "as_of": lambda s: s.join_as_of("n", one_late(s.app, "right", 10), on="customer"),
    "sort": lambda s: s.sort_within("n"),
}


@pytest.mark.parametrize("step", LATE.values(), ids=LATE)
def test_late_records_can_be_read_alone(step: Callable[[Stream_], Any]) -> None:
    late = step(one_late(Application("shop"), "left", 0)).late
    assert [row.id if isinstance(row, Order) else row["id"] for row in late.collect()] == [3]


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
        (lambda stream, other: stream.join("j", other), r"joins with a table, but got Stream.*other.table"),
        (
            lambda stream, other: stream.join("j", other.table("t", "id"), on={"customer": "country"}),
            "whose key is",
        ),
        (lambda stream, other: stream.join("j", other.table("t", "id"), on="customer"), "whose key is"),
        (lambda stream, other: stream.join_within("j", other.table("t", "id"), "id", "1s"), "use `join`"),
    ],
)
def test_wrong_tables_are_refused(step: Callable[[Stream_, Stream_], object], what: str) -> None:
    app = Application("shop")
    streams = app.read("orders", orders()), app.read("customers", customers())
    with pytest.raises(RidgelineError, match=what):
        step(*streams)


@pytest.mark.parametrize(
    ("step", "what"),
    [
        (lambda stream, other: stream.deduplicate("d", "idd"), r"`idd`"),
        (lambda stream, other: stream.join("d", other.table("t", "idd"), on={"customer": "idd"}), r"`idd`"),
        (lambda stream, other: stream.join("d", other.table("t", "id"), on={"custmer": "id"}), r"`custmer`"),
        (lambda stream, other: stream.join("d", other.table("t", "id"), on="id"), "never equal"),
    ],
)
def test_wrong_columns_are_faults_before_it_runs(
    step: Callable[[Stream_, Stream_], Stream_], what: str
) -> None:
    app = Application("shop")
    streams = app.read("orders", orders()), app.read("customers", customers())
    step(*streams).write("sink", CollectorSink())
    if any(one.name == "d" and isinstance(one.operator, Deduplicate) for one in app.operators):
        streams[1].write("rest", CollectorSink())
    with pytest.raises(ValidationError, match=what):
        run_local(app)
