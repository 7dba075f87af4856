"""Streams joined with tables: beside polars, window by window and as of the records' times, over faults."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline import Application, ValidationError
from ridgeline.operators import TableJoin
from ridgeline.plan.edits import Repartition
from ridgeline.testing import END_WINDOW, CollectorSink, Faults, ListInput, run_local
from support.depth import deep
from support.testing.shares import share

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
TWO = {"customer": "id", "shop": "place"}


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


def by_polars(
    orders: Any, customers: Any, on: Any, how: Any, *, deleted: bool
) -> list[list[tuple[Any, ...]]]:
    """The results of each window: polars joins its orders with the latest rows by then."""
    found = []
    names = {"customer": pl.String, "shop": pl.Float64, "cents": pl.Int64, "time": pl.Object}
    for number in range(max(len(orders), len(customers))):
        seen = [row for window in customers[: number + 1] for row in window]
        frame = pl.DataFrame(
            {name: [getattr(row, name) for row in seen] for name in ("id", "place", "cents", "gone")},
            schema={"id": pl.String, "place": pl.Float64, "cents": pl.Int64, "gone": pl.Boolean},
        ).with_row_index("row")
        latest = frame.unique(list(on.values()), keep="last", maintain_order=True)
        if deleted:
            latest = latest.filter(~pl.col("gone").fill_null(value=False)).drop("gone")
        window = orders[number] if number < len(orders) else []
        left = pl.DataFrame(
            {name: [getattr(row, name) for row in window] for name in ("customer", "shop", "cents")},
            schema={name: kind for name, kind in names.items() if name != "time"},
        ).with_row_index("order")
        joined = left.join(
            latest, left_on=list(on), right_on=list(on.values()), how=how, maintain_order="left"
        )
        result = []
        for row in joined.rows(named=True):
            order = window[row["order"]]
            added = () if how == "anti" else (None,) * 4
            if how != "anti" and row["row"] is not None:
                added = seen[row["row"]]
            taken = [
                name
                for name in Customer._fields
                if name not in on.values() and not (deleted and name == "gone")
            ]
            values = dict(zip(Customer._fields, added, strict=False))
            result.append((*order, *(() if how == "anti" else (values.get(name) for name in taken))))
        found.append(result)
    return found


@QUIET
@given(
    ORDERS, CUSTOMERS, st.sampled_from(["inner", "left", "anti"]), st.sampled_from([ONE, TWO]), st.booleans()
)
def test_equals_polars_window_by_window(
    orders: Any, customers: Any, how: Any, on: Any, deleted: bool
) -> None:
    orders, customers = timed(Order, orders), timed(Customer, customers)
    expected = by_polars(orders, customers, on, how, deleted=deleted)
    for partitions, broadcast in ((1, False), (2, False), (5, False), (1, True), (3, True)):
        join = TableJoin(on, how, deleted="gone" if deleted else None, broadcast=broadcast)
        run = run_local(application(orders, customers, join, partitions))
        found = [rows(run, window) for window in run.window_ids]
        for number, window in enumerate(found):
            wanted = expected[number] if number < len(expected) else []
            assert counted(window) == counted(wanted)
            if partitions == 1:
                assert [row[:4] for row in window] == [tuple(row[:4]) for row in wanted] or "nan" in repr(
                    window
                )


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


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: TableJoin("customer"), "customer"),
        (lambda: TableJoin({"customr": "id"}), "customr"),
        (lambda: TableJoin({"customer": "cents"}), "cents"),
        (lambda: TableJoin(ONE, deleted="removed"), "removed"),
        (lambda: TableJoin(ONE, suffix=""), "twice"),
        (lambda: TableJoin(ONE, versions="1h", broadcast=True), "versions"),
        (lambda: TableJoin(ONE, versions="soon"), "versions"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, what: str) -> None:
    with pytest.raises(ValidationError, match=what):
        run_local(application([], [], make()))


def test_versions_need_times() -> None:
    app = Application("joined")
    schema = pa.schema([("id", pa.int64())])
    one = app.add_operator("one", ListInput(schema, [(1,)]))
    join = app.add_operator("join", TableJoin("id", versions="1h"))
    sink = app.add_operator("sink", CollectorSink())
    app.add_stream("one", one.output, join.input, join.table)
    app.add_stream("joined", join.output, sink.input)
    with pytest.raises(ValidationError, match=r"by their times, but .*lateness"):
        run_local(app)


class Sale(NamedTuple):
    item: int
    number: int


class Item(NamedTuple):
    key: int
    name: str | None
    since: datetime
    tags: list[str]
    gone: bool


class TextSale(NamedTuple):
    item: str
    number: int


class TextItem(NamedTuple):
    key: str
    name: str | None
    since: datetime
    tags: list[str]
    gone: bool


KINDS: dict[str, Any] = {
    "near": (Sale, Item, int),
    "far": (Sale, Item, lambda number: number * 10**12),
    "text": (TextSale, TextItem, str),
}


@pytest.mark.parametrize(("partitions", "kind"), share(2, [1, 2], KINDS))
def test_keys_meet_the_row_that_is_the_latest(kind: str, partitions: int) -> None:
    """Keys that have not changed for a while are listed; rows change and go, and windows run again."""
    sale_of, item_of, key_of = KINDS[kind]
    draw = random.Random(kind)
    names = [f"n{number}" for number in range(9)] + [None]
    numbers = {window: 300 if window in (0, 5, 11) else 1 if window == 8 else 0 for window in range(14)}
    items, sales, table, wanted = list[Any](), list[Any](), dict[Any, Any](), list[Any]()
    for window in range(14):
        for _ in range(numbers[window]):
            key = key_of(draw.randrange(-40, 60))
            tags = draw.choices(["a", "b"], k=draw.randrange(3))
            item = item_of(
                key, draw.choice(names), START + timedelta(seconds=window), tags, draw.random() < 0.3
            )
            items.append(item)
            table[key] = item
        for _ in range(50):
            sale = sale_of(key_of(draw.choice([*range(-45, 65), 10**5, -(10**5)])), len(wanted))
            sales.append(sale)
            found = table.get(sale.item)
            row = None if found is None or found.gone else found
            wanted.append((*sale, *((None,) * 3 if row is None else (row.name, row.since, row.tags))))
        items.append(END_WINDOW)
        sales.append(END_WINDOW)
    app = Application("shop", window="1s")
    source = app.add_operator("sales", ListInput(sale_of, sales))
    changed = app.add_operator("items", ListInput(item_of, items))
    join = TableJoin({"item": "key"}, "left", deleted="gone")
    app.add_operator("join", join, partitions=partitions)
    sink = app.add_operator("sink", CollectorSink())
    app.add_stream("sales", source.output, join.input)
    app.add_stream("items", changed.output, join.table)
    app.add_stream("joined", join.output, sink.input)
    changes = {6: [Repartition("join", 3)], 9: [Repartition("join", 1)]} if partitions == 2 else None
    for faults in (None, Faults(1), Faults(2)):
        run = run_local(app, faults=faults, changes=None if faults else changes)
        assert sorted(rows(run), key=lambda row: row[1]) == wanted


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
