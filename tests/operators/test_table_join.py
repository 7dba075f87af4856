"""Streams joined with tables as latest rows, and first tuples of keys."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline import Application
from ridgeline.operators import Deduplicate, TableJoin
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deep

START = datetime(2026, 3, 29, tzinfo=UTC)


class Order(NamedTuple):
    customer: str | None
    cents: int
    time: datetime


class Customer(NamedTuple):
    id: str | None
    place: float
    gone: bool | None
    time: datetime


KEYS = st.sampled_from([None, "ann", "bob", "cyd"])
BACK = st.integers(0, 3)
PLACES, GONE = st.sampled_from([0.0, -0.0, 1.0, math.nan]), st.sampled_from([None, False, True])
ORDERS = st.lists(st.lists(st.tuples(KEYS, st.integers(-2, 2), BACK), max_size=7))
CUSTOMERS = st.lists(st.lists(st.tuples(KEYS, PLACES, GONE, BACK), max_size=7))


def timed(kind: Any, windows: Sequence[Sequence[tuple[Any, ...]]]) -> list[list[Any]]:
    return [
        [kind(*row[:-1], START + timedelta(seconds=number - row[-1])) for row in window]
        for number, window in enumerate(windows)
    ]


def plain(value: Any) -> Any:
    """NaN equals NaN, -0.0 equals 0.0, and a time that in another form of UTC."""
    if isinstance(value, datetime):
        return value.timestamp()
    return value + 0.0 if isinstance(value, float) else value


def counted(found: Sequence[Any]) -> Counter[str]:
    return Counter(repr(list(map(plain, row))) for row in found)


def latest(orders: Any, customers: Any) -> list[tuple[Any, ...]]:
    found, rows = [], {}
    for number, window in enumerate(orders):
        for row in customers[number] if number < len(customers) else ():
            rows[row.id] = row
        for order in window:
            row = None if order.customer is None else rows.get(order.customer)
            gone = row is None or row.gone is True
            found.append((*order, *((None,) * 2 if gone else (row.place, row.time))))
    return found


@settings(deadline=None, max_examples=deep(3), suppress_health_check=[HealthCheck.too_slow])
@given(ORDERS, CUSTOMERS)
def test_rows_are_the_latest_that_are_not_deleted(orders: Any, customers: Any) -> None:
    orders, customers = timed(Order, orders), timed(Customer, customers)
    for partitions in (1, 3):
        app = Application("joined", window="1s")
        streams = []
        for name, kind, windows in (("orders", Order, orders), ("customers", Customer, customers)):
            items = [item for window in windows for item in (*window, END_WINDOW)]
            streams.append(app.read(name, ListInput(kind, items)))
        table = streams[1].table("table", key="id", deleted="gone")
        joined = streams[0].join("join", table, {"customer": "id"}, "left", partitions=partitions)
        joined.write("sink", CollectorSink())
        found = [tuple(row.values()) for row in run_local(app).collected("sink")]
        assert counted(found) == counted(latest(orders, customers))


class Sale(NamedTuple):
    item: int
    number: int


class Item(NamedTuple):
    key: int
    name: str


class Losing(TableJoin):
    """Fails once it has noted the rows of a window."""

    def end_window(self) -> None:
        super().end_window()
        if self.context.window_id == 4:
            raise ValueError("lost")


@pytest.mark.parametrize("key", [1, 10**12])
def test_rows_of_a_window_that_was_lost_are_not_joined(key: int) -> None:
    items, sales = list[Any](), list[Any]()
    for window in range(9):
        items += [Item(key, f"n{window}")] if window in {0, 4} else []
        items.append(END_WINDOW)
        sales += [Sale(key, window), END_WINDOW]
    app = Application("shop", window="1s")
    source = app.add_operator("sales", ListInput(Sale, sales))
    changed = app.add_operator("items", ListInput(Item, items))
    lossy: Any = {"processing_mode": "AT_MOST_ONCE"}
    join = app.add_operator("join", Losing({"item": "key"}, "left"), **lossy)
    sink = app.add_operator("sink", CollectorSink(), **lossy)
    app.add_stream("sales", source.output, join.input)
    app.add_stream("items", changed.output, join.table)
    app.add_stream("joined", join.output, sink.input)
    found = [(row["number"], row["name"]) for row in run_local(app).collected("sink")]
    assert found == [(window, "n0") for window in range(9) if window != 4]


# First tuples of keys ---------------------------------------------------------------------------------------


class Event(NamedTuple):
    id: int
    name: str
    value: float
    time: datetime


def test_by_the_clock_a_key_comes_again_once_its_time_is_over() -> None:
    app = Application("once", window="1s")
    items = [item for number in range(12) for item in (Event(number, "a", 1.0, START), END_WINDOW)]
    once = Deduplicate("name", within="5s", by="clock")
    parts = app.read("events", ListInput(Event, items)).process("once", once)
    parts.output.write("sink", CollectorSink(Event))
    parts.duplicates.write("others", CollectorSink(Event))
    run = run_local(app)
    assert [row.id for row in run.collected("sink")] == [0, 5, 10]
    assert len(run.collected("others")) == 9


def test_times_are_those_of_the_rows() -> None:
    rows = [(1, "a", 1.0, 2), (1, "b", 1.0, 1), (2, "c", 1.0, 0)]
    items = [Event(*row[:3], START - timedelta(seconds=row[3])) for row in rows]
    events = Application("once", window="1s").read("events", ListInput(Event, items, "time", lateness="3s"))
    again = events.deduplicate("once", "id").deduplicate("again", "value", within="1s")
    assert [row.name for row in again.collect()] == ["a", "c"]


def test_keys_are_forgotten_also_after_an_input_that_has_ended(tmp_path: Path) -> None:
    def most_held(day: int, **options: Any) -> float:
        rows = [(number, "a", 1.0, START + timedelta(days=day - 99, seconds=number)) for number in range(20)]
        items = [item for row in rows for item in (Event(*row), END_WINDOW)]
        events = Application("once").read(f"day_{day}", ListInput(Event, items, "time", lateness="0s"))
        events.deduplicate("once", "id", within="3s").write("sink", CollectorSink(Event))
        run = run_local(events.app, checkpoint=tmp_path, **options)
        assert len(run.collected("sink")) == 20
        found: list[float] = run.metric_history("once", "held_keys").column("value").to_pylist()
        return max(found)

    assert 0 < most_held(0) <= 5
    assert most_held(1, drop_state=("day_0",)) <= 5  # a topic is read after its archive
