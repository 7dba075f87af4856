"""Windowed against pandas' group-by on the sorted data, over any order within the lateness."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

from ridgeline import Application
from ridgeline.operators import Windowed, aggregate, tumbling
from ridgeline.testing import CollectorSink, ListInput, LocalRun, run_local

SPRING = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
"""Half an hour before the clocks of Berlin go forward."""


class Click(NamedTuple):
    user: str
    page: int
    amount: int | None
    score: float
    time: datetime


VALUES = {
    "start": aggregate.window_start(),
    "end": aggregate.window_end(),
    "clicks": aggregate.count(),
    "amounts": aggregate.count("amount"),
    "total": aggregate.sum("amount"),
    "mean": aggregate.mean("amount"),
    "least": aggregate.min("score"),
    "greatest": aggregate.max("score"),
    "newest": aggregate.max("time"),
    "first": aggregate.first("score"),
    "last": aggregate.last("amount"),
}


def windowed(
    items: list[Any],
    how: Any,
    *,
    lateness: float,
    partitions: int = 1,
    sources: int = 1,
    key: Any = "user",
    values: Any = None,
    extra: float = 0,
    properties: Any = None,
    run: Callable[..., Any] = run_local,
    **options: Any,
) -> Any:
    app = Application("clicks", window="1s")
    source = app.add_operator("source", ListInput(Click, items, "time", lateness), partitions=sources)
    values = VALUES if values is None else values
    operator = Windowed(how, **{"key": key, "values": values, "lateness": extra, **(properties or {})})
    app.add_operator("windowed", operator, partitions=partitions)
    sink = app.add_operator("sink", CollectorSink())
    late = app.add_operator("late", CollectorSink(Click))
    app.add_stream("clicks", source.output, operator.input)
    app.add_stream("results", operator.output, sink.input)
    app.add_stream("late", operator.late, late.input)
    return run(app, **options)


def results(run: LocalRun) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in run.collected("sink"))


def at(second: float) -> datetime:
    return SPRING + timedelta(seconds=second)


class Reading(NamedTuple):
    sensor: float
    day: date | None
    name: str
    time: datetime


def test_keys_of_any_kind_and_texts_as_values() -> None:
    nan = float("nan")
    readings = [
        Reading(nan, None, "b", at(1)),
        Reading(float("nan"), None, "a", at(2)),
        Reading(-0.0, date(2026, 1, 1), "c", at(3)),
        Reading(0.0, date(2026, 1, 1), "d", at(4)),
    ]
    app = Application("readings")
    source = app.add_operator("source", ListInput(Reading, readings, "time", 1))
    values = {"least": aggregate.min("name"), "last": aggregate.last("name"), "n": aggregate.count()}
    operator = Windowed(tumbling("1h"), key=("sensor", "day"), values=values)
    app.add_operator("windowed", operator, partitions=2)
    sink = app.add_operator("sink", CollectorSink())
    app.add_stream("readings", source.output, operator.input)
    app.add_stream("results", operator.output, sink.input)
    found = {(row["day"], row["least"], row["last"], row["n"]) for row in run_local(app).collected("sink")}
    assert found == {(None, "a", "a", 2), (date(2026, 1, 1), "c", "d", 2)}
