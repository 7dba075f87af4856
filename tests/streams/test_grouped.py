"""Streams with keys and windows: the plan is that of the long form, and results are those of `Windowed`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from ridgeline import Application, InputPort, Operator, OutputPort, RidgelineError
from ridgeline.operators import aggregate as agg
from ridgeline.operators import (
    rolling,
    tumbling,
)
from ridgeline.plan.edits import Repartition
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deeper

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Click(NamedTuple):
    user: str
    page: str
    time: datetime


def at(minute: float) -> datetime:
    return NOON + timedelta(minutes=minute)


CLICKS = [
    Click("ann", "/", at(0)),
    Click("bob", "/", at(0.5)),
    Click("ann", "/a", at(1)),
    Click("ann", "/", at(40)),
]


def source(items: list[Any] | None = None) -> ListInput:
    return ListInput(Click, CLICKS if items is None else items, "time", lateness="5s")


@pytest.mark.parametrize("partitions", [1, pytest.param(2, marks=deeper), 3, pytest.param(5, marks=deeper)])
def test_windows_without_a_key_have_all_records(partitions: int) -> None:
    app = Application("clicks", window="1s")
    items = [item for click in CLICKS for item in (click, END_WINDOW)]
    hours = app.read("clicks", source(items), partitions=2).window(tumbling("1h"))
    hours.aggregate("hours", clicks=agg.count(), last=agg.last("page"), partitions=partitions).write(
        "sink", CollectorSink()
    )
    changes = {2: [Repartition("hours", partitions % 3 + 1)]} if partitions % 3 + 1 != partitions else {}
    run = run_local(app, changes=changes)
    assert [(row["clicks"], row["last"]) for row in run.collected("sink")] == [(4, "/")]


def test_rolling_windows_of_a_stream() -> None:
    app = Application("clicks", window="1s")
    clicks = app.read("clicks", source()).group_by("user").window(rolling("30m"))
    clicks.aggregate("recent", n=agg.count()).write("sink", CollectorSink())
    rows = run_local(app).collected("sink")
    assert [(row["user"], row["n"]) for row in rows] == [("ann", 1), ("bob", 1), ("ann", 2), ("ann", 1)]


def test_late_records_are_a_stream() -> None:
    app = Application("clicks", window="1s")
    minutes = app.read("clicks", source([CLICKS[3], END_WINDOW, CLICKS[0]])).group_by("user")
    counts = minutes.window(tumbling("1m")).aggregate("counts", n=agg.count())
    counts.write("sink", CollectorSink())
    counts.late.write("late", CollectorSink(Click))
    assert run_local(app).collected("late") == [CLICKS[0]]


class Count(Operator):
    clicks = InputPort(Click, key="user")
    output = OutputPort(Click)

    @clicks.process
    def note(self, click: Click) -> None:
        self.output.emit(click)


def test_an_operator_of_ones_own_must_have_the_key() -> None:
    app = Application("clicks")
    clicks = app.read("clicks", source())
    clicks.group_by("user").process("count", Count(), partitions=2).write("sink", CollectorSink(Click))
    assert len(run_local(app).collected("sink")) == 4
    with pytest.raises(RidgelineError, match=r"port `clicks` has key='user'; declare it as .*key='page'"):
        clicks.group_by("page").process("other", Count())
    with pytest.raises(TypeError, match="no operator"):
        clicks.group_by("page").process("other", Count)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({}, "step `counts` has no aggregate"),
        ({"partitions": 2}, "step `counts` has no aggregate"),
        (
            {"n": agg.count(), "close_after": "10s"},
            r"it is an option of the windows: `window\(\.\.\., close_after=\.\.\.\)`",
        ),
        ({"n": agg.count}, r"`n` of step `counts` is a function; call it: `n=agg.count\(...\)`"),
    ],
)
def test_what_is_no_aggregate_is_refused(given: dict[str, Any], fault: str) -> None:
    clicks = Application("clicks").read("clicks", source())
    with pytest.raises((RidgelineError, TypeError), match=fault):
        clicks.group_by("user").window(tumbling("1m")).aggregate("counts", **given)


def test_a_key_without_columns_is_refused() -> None:
    with pytest.raises(RidgelineError, match="needs the columns"):
        Application("clicks").read("clicks", source()).group_by()
