"""Records in the order of their times: beside Python's sort, in partitions, over faults and repartition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline import Application, ValidationError
from ridgeline.operators import Sort
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deep

START = datetime(2026, 3, 29, tzinfo=UTC)


class Event(NamedTuple):
    key: str | None
    number: int
    time: datetime


WINDOWS = st.lists(
    st.lists(st.tuples(st.sampled_from([None, "a", "b", "c"]), st.integers(0, 5)), max_size=8), max_size=10
)


def events(windows: Sequence[Sequence[tuple[Any, int]]]) -> list[list[Event]]:
    count = iter(range(10_000))
    return [
        [Event(key, next(count), START + timedelta(seconds=number - back)) for key, back in window]
        for number, window in enumerate(windows)
    ]


def run(windows: Any, operator: Any, partitions: int = 1, lateness: str = "5s", **options: Any) -> Any:
    app = Application("sorted", window="1s")
    items = [item for window in windows for item in (*window, END_WINDOW)]
    source = app.add_operator("source", ListInput(Event, items, "time", lateness=lateness))
    sort = app.add_operator("sort", operator, partitions=partitions)
    app.add_stream("events", source.output, sort.input)
    for port in ("output", "late"):
        sink = app.add_operator(port, CollectorSink(Event))
        app.add_stream(f"{port}_rows", getattr(sort, port), sink.input)
    return run_local(app, **options)


def by_key(rows: Sequence[Event]) -> dict[str | None, list[Event]]:
    found: dict[str | None, list[Event]] = defaultdict(list)
    for row in rows:
        found[row.key].append(row)
    return found


@settings(deadline=None, max_examples=deep(5), suppress_health_check=[HealthCheck.too_slow])
@given(WINDOWS)
def test_equals_a_sort(windows: Any) -> None:
    rows = events(windows)
    expected = sorted((row for window in rows for row in window), key=lambda row: row.time)
    found = run(rows, Sort())
    assert found.collected("output") == expected
    assert not found.collected("late")
    for partitions in (1, 2, 3, 5):
        assert by_key(run(rows, Sort("key"), partitions).collected("output")) == by_key(expected)


def test_streams_without_times_are_refused() -> None:
    app = Application("sorted")
    source = app.add_operator("source", ListInput(Event, [("a", 1, START)]))
    sort = app.add_operator("sort", Sort())
    sink = app.add_operator("sink", CollectorSink())
    app.add_stream("events", source.output, sort.input)
    app.add_stream("sorted", sort.output, sink.input)
    with pytest.raises(ValidationError, match=r"by their times, but .*lateness"):
        run_local(app)
