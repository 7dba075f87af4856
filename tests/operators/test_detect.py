"""Patterns in the records of a key: beside plain loops, in batches, partitions and over faults."""

from __future__ import annotations

import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline import Application, ValidationError
from ridgeline.operators import (
    Detect,
    absence,
    hysteresis,
    rate,
    sequence,
    streak,
)
from ridgeline.operators.patterns import Pattern
from ridgeline.plan.spec.values import write_value
from ridgeline.plan.validation import find_faults
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deep

START = datetime(2026, 3, 29, tzinfo=UTC)
QUIET = settings(deadline=None, max_examples=deep(3), suppress_health_check=[HealthCheck.too_slow])


class Reading(NamedTuple):
    device: str | None
    value: float | None
    page: str
    time: datetime


DEVICES = st.sampled_from([None, "a", "b"])
VALUES = st.sampled_from([None, math.nan, -3.0, 0.0, 1.0, 2.0, 5.0, 9.5])
ROWS = st.lists(
    st.lists(st.tuples(DEVICES, VALUES, st.sampled_from("xyz"), st.integers(0, 9)), max_size=7), max_size=14
)


def readings(windows: Sequence[Sequence[tuple[Any, ...]]]) -> list[list[Reading]]:
    """A second a window; within it in the order of their times."""
    return [
        [
            Reading(*row[:3], START + timedelta(seconds=number + row[3] / 10))
            for row in sorted(window, key=lambda row: row[3])
        ]
        for number, window in enumerate(windows)
    ]


def application(windows: Sequence[Sequence[Reading]], operator: Any, partitions: int = 1) -> Application:
    app = Application("alerts", window="1s")
    items = [item for window in windows for item in (*window, END_WINDOW)]
    source = app.read("source", ListInput(Reading, items, "time", lateness="1s"))
    source.process("detect", operator, partitions=partitions).write("sink", CollectorSink())
    return app


def rows(run: Any) -> list[tuple[Any, ...]]:
    return [
        tuple(value.timestamp() if isinstance(value, datetime) else value for value in row.values())
        for row in run.collected("sink")
    ]


def by_key(windows: Sequence[Sequence[Reading]]) -> dict[str | None, list[Reading]]:
    found: dict[str | None, list[Reading]] = defaultdict(list)
    for row in (row for window in windows for row in window):
        found[row.device].append(row)
    return found


def check(windows: Any, pattern: Any, expected: Any) -> None:
    """`expected(rows of a key)` gives (what, since, value) of each finding."""
    given_rows = readings(windows)
    wanted = Counter(
        (key, what, since, value)
        for key, own in by_key(given_rows).items()
        for what, since, value in expected(own)
    )
    for partitions in (1, 2, 3, 5):
        run = run_local(application(given_rows, Detect(pattern, "device", value="much"), partitions))
        assert Counter(rows(run)) == wanted


@QUIET
@given(ROWS)
def test_rate_equals_a_window_over_the_times(windows: Any) -> None:
    def expected(own: Sequence[Reading]) -> list[Any]:
        found, active = [], False
        times = [row.time.timestamp() for row in own]
        for number, time in enumerate(times):
            near = [one for one in times[: number + 1] if one > time - 2 + 1e-7]
            if len(near) >= 3 and not active:
                found.append(("rate", near[-3], 3.0))
            active = len(near) >= 3
        return found

    check(windows, rate(3, within="2s"), expected)


@QUIET
@given(ROWS, st.sampled_from([1, 3, 20]))
def test_sequence_equals_a_search_of_all_runs(windows: Any, seconds: int) -> None:
    def expected(own: Sequence[Reading]) -> list[Any]:
        found, begin = [], 0
        for end, row in enumerate(own):
            if row.page != "z":
                continue
            # all pairs of an x and a y before it, in this order
            runs = [
                own[one].time
                for one in range(begin, end)
                if own[one].page == "x"
                and any(own[other].page == "y" for other in range(one + 1, end))
                and row.time - own[one].time <= timedelta(seconds=seconds)
            ]
            if runs:
                found.append(("sequence", max(runs).timestamp(), None))
                begin = end + 1
        return found

    conditions = "page = 'x'", pl.col("page") == "y", lambda row: row["page"] == "z"
    check(windows, sequence(*conditions, within=seconds), expected)
    check(windows, sequence("page = 'x'", "page = 'y'", "page = 'z'", within=seconds), expected)


def test_the_time_of_a_finding_is_a_column_if_asked_for() -> None:
    given_rows = readings([[("a", 1.0, "x", 0)], [("a", 2.0, "x", 0)], [("a", 9.0, "x", 0)]])
    app = Application("times")
    source = app.read(
        "source", ListInput(Reading, [row for window in given_rows for row in window], "time", "1s")
    )
    steps = source.group_by("device").detect("rise", sequence("value = 2", "value = 9", within="1m"), at="at")
    assert [row["since"] - START for row in steps.collect()] == [timedelta(seconds=1)]
    assert [row["at"] - START for row in steps.collect()] == [timedelta(seconds=2)]
    wrong = app.add_operator("wrong", Detect(absence("1s"), "device", at="since"))
    source.into(wrong.input)
    assert "wrong.at" in [fault.where for fault in find_faults(app)]


def many(number: int) -> list[tuple[Any, ...]]:
    return [
        (
            f"d{(number * 3 + place) % 7}",
            float((number * 5 + place * 3) % 11),
            "xyz"[(number + place) % 3],
            place,
        )
        for place in range(number % 4 + 1)
    ]


def fulfilled(row: dict[str, Any]) -> bool:
    return row["value"] is not None and row["value"] > 2


@QUIET
@given(ROWS, st.sampled_from([1, 2, 3]), st.booleans())
def test_streak_equals_a_loop(windows: Any, count: int, cleared: bool) -> None:
    def expected(own: Sequence[Reading]) -> list[Any]:
        found: list[Any] = []
        run: list[Reading] = []
        for row in own:
            if row.value is None or not row.value > 2:
                found += [("over", row.time.timestamp(), None)] if cleared and len(run) >= count else []
                run = []
                continue
            run.append(row)
            found += [("streak", run[0].time.timestamp(), None)] if len(run) == count else []
        return found

    check(windows, streak(fulfilled, count, cleared=cleared), expected)


def test_three_readings_in_a_row_by_sql() -> None:
    given_rows = readings([[("a", value, "x", 0)] for value in (81.0, None, 82.0, 83.0, 84.0, 85.0, 79.0)])
    found = rows(run_local(application(given_rows, Detect(streak("value > 80", 3, cleared=True), "device"))))
    start = given_rows[0][0].time.timestamp()
    assert [(what, since - start) for _, what, since in found] == [("streak", 2.0), ("over", 6.0)]


MANY = [many(number) for number in range(30)]


@pytest.mark.parametrize(
    "pattern",
    [
        hysteresis("value", above=6, below=3, cleared=True),
        absence("3s"),
        sequence("page = 'x'", "page = 'y'", within="9s"),
        streak("value > 2", 2),
    ],
    ids=lambda pattern: type(pattern).__name__,
)
def test_a_specification_has_patterns(pattern: Any) -> None:
    written = write_value("pattern", pattern, Pattern)
    assert json.loads(json.dumps(written)) == written
    app = application(readings(MANY), Detect(written, "device"))
    expected = rows(run_local(application(readings(MANY), Detect(pattern, "device"))))
    assert sorted(map(repr, rows(run_local(app)))) == sorted(map(repr, expected))
    wrong: Any = {"kind": "Nothing"}
    with pytest.raises(ValidationError, match="pattern"):
        run_local(application([], Detect(wrong, "device")))


NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


class Beat(NamedTuple):
    device: str
    time: datetime


def expected(records: list[tuple[str, int]], watermark: int) -> list[tuple[str, str, int]]:
    """The gaps of 10 s that a watermark has passed, by a plain loop over sorted times."""
    found = []
    for device in {device for device, _ in records}:
        seconds = sorted(second for name, second in records if name == device)
        for second, after in zip(seconds, [*seconds[1:], 10**9], strict=True):
            if after - second >= 10 and second + 10 <= watermark:
                found.append((device, "absent", second))
            if after - second >= 10 and after <= watermark:
                found.append((device, "present", after))
    return sorted(found)


@pytest.mark.parametrize("per_window", [1, 3, 100])
def test_gaps_that_the_end_of_the_input_settles_are_found(per_window: int) -> None:
    """A list that is read in one window has the gaps that it has in many; the end itself is none."""
    chance, now, records = random.Random(per_window), 0, []
    for _ in range(100):
        now += chance.choice([0, 1, 5, 10, 15])
        records.append((chance.choice("abc"), now - chance.randrange(12)))
    sent: list[Any] = []
    for number, (device, second) in enumerate(records, 1):
        beat = (device, NEW_YEAR + timedelta(seconds=second))
        sent += [beat] if number % per_window else [beat, END_WINDOW]
    app = Application("gaps")
    beats = app.read("beats", ListInput(Beat, sent, "time", lateness="12s"))
    pattern = absence("10s", by_clock=False, cleared=True)
    found = beats.sort_within("sorted", key="device").group_by("device").detect("silent", pattern)
    found.write("sink", CollectorSink())
    rows = run_local(app).collected("sink")
    got = sorted((row["device"], row["what"], int((row["since"] - NEW_YEAR).total_seconds())) for row in rows)
    newest = {device: max(at for name, at in records if name == device) for device in "abc"}
    between = [one for one in expected(records, 10**8) if one[1] == "present" or one[2] != newest[one[0]]]
    assert [one for one in got if one[1] == "present" or one[2] != newest[one[0]]] == between
    if per_window == 100:
        assert got == between


def test_the_clock_ends_gaps_that_the_watermark_has_not_passed() -> None:
    sent = [("a", NEW_YEAR), ("a", NEW_YEAR + timedelta(seconds=20)), *[END_WINDOW] * 15]
    app = Application("gaps", window="1s")
    beats = app.read("beats", ListInput(Beat, sent, "time", lateness="12s"))
    found = beats.group_by("device").detect("silent", absence("10s", cleared=True))
    found.write("sink", CollectorSink())
    rows = run_local(app).collected("sink")
    got = [(row["what"], (row["since"] - NEW_YEAR).total_seconds()) for row in rows]
    assert got == [("absent", 0.0), ("present", 20.0), ("absent", 20.0)]
