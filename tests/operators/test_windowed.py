"""Windowed against pandas' group-by on the sorted data, over any order within the lateness."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline import Application, ValidationError
from ridgeline.operators import Windowed, aggregate, rolling, session, sliding, tumbling
from ridgeline.testing import ABORT, END_WINDOW, CollectorSink, ListInput, LocalRun, run_local
from support.depth import deep

SPRING = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
"""Half an hour before the clocks of Berlin go forward."""
BERLIN = ZoneInfo("Europe/Berlin")


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


def assigned(clicks: list[Click], size: int, slide: int) -> list[tuple[Any, ...]]:
    """Each click once for each window that it is in: (start, end, *click); sizes in seconds."""
    found = []
    for click in clicks:
        second = click.time.timestamp()
        start = second // slide * slide
        while start + size > second:
            bounds = datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(start + size, UTC)
            found.append((*bounds, *click))
            start -= slide
    return found


def in_sessions(clicks: list[Click], gap: int) -> list[tuple[Any, ...]]:
    """As `assigned`, for sessions."""
    found: list[tuple[Any, ...]] = []
    # Two times of one zone are subtracted as clocks show them, also over a change of the clocks.
    clicks = [click._replace(time=click.time.astimezone(UTC)) for click in clicks]
    for user in {click.user for click in clicks}:
        own = sorted((click for click in clicks if click.user == user), key=lambda click: click.time)
        spans: list[list[Click]] = []
        for click in own:
            if spans and click.time - spans[-1][-1].time < timedelta(seconds=gap):
                spans[-1].append(click)
            else:
                spans.append([click])
        for span in spans:
            bounds = span[0].time, span[-1].time + timedelta(seconds=gap)
            found += [(*bounds, *click) for click in span]
    return found


def by_pandas(rows: list[tuple[Any, ...]], key: list[str]) -> list[tuple[Any, ...]]:
    names = ["start", "end", *Click._fields]
    frame = pd.DataFrame(rows, columns=names).astype({"amount": "Int64"})
    frame["time"] = pd.to_datetime(frame["time"], utc=True)
    frame["start"], frame["end"] = (pd.to_datetime(frame[name], utc=True) for name in ("start", "end"))
    frame = frame.sort_values("time", kind="stable")
    groups = frame.groupby([*key, "start", "end"], sort=False)
    found = groups.agg(
        clicks=("time", "size"),
        amounts=("amount", "count"),
        total=("amount", lambda amounts: amounts.sum(min_count=1)),
        mean=("amount", "mean"),
        least=("score", "min"),
        greatest=("score", "max"),
        newest=("time", "max"),
        first=("score", "first"),
        last=("amount", "last"),
    ).reset_index()
    return sorted(
        tuple(None if pd.isna(value) else value for value in row) for row in found.itertuples(index=False)
    )


def results(run: LocalRun) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in run.collected("sink"))


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[list[Click]], float]:
    """Windows of clicks in some order, and the lateness that this takes; times may be equal."""
    count = draw(st.integers(1, 25))
    span = draw(st.sampled_from([30, 7200, 200_000]))
    seconds = draw(st.lists(st.integers(0, span), min_size=count, max_size=count))
    if draw(st.booleans()):
        seconds.sort()
    zone = draw(st.sampled_from([UTC, BERLIN]))
    clicks = [
        Click(
            draw(st.sampled_from("abc")),
            draw(st.integers(0, 1)),
            draw(st.none() | st.integers(-5, 5)),
            float(number),  # so that every order can be told
            (SPRING + timedelta(seconds=second)).astimezone(zone),
        )
        for number, second in enumerate(seconds)
    ]
    lateness = max(max(seconds[: place + 1]) - second for place, second in enumerate(seconds))
    cuts = sorted(draw(st.lists(st.integers(0, count), max_size=4)))
    return [clicks[a:b] for a, b in zip([0, *cuts], [*cuts, count], strict=True)], float(lateness)


KINDS: list[Any] = [(tumbling("1m"), 60, 60), (tumbling("1h"), 3600, 3600), (sliding("1m", "20s"), 60, 20)]


@settings(deadline=None, max_examples=deep(6), suppress_health_check=[HealthCheck.too_slow])
@given(
    streams(),
    st.sampled_from([*KINDS, (session("10s"), 10, 0), (session("15m"), 900, 0)]),
    st.sampled_from([1, 2, 3, 5]),
    st.sampled_from([1, 2]),
    st.lists(st.booleans(), min_size=5, max_size=5),
    st.none() | st.integers(0, 9),
)
def test_windows_equal_those_of_sorted_data(
    stream: tuple[list[list[Click]], float],
    kind: tuple[Any, int, int],
    partitions: int,
    sources: int,
    kills: list[bool],
    interleave: int | None,
) -> None:
    windows, lateness = stream
    (how, size, slide), key = kind, ["user"]
    clicks = [click for window in windows for click in window]
    rows = assigned(clicks, size, slide) if slide else in_sessions(clicks, size)
    items = [
        item
        for window, kill in zip(windows, kills, strict=False)
        for item in (*window, *[ABORT] * kill, END_WINDOW)
    ]
    if sources > 1:  # arrival then has no order of its own: records of one time differ in nothing that counts
        values = {name: one for name, one in VALUES.items() if name not in ("first", "last")}
        run = windowed(
            items,
            how,
            lateness=lateness,
            partitions=partitions,
            sources=sources,
            values=values,
            interleave=interleave,
        )
        assert results(run) == sorted(row[:-2] for row in by_pandas(rows, key))
    else:
        run = windowed(items, how, lateness=lateness, partitions=partitions, interleave=interleave)
        assert results(run) == by_pandas(rows, key)
    assert run.collected("late") == []


def at(second: float) -> datetime:
    return SPRING + timedelta(seconds=second)


def click(user: str, second: float, amount: int | None = 1, page: int = 0) -> Click:
    return Click(user, page, amount, 0.5, at(second))


COUNT = {"start": aggregate.window_start(), "n": aggregate.count()}


def counts(run: LocalRun, window: int) -> list[tuple[Any, ...]]:
    return [
        (row["user"], (row["start"] - SPRING).total_seconds(), row["n"])
        for row in run.collected("sink", window)
    ]


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
