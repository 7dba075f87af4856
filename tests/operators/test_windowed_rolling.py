"""Rolling windows, those by count, the global one, and those that the clock closes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import polars as pl
import pytest

from ridgeline import Application
from ridgeline.operators import Windowed, aggregate, global_window, rolling, session, sliding, tumbling
from ridgeline.operators.windowed import Silence
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.testing.shares import share

START = datetime(2026, 1, 1, tzinfo=UTC)


class Reading(NamedTuple):
    device: str
    number: int
    celsius: float | None
    time: datetime


def reading(second: float, device: str = "a", celsius: float | None = 1.0, number: int = 0) -> Reading:
    return Reading(device, number, celsius, START + timedelta(seconds=second))


VALUES = {
    "start": aggregate.window_start(),
    "end": aggregate.window_end(),
    "n": aggregate.count(),
    "known": aggregate.count("celsius"),
    "sum": aggregate.sum("number"),
    "mean": aggregate.mean("celsius"),
    "least": aggregate.min("celsius"),
    "last": aggregate.last("number"),
}


def windowed(
    items: list[Any], how: Any, *, lateness: float = 0, partitions: int = 1, **properties: Any
) -> Any:
    app = Application("readings", window="1s")
    operator = Windowed(how, key="device", **{"values": VALUES, **properties})
    readings = app.read("source", ListInput(Reading, items, "time", lateness))
    readings.process("windowed", operator, partitions=partitions).write("sink", CollectorSink())
    app.stream(operator.late).write("late", CollectorSink(Reading))
    return run_local(app)


def rows_of(found: Any, window: int | None = None) -> list[tuple[Any, ...]]:
    rows = found.collected("sink") if window is None else found.collected("sink", window)
    return [tuple(row.values()) for row in rows]


def test_rolling_means_equal_those_of_polars() -> None:
    readings = [reading(place * 7 % 50 + place, "ab"[place % 2], place % 5, place) for place in range(200)]
    run = windowed(readings, rolling("20s"), lateness=50)
    frame = pl.DataFrame(readings, schema=Reading._fields, orient="row").sort("device", "time")
    means = frame.with_columns(
        mean=pl.col("celsius").rolling_mean_by("time", "20s").over("device"),
        least=pl.col("celsius").rolling_min_by("time", "20s").over("device"),
    )
    expected = sorted(
        means.with_columns(pl.col("mean").round(9)).select("device", "time", "mean", "least").rows()
    )
    assert sorted((row[0], row[2], round(row[6], 9), row[7]) for row in rows_of(run)) == expected


def test_a_result_for_each_record_once_the_watermark_has_passed_it() -> None:
    items = [
        reading(0), reading(4), END_WINDOW,  # the watermark is 4
        reading(3), reading(9), END_WINDOW,  # the first is late
        END_WINDOW,
        reading(9), reading(20), END_WINDOW,
    ]  # fmt: skip
    run = windowed(items, rolling(6), values={"at": aggregate.window_end(), "n": aggregate.count()})
    found = [
        [((row["at"] - START).total_seconds(), row["n"]) for row in run.collected("sink", window)]
        for window in range(4)
    ]
    assert found == [[(0, 1)], [(4, 2)], [], [(9, 3), (9, 3), (20, 1)]]
    assert run.collected("late") == [reading(3)]


def test_a_full_window_by_count_comes_at_once() -> None:
    items = [*[reading(9 - second, number=second) for second in range(5)], END_WINDOW, reading(0, number=5)]
    run = windowed(items, tumbling(count=2), lateness=60, values={"sum": aggregate.sum("number")})
    assert [rows_of(run, window) for window in range(2)] == [[("a", 5), ("a", 1)], [("a", 9)]]


def test_the_global_window_has_all_records_and_early_results() -> None:
    first = [reading(5, number=1), reading(1, number=2)]
    items = [*first, END_WINDOW, reading(99, number=4), END_WINDOW, END_WINDOW]
    values = {name: VALUES[name] for name in ("start", "end", "sum")} | {"final": aggregate.is_final()}
    run = windowed(items, global_window(), values=values, early_count=1)
    seconds = [START + timedelta(seconds=second) for second in (1, 5, 99)]
    assert [rows_of(run, window) for window in range(3)] == [
        [("a", seconds[0], seconds[1], 3, False)],
        [("a", seconds[0], seconds[2], 7, False)],
        [("a", seconds[0], seconds[2], 7, True)],
    ]


QUIET = [END_WINDOW] * 4


@pytest.mark.parametrize(
    ("how", "expected", "partitions"),
    share(
        2,
        [
            (tumbling(10), [("a", 0, 2), ("a", 10, 1), ("b", 0, 1)]),
            (
                sliding(10, 5),
                [("a", -5, 1), ("a", 0, 2), ("a", 5, 2), ("a", 10, 1), ("b", 0, 1), ("b", -5, 1)],
            ),
            (session(8), [("a", 1, 3), ("b", 4, 1)]),
            (tumbling(count=2), [("a", 1, 2), ("a", 12, 1), ("b", 4, 1)]),
            (global_window(), [("a", 1, 3), ("b", 4, 1)]),
            (rolling(9), [("a", -8, 1), ("a", -1, 2), ("a", 3, 2), ("b", -5, 1)]),
            (rolling(count=2), [("a", 1, 1), ("a", 1, 2), ("a", 8, 2), ("b", 4, 1)]),
        ],
        [1, 2, 3],
        spread=True,
    ),
)
def test_the_clock_closes_windows_once_nothing_comes(how: Any, expected: Any, partitions: int) -> None:
    readings = [reading(1), reading(4, "b"), reading(8), reading(12)]
    items = [*readings, END_WINDOW, *QUIET, END_WINDOW, END_WINDOW, reading(900, "z")]
    values = {"start": aggregate.window_start(), "n": aggregate.count()}
    run = windowed(items, how, lateness=60, partitions=partitions, values=values, close_after="3s")
    rows = {window: run.collected("sink", window) for window in range(6)}
    found = [
        (row["device"], (row["start"] - START).total_seconds(), row["n"])
        for window in rows.values()
        for row in window
    ]
    assert sorted(found) == sorted(expected)
    assert not any(rows[window] for window in (1, 2))
    assert run.collected("late") == []


@pytest.mark.parametrize(
    ("how", "late", "starts"),
    [
        (tumbling(10), [2, 9], [0, 10]),
        (sliding(10, 5), [2], [-5, 0, 5, 10]),
        (session(8), [2], [4, 9]),
        (rolling(9), [2], [-5, 0, 3]),
        (tumbling(count=1), [], [2, 4, 9, 12]),
    ],
)
def test_what_comes_for_a_window_that_the_clock_has_closed_is_late(how: Any, late: Any, starts: Any) -> None:
    items = [reading(4), END_WINDOW, *QUIET, reading(2, "b"), reading(9), reading(12), END_WINDOW]
    values = {"start": aggregate.window_start(), "n": aggregate.count()}
    run = windowed(items, how, lateness=60, values=values, close_after="3s")
    assert run.collected("late") == [reading(second, "b" if second == 2 else "a") for second in late]
    found = {(row["start"] - START).total_seconds() for row in run.collected("sink")}
    assert sorted(found) == starts


def test_a_silence_is_over_in_one_window_and_in_all_attempts_at_it() -> None:
    silence, second = Silence(3), 1_000_000
    assert [silence.is_over(5, now * second) for now in (10, 12, 13, 13, 14, 60)] == [
        False, False, True, True, False, False,
    ]  # fmt: skip
    silence.broken = True
    assert [silence.is_over(5, now * second) for now in (61, 63, 64)] == [False, False, True]
    assert [silence.is_over(6, now * second) for now in (65, 68, 69)] == [False, True, False]
    assert not silence.is_over(6, 2 * second)  # the clock was set back
