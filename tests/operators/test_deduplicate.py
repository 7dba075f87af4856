"""The first tuple of each key: beside polars and a plain loop, with a time to live, and over faults."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, cast

import pyarrow as pa
import pytest

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
