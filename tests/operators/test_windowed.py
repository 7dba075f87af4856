"""Windowed against pandas' group-by on the sorted data, over any order within the lateness."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from ridgeline import Application, ValidationError
from ridgeline.operators import Windowed, aggregate, rolling, session, sliding, tumbling
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


def click(user: str, second: float, amount: int | None = 1, page: int = 0) -> Click:
    return Click(user, page, amount, 0.5, at(second))


COUNT = {"start": aggregate.window_start(), "n": aggregate.count()}


@pytest.mark.parametrize(
    ("how", "properties", "fault"),
    [
        (tumbling(1), {"values": {"n": aggregate.sum("user")}}, "column `user` is string, which has no sum"),
        (tumbling(1), {"values": {"n": aggregate.max("size")}}, "there is no column `size`"),
        (tumbling(1), {"values": {"user": aggregate.count()}}, "must not have the name of a key's column"),
        (tumbling(1), {"key": "usr"}, "the key column `usr` is not in"),
        (tumbling(1), {"lateness": "soon"}, "must be a number of seconds"),
        (tumbling(1), {"accumulation": "discarding"}, "needs `early` or `early_count`"),
        (tumbling(1), {"accumulation": "retracting"}, "accumulating"),
        (tumbling(1), {"early": 0}, "must be more than 0"),
        (tumbling(1), {"early_count": 0}, "greater than or equal to 1"),
        (tumbling(1), {"close_after": "soon"}, "close_after"),
        (rolling("1m"), {"early": "5s"}, "have no early results"),
        (tumbling(count=3), {"early": "5s"}, "have no early results"),
    ],
)
def test_faults(how: Any, properties: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError) as error:
        windowed([], how, lateness=1, values=COUNT, properties=properties)
    assert fault in str(error.value)


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda: sliding("1m", "7s"), "multiple of `slide`"),
        (lambda: sliding("1mo", "1d"), "must both have months, or neither"),
        (lambda: tumbling("1mo", offset="30d"), "less than 28 days"),
        (lambda: tumbling("101y"), "at most 100 years"),
        (lambda: tumbling("1d", zone="../../etc/passwd"), "there is no time zone"),
        (lambda: tumbling("1h", zone="Europe/Berlin"), "must have whole days"),
        (lambda: tumbling("1h", offset="1h"), "must be less than '1h'"),
        (lambda: tumbling(math.inf), "is not a duration"),
        (lambda: session(0), "must be more than 0"),
        (rolling, "have a `span` or a `count`"),
        (lambda: rolling(count=0), "at least 1"),
        (lambda: rolling(count=True), "at least 1"),
        (tumbling, "have a `size` or a `count`"),
        (lambda: tumbling(count=3, zone="UTC"), "neither `zone` nor `offset`"),  # type: ignore[call-overload]
    ],
)
def test_windows_that_do_not_fit_are_refused(make: Any, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        make()


def test_records_without_times_are_refused() -> None:
    app = Application("clicks")
    source = app.add_operator("source", ListInput(Click, [click("a", 1)]))
    operator = app.add_operator("windowed", Windowed(tumbling(1), key="user", values=COUNT))
    sink = app.add_operator("sink", CollectorSink())
    app.add_stream("clicks", source.output, operator.input)
    app.add_stream("results", operator.output, sink.input)
    with pytest.raises(ValidationError, match="puts records into windows by their times, but"):
        run_local(app)


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
