"""The first tuple of each key: beside polars and a plain loop, with a time to live, and over faults."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from ridgeline import Application
from ridgeline.operators import (
    Deduplicate,
)
from ridgeline.testing import END_WINDOW, CollectorSink, Faults, ListInput, run_local

START = datetime(2026, 3, 29, tzinfo=UTC)


class Event(NamedTuple):
    id: int | None
    name: str | None
    value: float
    time: datetime


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
