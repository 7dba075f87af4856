"""Joins of two streams whose times are near, or in one window: beside DuckDB and polars.

The rows that they hold in columns: beside a plain loop, with keys of one hash.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline import Application, stable_hash
from ridgeline.operators import AsOfJoin, WindowJoin, WithinJoin, tumbling
from ridgeline.operators._row_blocks import Block
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deep

START = datetime(2026, 3, 29, tzinfo=UTC)
QUIET = settings(deadline=None, max_examples=deep(3), suppress_health_check=[HealthCheck.too_slow])


class View(NamedTuple):
    user: str | None
    place: float
    page: int
    time: datetime


class Order(NamedTuple):
    who: str | None
    page: int
    at: float
    time: datetime


USERS = st.sampled_from([None, "ann", "bob"])
PLACES = st.sampled_from([0.0, -0.0, 1.0, math.nan])
VIEWS = st.lists(
    st.lists(st.tuples(USERS, PLACES, st.integers(0, 99), st.integers(0, 30)), max_size=6), max_size=9
)
ORDERS = st.lists(
    st.lists(st.tuples(USERS, st.integers(0, 99), PLACES, st.integers(0, 30)), max_size=6), max_size=9
)
ONE = {"user": "who"}
TWO = {"user": "who", "place": "at"}


def timed(kind: Any, windows: Sequence[Sequence[tuple[Any, ...]]]) -> list[list[Any]]:
    """A second a window, up to three seconds in disorder, by tenths."""
    return [
        [kind(*row[:-1], START + timedelta(seconds=number - row[-1] / 10)) for row in window]
        for number, window in enumerate(windows)
    ]


def application(
    views: Any, orders: Any, operator: Any, partitions: int = 1, lateness: str = "3s"
) -> Application:
    app = Application("pairs", window="1s")
    inputs = []
    for name, kind, windows in (("views", View, views), ("orders", Order, orders)):
        items = [item for window in windows for item in (*window, END_WINDOW)]
        inputs.append(app.add_operator(name, ListInput(kind, items, "time", lateness=lateness)))
    join = app.add_operator("join", operator, partitions=partitions)
    app.add_stream("views", inputs[0].output, join.left)
    app.add_stream("orders", inputs[1].output, join.right)
    for port in ("output", "late_left", "late_right"):
        sink = app.add_operator(port, CollectorSink())
        app.add_stream(f"{port}_rows", getattr(join, port), sink.input)
    return app


def rows(run: Any, port: str = "output") -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in run.collected(port)]


def counted(found: Sequence[tuple[Any, ...]]) -> Counter[str]:
    return Counter(repr(list(map(plain, row))) for row in found)


def plain(value: Any) -> Any:
    """NaN equals NaN, -0.0 equals 0.0, and a time that in another form of UTC."""
    if isinstance(value, datetime):
        return value.timestamp()
    return value + 0.0 if isinstance(value, float) else value


def by_duckdb(views: Any, orders: Any, on: Any, how: str, meets: str) -> list[tuple[Any, ...]]:
    """The join of all records. DuckDB has numbers of rows; the rows themselves are ours."""
    lefts = [row for window in views for row in window]
    rights = [row for window in orders for row in window]
    left = pl.DataFrame(
        {name: [getattr(row, name) for row in lefts] for name in ("user", "place", "time")},
        schema={"user": pl.String, "place": pl.Float64, "time": pl.Datetime("us", "UTC")},
    ).with_row_index("l")
    right = pl.DataFrame(
        {name: [getattr(row, name) for row in rights] for name in ("who", "at", "time")},
        schema={"who": pl.String, "at": pl.Float64, "time": pl.Datetime("us", "UTC")},
    ).with_row_index("r")
    equal = " and ".join(f"a.{mine} = b.{theirs}" for mine, theirs in on.items())
    kind = {"inner": "", "left": "left", "full": "full", "anti": "anti"}[how]
    chosen = "a.l, null" if how == "anti" else "a.l, b.r"
    query = f"select {chosen} from left_ a {kind} join right_ b on {equal} and {meets}"
    connection = duckdb.connect()
    connection.register("left_", left.to_arrow())
    connection.register("right_", right.to_arrow())
    found = []
    taken = [name for name in Order._fields if name not in on.values()]
    for one, other in connection.execute(query).fetchall():
        mine: tuple[Any, ...] = (None,) * 4 if one is None else lefts[one]
        if one is None:
            mine = tuple(getattr(rights[other], on[name]) if name in on else None for name in View._fields)
        theirs = (
            ()
            if how == "anti"
            else tuple(None if other is None else getattr(rights[other], name) for name in taken)
        )
        found.append((*mine, *theirs))
    return found


@QUIET
@given(
    VIEWS,
    ORDERS,
    st.sampled_from(["inner", "left", "full", "anti"]),
    st.sampled_from([ONE, TWO]),
    st.sampled_from(["0s", "400ms", "1s", "5s", "1h"]),
)
def test_within_equals_duckdb(views: Any, orders: Any, how: Any, on: Any, within: str) -> None:
    views, orders = timed(View, views), timed(Order, orders)
    unit = {"0s": 0, "400ms": 400, "1s": 1000, "5s": 5000, "1h": 3_600_000}[within]
    meets = f"abs(epoch_us(a.time) - epoch_us(b.time)) <= {unit * 1000}"
    expected = counted(by_duckdb(views, orders, on, how, meets))
    for partitions, count in ((1, 1), (2, 1), (3, 1), (5, 1), (1, 4), (2, 3)):
        app = application(views, orders, WithinJoin(on, within, how=how), partitions)
        run = run_local(app, attributes={"join.application_window_count": count})
        assert counted(rows(run)) == expected
        assert not rows(run, "late_left")
        assert not rows(run, "late_right")


@QUIET
@given(VIEWS, ORDERS, st.sampled_from(["inner", "left", "full", "anti"]), st.sampled_from([ONE, TWO]))
def test_windows_equal_duckdb(views: Any, orders: Any, how: Any, on: Any) -> None:
    views, orders = timed(View, views), timed(Order, orders)
    expected = counted(
        by_duckdb(views, orders, on, how, "epoch_us(a.time) // 2000000 = epoch_us(b.time) // 2000000")
    )
    for partitions in (1, 3):
        run = run_local(application(views, orders, WindowJoin(on, tumbling("2s"), how=how), partitions))
        assert counted(rows(run)) == expected


def by_asof(views: Any, orders: Any, how: str, tolerance: timedelta | None) -> list[tuple[Any, ...]]:
    """The results of polars. It has numbers of rows; the rows themselves are ours."""
    lefts = [row for window in views for row in window]
    rights = [row for window in orders for row in window if row.who is not None]
    kinds: Any = {"user": pl.String, "time": pl.Datetime("us", "UTC")}
    left = pl.DataFrame([(row.user, row.time) for row in lefts], schema=kinds, orient="row").with_row_index(
        "l"
    )
    right = pl.DataFrame([(row.who, row.time) for row in rights], schema=kinds, orient="row").with_row_index(
        "r"
    )
    joined = left.sort("time", maintain_order=True).join_asof(
        right.sort("time", maintain_order=True), on="time", by="user", tolerance=tolerance
    )
    return [
        (*lefts[one], *((None,) * 3 if other is None else rights[other][1:]))
        for one, other in joined.select("l", "r").rows()
        if how == "left" or other is not None
    ]


@QUIET
@given(VIEWS, ORDERS, st.sampled_from(["left", "inner"]), st.sampled_from([None, 0, 0.4, 2, 3600]))
def test_as_of_equals_polars(views: Any, orders: Any, how: Any, within: float | None) -> None:
    views, orders = timed(View, views), timed(Order, orders)
    tolerance = None if within is None else timedelta(seconds=within)
    expected = counted(by_asof(views, orders, how, tolerance))
    for partitions, count in ((1, 1), (2, 1), (3, 1), (5, 1), (1, 4), (2, 3)):
        app = application(views, orders, AsOfJoin(ONE, within, how=how), partitions)
        run = run_local(app, attributes={"join.application_window_count": count})
        assert counted(rows(run)) == expected
        assert not rows(run, "late_left")
        assert not rows(run, "late_right")


MANY_VIEWS = timed(
    View, [[("ann", 0.0, n, 3), ("bob", 1.0, n, 25), (f"u{n % 4}", 0.0, n, 0)] for n in range(20)]
)
MANY_ORDERS = timed(
    Order, [[("bob", n, 0.0, 7), (f"u{n % 5}", n, 1.0, 12), (None, n, 1.0, 0)] for n in range(20)]
)


@pytest.mark.parametrize("how", ["inner", "full"])
def test_results_of_a_join_are_in_time_for_what_follows(how: Any) -> None:
    app = application(MANY_VIEWS, MANY_ORDERS, WithinJoin(ONE, "2s", how=how))
    join = app.operators[2].operator
    again = app.add_operator("again", WithinJoin("user", "0s", suffix="_2"))
    sink = app.add_operator("sink", CollectorSink())
    for port in ("late_left", "late_right"):
        late = app.add_operator(f"again_{port}", CollectorSink())
        app.add_stream(f"again_{port}_rows", getattr(again, port), late.input)
    app.streams[2].sinks = (*app.streams[2].sinks, again.left, again.right)
    app.add_stream("again_rows", again.output, sink.input)
    assert join is app.operators[2].operator
    run = run_local(app)
    assert run.collected("sink")
    assert not run.collected("again_late_left")
    assert not run.collected("again_late_right")


# Rows in columns --------------------------------------------------------------------------------------------
TWINS = ("plumless", "buckeroo")
"""Texts that have one hash."""
HELD = st.tuples(st.sampled_from([None, *TWINS, "ann"]), st.integers(-5, 5))


def test_the_twins_have_one_hash() -> None:
    assert stable_hash(TWINS[0]) == stable_hash(TWINS[1])


@QUIET
@given(
    st.lists(HELD, min_size=1, max_size=30),
    st.lists(HELD, min_size=1, max_size=30),
    st.sampled_from([1, 2**52, 2**58]),
)
def test_a_block_finds_what_a_loop_finds(held: Any, sought: Any, unit: int) -> None:
    """Times may be as far apart as they can be."""
    one, other = (
        Block(
            pa.record_batch({"key": pa.array([key for key, _ in rows], pa.string())}),
            np.array([time * unit for _, time in rows], np.int64),
            ("key",),
        )
        for rows in (held, sought)
    )
    own = other.sorted
    times = other.times[own.rows]
    first, last = one.find(own, times - unit, times + 2 * unit)
    for row, begin, end in zip(own.rows.tolist(), first.tolist(), last.tolist(), strict=True):
        key, time = sought[row]
        expected = [n for n, (name, at) in enumerate(held) if name == key and -1 <= at - time <= 2]
        assert sorted(one.sorted.rows[begin:end].tolist()) == expected
        assert one.times[one.sorted.rows[begin:end]].tolist() == sorted(held[n][1] * unit for n in expected)


def test_columns_of_nulls_alone_meet_nothing() -> None:
    app = Application("nulls", window="1s")
    sides = []
    for name in ("left", "right"):
        schema = pa.schema([("key", pa.null()), (name, pa.int64()), ("time", pa.timestamp("us", "UTC"))])
        items = [(None, 0, START), END_WINDOW, (None, 1, START)]
        sides.append(app.read(name, ListInput(schema, items, "time", lateness="3s")))
    joined = sides[0].join_within("join", sides[1], "key", "1s", how="left").collect()
    assert [(row["left"], row["right"]) for row in joined] == [(0, None), (1, None)]
