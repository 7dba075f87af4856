"""The rows that joins hold in columns: beside plain loops, with keys of one hash and of all types."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline import Application, stable_hash
from ridgeline.operators import WithinJoin
from ridgeline.operators._row_blocks import Block
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deep

START = datetime(2026, 3, 29, tzinfo=UTC)
QUIET = settings(deadline=None, max_examples=deep(4), suppress_health_check=list(HealthCheck))
TWINS = ("plumless", "buckeroo")
"""Texts that have one hash."""
KINDS: dict[str, tuple[pa.DataType, pa.DataType, list[Any]]] = {
    "text": (pa.string(), pa.large_string(), [None, *TWINS, "ann", "", "bob"]),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), pa.string(), [None, *TWINS, "ann"]),
    "integers": (pa.int32(), pa.uint8(), [None, 0, 1, 7, 255]),
    "wide": (pa.uint64(), pa.int64(), [None, 0, 1, 2**63 - 1]),
    "numbers": (pa.int64(), pa.float64(), [None, 0, 1, 2**53, -5]),
    "floats": (pa.float64(), pa.float64(), [None, 0.0, -0.0, math.nan, math.inf, 1.5]),
    "single": (pa.float32(), pa.float64(), [None, 0.0, -0.0, math.nan, 1.5]),
    "decimals": (pa.decimal128(9, 2), pa.int64(), [None, 0, 1, 12]),
    "truths": (pa.bool_(), pa.int8(), [None, False, True]),
    "bytes": (pa.binary(), pa.binary(), [None, b"plumless", b"buckeroo", b""]),
    "days": (pa.date32(), pa.date32(), [None, START.date(), datetime(1969, 1, 1, tzinfo=UTC).date()]),
    "nothing": (pa.null(), pa.null(), [None]),
    "times": (pa.timestamp("us", "UTC"), pa.timestamp("us", "Asia/Tokyo"), [None, START]),
}


def test_the_twins_have_one_hash() -> None:
    assert stable_hash(TWINS[0]) == stable_hash(TWINS[1])


def items(windows: Sequence[Sequence[tuple[Any, int]]], kind: pa.DataType) -> list[Any]:
    """Rows (key, number, time) of windows of a second: each is so many tenths older than its window's end."""
    found: list[Any] = []
    for window, rows in enumerate(windows):
        for place, (key, tenths) in enumerate(rows):
            value = Decimal(key) if key is not None and pa.types.is_decimal(kind) else key
            found.append((value, window * 100 + place, START + timedelta(seconds=window - tenths / 10)))
        found.append(END_WINDOW)
    return found


def application(kind: str, lefts: Any, rights: Any, join: Any, partitions: int) -> Application:
    app = Application("pairs", window="1s")
    inputs = []
    for name, column, windows in (("left", KINDS[kind][0], lefts), ("right", KINDS[kind][1], rights)):
        number = "l" if name == "left" else "r"
        time = pa.timestamp("us", "UTC")
        schema = pa.schema(
            [("key" if name == "left" else "name", column), (number, pa.int64()), ("time", time)]
        )
        rows = items(windows, column)
        inputs.append(app.add_operator(name, ListInput(schema, rows, "time", lateness="3s")))
    joined = app.add_operator("join", join, partitions=partitions)
    sink = app.add_operator("sink", CollectorSink())
    app.add_stream("lefts", inputs[0].output, joined.left)
    app.add_stream("rights", inputs[1].output, joined.right)
    app.add_stream("joined", joined.output, sink.input)
    return app


def found_by(app: Application, **options: Any) -> Counter[tuple[Any, Any]]:
    rows = run_local(app, **options).collected("sink")
    return Counter((row["l"], row.get("r")) for row in rows)


@QUIET
@given(
    st.lists(st.tuples(st.sampled_from([None, *TWINS, "ann"]), st.integers(-5, 5)), min_size=1, max_size=30),
    st.lists(st.tuples(st.sampled_from([None, *TWINS, "bob"]), st.integers(-6, 6)), min_size=1, max_size=30),
    st.sampled_from([1, 2**52, 2**58]),
)
def test_a_block_finds_what_a_loop_finds(held: Any, sought: Any, unit: int) -> None:
    """Times may be as far apart as they can be."""
    one, other = (
        Block(
            pa.record_batch({"key": pa.array([key for key, _ in rows], pa.string())}),
            np.array([time * unit for _, time in rows], np.int64),
            ("key",),
        )
        for rows in (held, sought)
    )
    own = other.sorted
    times = other.times[own.rows]
    first, last = one.find(own, times - unit, times + 2 * unit)
    for row, begin, end in zip(own.rows.tolist(), first.tolist(), last.tolist(), strict=True):
        key, time = sought[row]
        expected = [n for n, (name, at) in enumerate(held) if name == key and -1 <= at - time <= 2]
        assert sorted(one.sorted.rows[begin:end].tolist()) == expected
        assert one.times[one.sorted.rows[begin:end]].tolist() == sorted(held[n][1] * unit for n in expected)


def test_columns_of_nulls_alone_meet_nothing() -> None:
    windows = [[(None, 3)], [(None, 2), (None, 0)]]
    join = WithinJoin({"key": "name"}, "1s", how="left")
    found = found_by(application("nothing", windows, windows, join, 1))
    assert found == Counter({(number, None): 1 for number in (0, 100, 101)})
