"""The first tuple of each key: beside polars and a plain loop, with a time to live, and over faults."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, cast

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline import Application, ValidationError
from ridgeline.operators import (
    AsOfJoin,
    Deduplicate,
    Detect,
    LatestByKey,
    Sort,
    TableJoin,
    WithinJoin,
    absence,
)
from ridgeline.testing import END_WINDOW, CollectorSink, Faults, ListInput, run_local
from support.depth import deep

START = datetime(2026, 3, 29, tzinfo=UTC)


class Event(NamedTuple):
    id: int | None
    name: str | None
    value: float
    time: datetime


EVENTS = st.tuples(
    st.sampled_from([None, 0, 1, 2, -1, 2**62]),
    st.sampled_from([None, "a", "b"]),
    st.sampled_from([0.0, -0.0, math.nan, 1.5]),
    st.integers(0, 3),
)
WINDOWS = st.lists(st.lists(EVENTS, max_size=9), min_size=1, max_size=8)
Rows = Sequence[Sequence[Event]]


def events(windows: Sequence[Sequence[tuple[Any, ...]]]) -> list[list[Event]]:
    """A second a window, up to three seconds in disorder."""
    return [
        [Event(row[0], row[1], row[2], START + timedelta(seconds=number - row[3])) for row in window]
        for number, window in enumerate(windows)
    ]


def run(windows: Rows, operator: Any, partitions: int = 1, faults: Faults | None = None) -> tuple[Any, Any]:
    app = Application("once", window="1s")
    items = [item for window in windows for item in (*window, END_WINDOW)]
    source = app.add_operator("source", ListInput(Event, items, "time", lateness="3s"))
    once = app.add_operator("once", operator, partitions=partitions)
    sink = app.add_operator("sink", CollectorSink(Event))
    others = app.add_operator("others", CollectorSink(Event))
    app.add_stream("events", source.output, once.input)
    app.add_stream("first", once.output, sink.input)
    app.add_stream("again", once.duplicates, others.input)
    found = run_local(app, faults=faults)
    return found.collected("sink"), found.collected("others")


def same(one: Sequence[Event], other: Sequence[Event]) -> bool:
    return sorted(map(repr, one)) == sorted(map(repr, other))


@settings(deadline=None, max_examples=deep(5), suppress_health_check=[HealthCheck.too_slow])
@given(WINDOWS, st.sampled_from(["id", "name", "value", ("id", "name"), ("value", "id")]))
def test_equals_polars(windows: Sequence[Sequence[tuple[Any, ...]]], key: Any) -> None:
    rows = events(windows)
    every = [row for window in rows for row in window]
    frame = pl.DataFrame(
        every,
        schema={"id": pl.Int64, "name": pl.String, "value": pl.Float64, "time": pl.Datetime("us", "UTC")},
        orient="row",
    )
    schema = {"id": pl.Int64, "name": pl.String, "value": pl.Float64}
    frame = pl.DataFrame([row[:3] for row in every], schema=schema, orient="row").with_row_index("row")
    columns = [key] if isinstance(key, str) else list(key)
    firsts = frame.unique(columns, keep="first", maintain_order=True)["row"].to_list()
    expected = [every[row] for row in firsts]
    for partitions in (1, 2, 3, 5):
        first, others = run(rows, Deduplicate(key), partitions)
        assert repr(first) == repr(expected) if partitions == 1 else same(first, expected)
        assert same([*first, *others], every)


def by_loop(rows: Rows, key: str, seconds: float) -> list[Event]:
    """Keys of the inputs here never live longer than the lateness: nothing is late."""
    last: dict[Any, datetime] = {}
    found = []
    for row in (row for window in rows for row in window):
        name = getattr(row, key)
        if name not in last or row.time - last[name] >= timedelta(seconds=seconds):
            last[name] = row.time
            found.append(row)
    return found


@settings(deadline=None, max_examples=deep(5), suppress_health_check=[HealthCheck.too_slow])
@given(WINDOWS, st.sampled_from([1, 2, 4.5]), st.sampled_from(["id", "name"]))
def test_a_time_to_live_by_record_equals_a_loop(
    windows: Sequence[Sequence[tuple[Any, ...]]], seconds: float, key: str
) -> None:
    rows = events(windows)
    expected = by_loop(rows, key, seconds)
    for partitions in (1, 3):
        first, _ = run(rows, Deduplicate(key, within=seconds), partitions)
        assert first == expected if partitions == 1 else same(first, expected)


def test_by_the_clock_a_key_comes_again_once_its_time_is_over() -> None:
    rows = events([[(1, "a", 1.0, 0)] for _ in range(12)])
    first, others = run(rows, Deduplicate("id", within="5s", by="clock"))
    assert [row.time.second for row in first] == [0, 5, 10]
    assert len(first) + len(others) == 12


def test_times_are_those_of_the_rows() -> None:
    rows = events([[(1, "a", 1.0, 2), (1, "b", 1.0, 1), (2, "c", 1.0, 0)]])
    app = Application("once", window="1s")
    source = app.add_operator("source", ListInput(Event, [*rows[0]], "time", lateness="3s"))
    once = app.add_operator("once", Deduplicate("id"))
    again = app.add_operator("again", Deduplicate("value", within="1s"))
    sink = app.add_operator("sink", CollectorSink(Event))
    app.add_stream("events", source.output, once.input)
    app.add_stream("first", once.output, again.input)
    app.add_stream("second", again.output, sink.input)
    assert [row.name for row in run_local(app).collected("sink")] == ["a", "c"]


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: Deduplicate("nothing"), "nothing"),
        (Deduplicate, "key"),
        (lambda: Deduplicate("id", within="soon"), "within"),
        (lambda: Deduplicate("id", within=0), "within"),
        (lambda: Deduplicate("id", by=cast("Any", "day")), "by"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, what: str) -> None:
    with pytest.raises(ValidationError, match=what):
        run(events([[(1, "a", 1.0, 0)]]), make())


LISTS = pa.schema([("id", pa.int64()), ("many", pa.list_(pa.int64()))])


@pytest.mark.parametrize(
    ("make", "ports"),
    [
        (lambda: Deduplicate("many"), ["input"]),
        (lambda: LatestByKey(("id", "many")), ["input"]),
        (lambda: TableJoin("many"), ["input", "table"]),
        (lambda: TableJoin("many", broadcast=True), ["input", "table"]),
        (lambda: WithinJoin("many", "1s"), ["left", "right"]),
        (lambda: AsOfJoin("many"), ["left", "right"]),
        (lambda: Detect(absence("1s"), "many"), ["input"]),
        (lambda: Sort("many"), ["input"]),
    ],
)
def test_lists_are_no_keys(make: Any, ports: list[str]) -> None:
    app = Application("lists")
    source = app.add_operator("source", ListInput(LISTS, [(1, [1])]))
    operator = app.add_operator("keyed", make())
    sink = app.add_operator("sink", CollectorSink())
    app.add_stream("rows", source.output, *(getattr(operator, port) for port in ports))
    app.add_stream("keyed", operator.output, sink.input)
    with pytest.raises(ValidationError, match=r"`many` is list.*, whose values cannot be keys"):
        run_local(app)


def test_without_times_the_remedy_is_in_the_error() -> None:
    schema = pa.schema([("id", pa.int64())])
    app = Application("once")
    source = app.add_operator("source", ListInput(schema, [(1,), (1,)]))
    once = app.add_operator("once", Deduplicate("id", within="1s"))
    sink = app.add_operator("sink", CollectorSink())
    app.add_stream("events", source.output, once.input)
    app.add_stream("first", once.output, sink.input)
    with pytest.raises(ValidationError, match=r"by their times, but .*lateness"):
        run_local(app)
