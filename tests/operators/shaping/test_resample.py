"""Records in regular steps of time: beside polars and a plain loop, in partitions, over faults."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline import Application, ValidationError
from ridgeline.operators import Resample, aggregate, tumbling
from ridgeline.plan.edits import Repartition
from ridgeline.testing import END_WINDOW, CollectorSink, Faults, ListInput, run_local
from support.depth import deep

START = datetime(2026, 3, 29, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("value", pa.float64()),
        ("count", pa.int64()),
        ("state", pa.string()),
        ("time", pa.timestamp("us", "UTC")),
    ]
)
COLUMNS = ("value", "count", "state")
Row = tuple[Any, ...]
ROWS = st.tuples(
    st.sampled_from([None, "a", "b"]),
    st.one_of(st.none(), st.sampled_from([0.0, 1.5, -3.0, 80.0])),
    st.one_of(st.none(), st.integers(-3, 3)),
    st.one_of(st.none(), st.sampled_from(["on", "off"])),
    st.integers(0, 9),
)
WINDOWS = st.lists(st.lists(ROWS, max_size=6), max_size=12)


def rows_of(windows: Sequence[Sequence[Row]]) -> list[list[Row]]:
    """Times are in halves of a second, and no later than the lateness of 5 s allows."""
    return [
        [(*row[:-1], START + timedelta(seconds=number - row[-1] / 2)) for row in window]
        for number, window in enumerate(windows)
    ]


def run(windows: Sequence[Sequence[Row]], operator: Any, partitions: int = 1, **options: Any) -> list[Row]:
    app = Application("steps", window="1s")
    items = [item for window in windows for item in (*window, END_WINDOW)]
    source = app.read("source", ListInput(SCHEMA, items, "time", lateness="5s"))
    source.process("steps", operator, partitions=partitions).write("sink", CollectorSink())
    rows = run_local(app, **options).collected("sink")
    return [tuple(row.get(name) for name in ("key", "time", *COLUMNS)) for row in rows]


def resampled(
    rows: Sequence[Row], every: float, within: float, linear: Sequence[str], *, keyed: bool = True
) -> list[Row]:
    """A plain loop: each step of each key."""
    found = []
    by_key = defaultdict(list)
    for row in sorted(rows, key=lambda row: row[-1]):
        by_key[row[0] if keyed else None].append(row)
    for key, own in by_key.items():
        number = math.floor(own[0][-1].timestamp() / every)
        while (at := number * every) <= own[-1][-1].timestamp() + within + every:
            values = [
                value_at(
                    [(row[-1].timestamp(), row[place]) for row in own], at, within, linear=name in linear
                )
                for place, name in enumerate(COLUMNS, 1)
            ]
            if any(value is not None for value in values):
                found.append((key, datetime.fromtimestamp(at, UTC), *values))
            number += 1
    return found


def value_at(values: Sequence[tuple[float, Any]], at: float, within: float, *, linear: bool) -> Any:
    known = {time: value for time, value in values if value is not None}
    before = max((time for time in known if time <= at), default=None)
    after = min((time for time in known if time > at), default=None)
    if before is None:
        return None
    if not linear:
        return known[before] if at - before < within else None
    if before == at:
        return float(known[before])
    if after is None or after - before > within:
        return None
    return known[before] + (known[after] - known[before]) * (at - before) / (after - before)


def same(found: Sequence[Row], expected: Sequence[Row]) -> bool:
    def ordered(rows: Sequence[Row]) -> list[Row]:
        return sorted(rows, key=lambda row: (row[1], row[0] or ""))

    assert len(found) == len(expected)
    return all(
        one[:2] == other[:2] and all(map(alike, one[2:], other[2:]))
        for one, other in zip(ordered(found), ordered(expected), strict=True)
    )


def alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return bool(one == other)


@settings(deadline=None, max_examples=deep(6), suppress_health_check=[HealthCheck.too_slow])
@given(WINDOWS, st.sampled_from([0.5, 1, 2, 7]), st.sampled_from([1, 2, 4.5, 30]), st.booleans())
def test_equals_a_loop(windows: Any, every: float, within: float, line: bool) -> None:
    given = rows_of(windows)
    rows = [row for window in given for row in window]
    linear, forward = (("value", "count"), ("state",)) if line else ((), COLUMNS)

    def operator(key: str | None = "key") -> Resample:
        return Resample(every, key, linear=linear, forward=forward, within=within)

    expected = resampled(rows, every, within, linear)
    alone = run(given, operator())
    assert same(alone, expected)
    for key in {row[0] for row in rows}:
        times = [row[1] for row in alone if row[0] == key]
        assert times == sorted(times)
    for partitions in (2, 3, 5):
        assert same(run(given, operator(), partitions), expected)
    assert same(run(given, operator(None), 3), resampled(rows, every, within, linear, keyed=False))


@pytest.mark.parametrize("linear", [False, True])
def test_equals_polars(linear: bool) -> None:
    rows = [
        [("a" if n % 3 else "b", float(n * n % 17), n, "s", START + timedelta(seconds=1.7 * n))]
        for n in range(60)
    ]
    line, last = ("value", ()) if linear else ((), "value")
    found = run(rows, Resample("2s", "key", linear=line, forward=last, within="1h"), 2)
    every = [row for window in rows for row in window]
    frame = pl.DataFrame(every, schema=SCHEMA.names, orient="row").select("key", "time", "value")
    ends = dict(frame.group_by("key").agg(pl.col("time").max()).rows())
    steps = pl.DataFrame([row[:2] for row in found], schema=["key", "time"], orient="row").sort("time")
    if linear:
        gaps = steps.with_columns(pl.lit(None, pl.Float64).alias("value"))
        both = pl.concat([frame, gaps]).sort("time", maintain_order=True)
        both = both.with_columns(pl.col("value").interpolate_by("time").over("key"))
        expected = steps.join(both.unique(["key", "time"], keep="first"), on=["key", "time"])
    else:
        expected = steps.join_asof(frame.sort("time"), on="time", by="key")
    wanted = {row[:2]: row[2] for row in expected.select("key", "time", "value").rows()}
    for key, time, value, *_ in found:
        assert alike(value, wanted[key, time])
    for key in "ab":
        times = [row[1] for row in found if row[0] == key and row[1] <= ends[key]]
        assert len(times) >= 49
        assert {after - before for before, after in pairwise(times)} == {timedelta(seconds=2)}


MANY = rows_of(
    [
        [
            (f"k{(n * 3 + m) % 5}", float(n) if (n + m) % 4 else None, m if m == 2 else None, f"s{n}", m)
            for m in range(4)
        ]
        for n in range(24)
    ]
)
EVERY = [row for window in MANY for row in window]
LINEAR = ("value", "count")


def mixed(key: str | None = "key") -> Resample:
    return Resample("1s", key, linear=LINEAR, forward="state", within="6s")


@pytest.mark.parametrize("seed", range(deep(2)))
def test_kills_change_nothing(seed: int) -> None:
    assert same(run(MANY, mixed(), 2, faults=Faults(seed)), resampled(EVERY, 1, 6, LINEAR))


@pytest.mark.parametrize("key", ["key", None])
def test_partitions_change_while_it_runs(key: str | None) -> None:
    changes = {3: [Repartition("steps", 3)], 9: [Repartition("steps", 2)], 15: [Repartition("steps", 5)]}
    assert same(run(MANY, mixed(key), changes=changes), resampled(EVERY, 1, 6, LINEAR, keyed=key is not None))


@pytest.mark.parametrize("partitions", [1, 3])
def test_steps_are_late_for_no_window_after_them(partitions: int) -> None:
    app = Application("steps", window="1s")
    items = [item for window in MANY for item in (*window, END_WINDOW)]
    source = app.read("source", ListInput(SCHEMA, items, "time", lateness="5s"))
    steps = source.resample(
        "steps", "1s", "key", linear=LINEAR, forward="state", within="6s", partitions=partitions
    )
    counts = steps.group_by("key").window(tumbling("1s")).aggregate("counts", records=aggregate.count())
    counts.write("sink", CollectorSink())
    found = sum(row["records"] for row in run_local(app).collected("sink"))
    assert found == len(resampled(EVERY, 1, 6, LINEAR))


def test_a_silent_key_is_forgotten_and_a_gap_of_years_costs_nothing() -> None:
    rows = [[("a", 1.0, 1, "on", START)], [("a", 2.0, 1, "on", START + timedelta(days=9000))]]
    found = run(rows, Resample("1s", "key", linear="value", forward="state", within="2s"))
    assert [row[1] - START for row in found] == [
        timedelta(days=days, seconds=seconds) for days in (0, 9000) for seconds in (0, 1)
    ]
    assert [row[2] for row in found] == [1.0, None, 2.0, None]


def test_late_records_leave_at_their_port() -> None:
    app = Application("steps", window="1s")
    rows = [("a", 1.0, 1, "on", START + timedelta(seconds=at)) for at in (20, 0)]
    items = [rows[0], END_WINDOW, END_WINDOW, rows[1]]
    source = app.read("source", ListInput(SCHEMA, items, "time", lateness="5s"))
    steps = source.resample("steps", "5s", "key", forward="value", within="5s", time="at")
    steps.write("sink", CollectorSink())
    steps.late.write("late", CollectorSink())
    run = run_local(app)
    assert run.collected("sink") == [{"key": "a", "at": rows[0][-1], "value": 1.0}]
    assert [row["time"] for row in run.collected("late")] == [START]


@pytest.mark.parametrize(
    ("operator", "what"),
    [
        (lambda: Resample("1s", "key", linear="valeu", within=1), "did you mean `value`"),
        (lambda: Resample("1s", "kee", linear="value", within=1), "did you mean `key`"),
        (lambda: Resample("1s", "key", linear="state", within=1), "put it into `forward`"),
        (lambda: Resample("1s", "key", forward="key", within=1), "must not name a column twice"),
        (lambda: Resample("1s", linear="value", forward="value", within=1), "must not name a column twice"),
        (lambda: Resample("1s", within=1), "or `forward` must name a column"),
        (lambda: Resample("1s", forward="time", within=1), "must not have the name of another column"),
        (lambda: Resample("soon", forward="value", within=1), "must be a number of seconds"),
        (lambda: Resample(0, forward="value", within=1), "must be more than 0"),
        (lambda: Resample("1s", forward="value", within=0), "must be more than 0"),
    ],
)
def test_what_does_not_fit_is_a_fault(operator: Any, what: str) -> None:
    with pytest.raises(ValidationError, match=what):
        run([], operator())


def test_streams_without_times_or_columns_are_faults() -> None:
    app = Application("steps")
    source = app.read("source", ListInput(SCHEMA, []))
    source.resample("steps", "1s", linear="value", within=1).write("sink")
    with pytest.raises(ValidationError, match="times"):
        run_local(app)
    app = Application("objects")
    app.read("source", ListInput(object, [1])).resample("steps", "1s", linear="value", within=1).write("sink")
    with pytest.raises(ValidationError, match="`object`"):
        run_local(app)


def test_a_record_of_a_clock_that_is_far_ahead_leaves_the_steps_of_all_keys_as_they_are() -> None:
    far = datetime(8900, 1, 1, tzinfo=UTC)
    rows = [(f"k{number}", None, number, None, START) for number in range(60)]
    rows.append(("k7", None, 100, None, far))
    operator = Resample(1e-6, "key", forward="count", within=1e-6)
    found = run([rows], operator)
    assert sorted(found) == sorted([(key, time, None, count, None) for key, _, count, _, time in rows])
