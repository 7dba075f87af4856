"""Windows and running aggregates by the times of records: of inputs, of a step, over random streams."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from ridgeline import Application
from ridgeline.operators import Windowed, aggregate, tumbling
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deep
from support.operators.event_time import check

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def test_random_streams_equal_polars_on_the_sorted_data() -> None:
    for seed in range(deep(12)):
        check(seed)


@pytest.mark.slow
def test_hundreds_of_random_streams() -> None:
    seen: Counter[str] = Counter()
    for seed in range(deep(400)):
        told, late = check(seed)
        seen["late"] += late
        seen["kills"] += len(told.kills)
        seen["restarts"] += len(told.restarts)
        seen["idle"] += told.idle_after is not None
        seen["early"] += bool(told.options)
        seen[type(told.how).__name__ + str(told.zone_days and told.zone_days[0])] += 1
    assert len(seen) == 10, "five kinds, sliding (or tumbling) and session, three zones"
    assert min(seen.values()) > deep(25)


class Reading(NamedTuple):
    sensor: float
    day: date | None
    name: str
    time: datetime


def test_keys_of_any_kind_and_texts_as_values() -> None:
    nan, day = float("nan"), date(2026, 1, 1)
    names = [(nan, None, "b"), (float("nan"), None, "a"), (-0.0, day, "c"), (0.0, day, "d")]
    readings = [Reading(*name, at(second)) for second, name in enumerate(names)]
    values = {"least": aggregate.min("name"), "last": aggregate.last("name"), "n": aggregate.count()}
    hours = Application("readings").read("readings", ListInput(Reading, readings, "time", 1))
    windows = hours.group_by("sensor", "day").window(tumbling("1h"))
    rows = windows.aggregate("windowed", **values, partitions=2).collect()
    found = {(row["day"], row["least"], row["last"], row["n"]) for row in rows}
    assert found == {(None, "a", "a", 2), (day, "c", "d", 2)}


class Payment(NamedTuple):
    account: str
    time: datetime


@pytest.mark.parametrize("emit", ["changes", "records"])
def test_a_key_is_forgotten_after_its_time_to_live(emit: str) -> None:
    def paid(second: float, account: str = "a") -> Payment:
        return Payment(account, at(second))

    items = [
        paid(0), paid(8, "b"), END_WINDOW,
        paid(9), END_WINDOW,  # by the watermark, 8, it lives
        paid(20, "b"), END_WINDOW,
        paid(25), paid(25, "b"), END_WINDOW,  # by the watermark, 20, the first is over
    ]  # fmt: skip
    app = Application("payments", window="1s")
    grouped = app.read("payments", ListInput(Payment, items, "time", lateness=0)).group_by("account")
    totals = grouped.aggregate("totals", n=aggregate.count(), ttl="10s", ttl_by="record", emit=emit)
    totals.write("sink", CollectorSink())
    run = run_local(app)
    found = [[tuple(row.values()) for row in run.collected("sink", window)] for window in range(4)]
    assert found == [[("a", 1), ("b", 1)], [("a", 2)], [("b", 2)], [("a", 1), ("b", 3)]]


# Times that a step gives ------------------------------------------------------------------------------------


class Click(NamedTuple):
    user: str
    time: datetime | None
    other: datetime


def click(user: str, second: int | None) -> Click:
    return Click(user, None if second is None else at(second), START + timedelta(days=second or 0))


def results(items: Any, *of_input: Any, within: bool) -> tuple[list[Any], list[Any]]:
    """Counts by minute, and late clicks; `within`: times are given by a step after the input."""
    app = Application("clicks", window="1s")
    clicks = app.read("clicks", ListInput(Click, items, *of_input))
    if within:
        clicks = clicks.with_times("time", lateness="3s")
    values = {"start": aggregate.window_start(), "end": aggregate.window_end(), "n": aggregate.count()}
    counts = Windowed(tumbling("1m"), key="user", values=values)
    clicks.process("counts", counts).write("sink", CollectorSink())
    app.stream(counts.late).write("late", CollectorSink())
    run = run_local(app)
    rows = [tuple(row.values()) for row in run.collected("sink")]
    return rows, sorted((row["user"], row["time"]) for row in run.collected("late"))


def test_times_and_watermark_of_the_input_end_there() -> None:
    items = [click("a", 1), click("a", 70), END_WINDOW, click("a", 5), END_WINDOW, click("a", 90)]
    of_step, _ = results(items, "other", "100d", within=True)
    assert of_step == results(items, "time", "3s", within=False)[0]


def test_a_null_is_no_time() -> None:
    rows, late = results([click("a", 1), click("a", None)], within=True)
    assert [row[-1] for row in rows] == [1]
    assert late == [("a", None)]
