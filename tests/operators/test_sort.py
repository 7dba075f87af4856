"""Records in the order of their times: beside Python's sort, in partitions, over faults and repartition."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from ridgeline import Application, ValidationError
from ridgeline.operators import Sort
from ridgeline.testing import CollectorSink, ListInput, run_local

START = datetime(2026, 3, 29, tzinfo=UTC)


class Event(NamedTuple):
    key: str | None
    number: int
    time: datetime


def events(windows: Sequence[Sequence[tuple[Any, int]]]) -> list[list[Event]]:
    count = iter(range(10_000))
    return [
        [Event(key, next(count), START + timedelta(seconds=number - back)) for key, back in window]
        for number, window in enumerate(windows)
    ]


def test_streams_without_times_are_refused() -> None:
    app = Application("sorted")
    source = app.add_operator("source", ListInput(Event, [("a", 1, START)]))
    sort = app.add_operator("sort", Sort())
    sink = app.add_operator("sink", CollectorSink())
    app.add_stream("events", source.output, sort.input)
    app.add_stream("sorted", sort.output, sink.input)
    with pytest.raises(ValidationError, match=r"by their times, but .*lateness"):
        run_local(app)
