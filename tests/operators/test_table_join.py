"""Streams joined with tables: beside polars, window by window and as of the records' times, over faults."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline import Application
from ridgeline.operators import TableJoin
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deep

START = datetime(2026, 3, 29, tzinfo=UTC)


class Order(NamedTuple):
    customer: str | None
    shop: float
    cents: int
    time: datetime


class Customer(NamedTuple):
    id: str | None
    place: float
    cents: int | None
    gone: bool | None
    time: datetime


KEYS = st.sampled_from([None, "ann", "bob", "cyd"])
PLACES = st.sampled_from([0.0, -0.0, 1.0, math.nan])
ORDERS = st.lists(st.lists(st.tuples(KEYS, PLACES, st.integers(-2, 2), st.integers(0, 3)), max_size=7))
CUSTOMERS = st.lists(
    st.lists(
        st.tuples(
            KEYS,
            PLACES,
            st.sampled_from([None, 1, 2]),
            st.sampled_from([None, False, True]),
            st.integers(0, 3),
        ),
        max_size=7,
    )
)
QUIET = settings(deadline=None, max_examples=deep(3), suppress_health_check=[HealthCheck.too_slow])
ONE = {"customer": "id"}


def timed(kind: Any, windows: Sequence[Sequence[tuple[Any, ...]]]) -> list[list[Any]]:
    return [
        [kind(*row[:-1], START + timedelta(seconds=number - row[-1])) for row in window]
        for number, window in enumerate(windows)
    ]


def application(orders: Any, customers: Any, operator: Any, partitions: int = 1) -> Application:
    app = Application("joined", window="1s")
    inputs = []
    for name, kind, windows in (("orders", Order, orders), ("customers", Customer, customers)):
        items = [item for window in windows for item in (*window, END_WINDOW)]
        inputs.append(app.add_operator(name, ListInput(kind, items, "time", lateness="3s")))
    join = app.add_operator("join", operator, partitions=partitions)
    sink = app.add_operator("sink", CollectorSink())
    app.add_stream("orders", inputs[0].output, join.input)
    app.add_stream("customers", inputs[1].output, join.table)
    app.add_stream("joined", join.output, sink.input)
    return app


def rows(run: Any, window: int | None = None) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in run.collected("sink", window)]


def counted(found: Sequence[tuple[Any, ...]]) -> Counter[str]:
    return Counter(repr(list(map(plain, row))) for row in found)


def plain(value: Any) -> Any:
    """NaN equals NaN, -0.0 equals 0.0, and a time that in another form of UTC."""
    if isinstance(value, datetime):
        return value.timestamp()
    return value + 0.0 if isinstance(value, float) else value


def as_of(orders: Any, customers: Any) -> list[tuple[Any, ...]]:
    found = []
    for number, window in enumerate(orders):
        seen = [row for rows_ in customers[: number + 1] for row in rows_]
        for order in window:
            best: Any = None
            for row in seen:
                if row.id == order.customer and row.id is not None and row.time <= order.time:
                    best = row if best is None or row.time >= best.time else best
            gone = best is None or best.gone is True
            found.append((*order, *((None,) * 3 if gone else (best.place, best.cents, best.time))))
    return found


@QUIET
@given(ORDERS, CUSTOMERS)
def test_versions_are_those_of_the_records_times(orders: Any, customers: Any) -> None:
    orders, customers = timed(Order, orders), timed(Customer, customers)
    expected = as_of(orders, customers)
    for partitions in (1, 3):
        join = TableJoin(ONE, "left", deleted="gone", versions="4s")
        assert counted(rows(run_local(application(orders, customers, join, partitions)))) == counted(expected)


class Sale(NamedTuple):
    item: int
    number: int


class Item(NamedTuple):
    key: int
    name: str | None
    since: datetime
    tags: list[str]
    gone: bool


class Losing(TableJoin):
    """Fails once it has noted the rows of a window."""

    def end_window(self) -> None:
        super().end_window()
        if self.context.window_id == 4:
            raise ValueError("lost")


@pytest.mark.parametrize("key", [1, 10**12])
def test_rows_of_a_window_that_was_lost_are_not_joined(key: int) -> None:
    items, sales, now = list[Any](), list[Any](), START
    for window in range(9):
        items += [Item(key, f"n{window}", now, [], False)] if window in {0, 4} else []
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
    found = [(row[1], row[2]) for row in rows(run_local(app))]
    assert found == [(window, "n0") for window in range(9) if window != 4]
