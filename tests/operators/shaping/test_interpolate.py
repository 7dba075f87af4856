"""Values on the line between two others: beside polars and a plain loop, in partitions, over faults."""

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
from ridgeline.operators import Interpolate, aggregate, tumbling
from ridgeline.plan.edits import Repartition
from ridgeline.testing import END_WINDOW, CollectorSink, Faults, ListInput, run_local
from support.depth import deep

START = datetime(2026, 3, 29, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("number", pa.int64()),
        ("value", pa.float64()),
        ("other", pa.float32()),
        ("time", pa.timestamp("us", "UTC")),
    ]
)
Row = tuple[Any, ...]
VALUES = st.one_of(st.none(), st.none(), st.sampled_from([0.0, 1.5, -3.0, 80.0]))
ROWS = st.tuples(st.sampled_from([None, "a", "b"]), VALUES, VALUES, st.integers(0, 3))
WINDOWS = st.lists(st.lists(ROWS, max_size=6), max_size=10)


def rows_of(windows: Sequence[Sequence[Row]]) -> list[list[Row]]:
    """Times are no later than the lateness of 5 s allows."""
    count, found = iter(range(10_000)), []
    for number, window in enumerate(windows):
        times = [START + timedelta(seconds=number - row[-1]) for row in window]
        found.append(
            [(row[0], next(count), *row[1:3], time) for row, time in zip(window, times, strict=True)]
        )
    return found


def run(windows: Sequence[Sequence[Row]], operator: Any, partitions: int = 1, **options: Any) -> list[Row]:
    app = Application("line", window="1s")
    items = [item for window in windows for item in (*window, END_WINDOW)]
    source = app.read("source", ListInput(SCHEMA, items, "time", lateness="5s"))
    source.process("line", operator, partitions=partitions).write("sink", CollectorSink())
    return [tuple(row.values()) for row in run_local(app, **options).collected("sink")]


def filled(rows: Sequence[Row], *, keyed: bool, within: float) -> list[Row]:
    """A plain loop, in the order of times."""
    ordered = sorted(rows, key=lambda row: row[-1])
    of_key = defaultdict(list)
    for row in ordered:
        of_key[row[0] if keyed else ()].append(row)
    made = {row[1]: list(row) for row in ordered}
    for own in of_key.values():
        for place in (2, 3):
            known = [(at, row) for at, row in enumerate(own) if row[place] is not None]
            for (first, low), (last, high) in pairwise(known):
                apart = (high[-1] - low[-1]).total_seconds()
                for row in own[first + 1 : last] if apart <= within else ():
                    share = (row[-1] - low[-1]).total_seconds() / apart if apart else 0.0
                    made[row[1]][place] = low[place] + (high[place] - low[place]) * share
    return [tuple(made[row[1]]) for row in ordered]


def same(found: Sequence[Row], expected: Sequence[Row]) -> bool:
    pairs = zip(sorted(found, key=lambda row: row[1]), sorted(expected, key=lambda row: row[1]), strict=True)
    return all(alike(one, other) for one, other in pairs)


def alike(one: Row, other: Row) -> bool:
    return (*one[:2], one[-1]) == (*other[:2], other[-1]) and all(
        (a is None) == (b is None) and (a is None or math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-6))
        for a, b in zip(one[2:4], other[2:4], strict=True)
    )


COLUMNS = ("value", "other")


@settings(deadline=None, max_examples=deep(10), suppress_health_check=[HealthCheck.too_slow])
@given(WINDOWS, st.sampled_from([1, 2, 4, 100]))
def test_equals_a_loop(windows: Any, within: int) -> None:
    given = rows_of(windows)
    every = [row for window in given for row in window]
    expected = filled(every, keyed=True, within=within)
    alone = run(given, Interpolate(COLUMNS, "key", within=within))
    assert same(alone, expected)
    for key in {row[0] for row in every}:
        times = [row[-1] for row in alone if row[0] == key]
        assert times == sorted(times)
    for partitions in (2, 3, 5):
        assert same(run(given, Interpolate(COLUMNS, "key", within=within), partitions), expected)
    assert same(run(given, Interpolate(COLUMNS, within=within), 3), filled(every, keyed=False, within=within))


def test_a_value_is_known_as_long_as_records_wait_for_another_column() -> None:
    windows = [[(None, None, None, 0)], [(None, None, 0.0, 3)], [(None, None, 0.0, 2), ("a", 0.0, None, 3)]]
    given = rows_of([*windows, [], [], [], [], [], [(None, None, None, 0)]])
    every = [row for window in given for row in window]
    assert same(run(given, Interpolate(COLUMNS, within=4)), filled(every, keyed=False, within=4))


@settings(deadline=None, max_examples=deep(6), suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(st.tuples(st.sampled_from(["a", "b"]), VALUES), max_size=3), max_size=10))
def test_equals_polars(windows: Any) -> None:
    given, number = [], 0
    for window in windows:  # each time once: of equal ones polars interpolates nothing
        rows = [
            (key, number + n, value, None, START + timedelta(seconds=number + n))
            for n, (key, value) in enumerate(window)
        ]
        number += len(window)
        given.append(rows)
    every = [row for window in given for row in window]
    frame = pl.DataFrame(every, schema=dict.fromkeys(SCHEMA.names), orient="row", infer_schema_length=None)
    frame = (
        frame.with_columns(pl.col("value").cast(pl.Float64).interpolate_by("time").over("key"))
        if every
        else frame
    )
    assert same(run(given, Interpolate("value", "key", within="1h"), 2), frame.rows())


MANY = rows_of(
    [
        [
            (
                f"k{(n * 3 + m) % 5}",
                float(n) if (n + m) % 4 == 0 else None,
                float(m) if m == 2 else None,
                m % 3,
            )
            for m in range(4)
        ]
        for n in range(24)
    ]
)
EVERY = [row for window in MANY for row in window]


@pytest.mark.parametrize("seed", range(deep(2)))
def test_kills_change_nothing(seed: int) -> None:
    found = run(MANY, Interpolate(COLUMNS, "key", within="6s"), 2, faults=Faults(seed))
    assert same(found, filled(EVERY, keyed=True, within=6))


@pytest.mark.parametrize("partitions", [1, 3])
def test_records_that_waited_are_late_for_no_window_after_it(partitions: int) -> None:
    """A null waits for the value after it, while the watermark of the input moves on."""
    app = Application("line", window="1s")
    items = [item for window in MANY for item in (*window, END_WINDOW)]
    source = app.read("source", ListInput(SCHEMA, items, "time", lateness="5s"))
    line = source.interpolate("line", COLUMNS, key="key", within="6s", partitions=partitions)
    counts = line.group_by("key").window(tumbling("1s")).aggregate("counts", records=aggregate.count())
    counts.write("sink", CollectorSink())
    assert sum(row["records"] for row in run_local(app).collected("sink")) == len(EVERY)


@pytest.mark.parametrize("key", ["key", None])
def test_partitions_change_while_it_runs(key: str | None) -> None:
    changes = {3: [Repartition("line", 3)], 9: [Repartition("line", 2)], 15: [Repartition("line", 5)]}
    found = run(MANY, Interpolate(COLUMNS, key, within="6s"), changes=changes)
    assert same(found, filled(EVERY, keyed=key is not None, within=6))


def test_a_stream_in_columns() -> None:
    app = Application("line", window="1s")
    rows = [
        ("a", 0, 1.0, None, START),
        ("a", 1, None, None, START + timedelta(seconds=1)),
        ("a", 2, 3.0, None, START + timedelta(seconds=2)),
    ]
    source = app.read("source", ListInput(SCHEMA, rows, "time", lateness="5s"))
    line = source.interpolate("line", "value", key="key", within="1m")
    line.write("sink", CollectorSink())
    assert [row["value"] for row in run_local(app).collected("sink")] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("operator", "what"),
    [
        (lambda: Interpolate("valeu", "key", within=1), "did you mean `value`"),
        (lambda: Interpolate("value", "kee", within=1), "did you mean `key`"),
        (lambda: Interpolate("number", "key", within=1), "put `cast` before it"),
        (lambda: Interpolate("key", "key", within=1), "must not be a column of the key"),
        (lambda: Interpolate("value", "key", within="soon"), "must be a number of seconds"),
        (lambda: Interpolate("value", "key", within=0), "must be more than 0"),
    ],
)
def test_what_does_not_fit_is_a_fault(operator: Any, what: str) -> None:
    with pytest.raises(ValidationError, match=what):
        run([], operator())
