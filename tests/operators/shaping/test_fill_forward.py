"""The last value in the place of nulls: beside polars and a plain loop, in partitions, over faults."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline import Application
from ridgeline.operators import FillForward
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deep

START = datetime(2026, 3, 29, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("number", pa.int64()),
        ("value", pa.float64()),
        ("text", pa.dictionary(pa.int32(), pa.string())),
        ("at", pa.timestamp("ns", "UTC")),
        ("time", pa.timestamp("us", "UTC")),
    ]
)
Row = tuple[Any, ...]
VALUES = st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.5, float("inf"), float("nan")]))
ROWS = st.tuples(
    st.sampled_from([None, "a", "b", "c"]), VALUES, st.sampled_from([None, "x", ""]), st.integers(0, 3)
)
WINDOWS = st.lists(st.lists(ROWS, max_size=8), max_size=8)


def rows_of(windows: Sequence[Sequence[Row]]) -> list[list[Row]]:
    count, found = iter(range(10_000)), []
    for number, window in enumerate(windows):
        rows = []
        for key, value, text, back in window:
            time = START + timedelta(seconds=number - back)
            rows.append((key, next(count), value, text, None if value is None else time, time))
        found.append(rows)
    return found


def run(windows: Sequence[Sequence[Row]], operator: Any, partitions: int = 1, **options: Any) -> list[Row]:
    app = Application("filled", window="1s")
    items = [item for window in windows for item in (*window, END_WINDOW)]
    source = app.read("source", ListInput(SCHEMA, items, "time", lateness="5s"))
    source.process("fill", operator, partitions=partitions).write("sink", CollectorSink())
    return [tuple(row.values()) for row in run_local(app, **options).collected("sink")]


def filled(rows: Sequence[Row], *, keyed: bool, within: float | None = None) -> list[Row]:
    """A plain loop."""
    newest: dict[Any, dict[int, tuple[datetime, Any]]] = defaultdict(dict)
    found = []
    for row in rows:
        own, made = newest[row[0] if keyed else ()], list(row)
        for place in (2, 3, 4):
            if row[place] is not None:
                own[place] = row[-1], row[place]
            elif place in own and (within is None or (row[-1] - own[place][0]).total_seconds() < within):
                made[place] = own[place][1]
        found.append(tuple(made))
    return found


def same(found: Sequence[Row], expected: Sequence[Row]) -> bool:
    return sorted(map(texts, found)) == sorted(map(texts, expected))


def texts(row: Row) -> list[str]:
    """The values as texts: zones of an equal offset have several classes."""
    return [str(value) for value in row]


COLUMNS = ("value", "text", "at")


@settings(deadline=None, max_examples=deep(8), suppress_health_check=[HealthCheck.too_slow])
@given(WINDOWS)
def test_equals_polars_and_a_loop(windows: Any) -> None:
    given = rows_of(windows)
    every = [row for window in given for row in window]
    frame = pl.DataFrame(every, schema=[*SCHEMA.names], orient="row", infer_schema_length=None)
    for column in COLUMNS if every else ():
        frame = frame.with_columns(pl.col(column).forward_fill().over("key"))
    expected = frame.rows()
    if every:
        assert same(filled(every, keyed=True), expected)
    alone = run(given, FillForward(COLUMNS, "key"))
    assert list(map(texts, alone)) == list(map(texts, filled(every, keyed=True)))
    for partitions in (2, 3, 5):
        assert same(run(given, FillForward(COLUMNS, "key"), partitions), filled(every, keyed=True))
    together = run(given, FillForward(COLUMNS), 3)
    assert list(map(texts, together)) == list(map(texts, filled(every, keyed=False)))
