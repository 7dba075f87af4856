"""Rows, batches, blocks and states: values come out equal, or an error names the column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.errors import SchemaError
from ridgeline.engine.exchange import block
from support.depth import deep


class Inner(NamedTuple):
    n: int
    x: float


KINDS: list[Any] = [
    int,
    float,
    str,
    bool,
    bytes,
    datetime,
    date,
    time,
    timedelta,
    Decimal,
    list[int],
    list[float],
    dict[str, float],
    Inner,
]
ZONES = st.sampled_from([None, UTC, timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))])
ANY = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**64), 2**64),
    st.floats(),
    st.text(),
    st.text(st.characters(categories=["Cs", "Cc", "Lo"])),
    st.binary(),
    st.builds(lambda moment, zone: moment.replace(tzinfo=zone), st.datetimes(), ZONES),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.decimals(),
    st.lists(st.none() | st.integers() | st.floats(), max_size=3),
    st.dictionaries(st.text(max_size=2), st.none() | st.floats(), max_size=2),
    st.builds(Inner, st.integers(-(2**64), 2**64) | st.none(), st.floats()),
    st.integers(-128, 127).map(np.int8),
    st.floats(width=32).map(np.float32),
    st.booleans().map(np.bool_),
)
FITTING = {
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(),
    str: st.text(),
    bool: st.booleans(),
    bytes: st.binary(),
    datetime: st.datetimes(timezones=st.just(UTC)),
    date: st.dates(),
    time: st.times(),
    timedelta: st.timedeltas(timedelta(days=-(10**8)), timedelta(days=10**8)),
    Decimal: st.decimals(-(10**19), 10**19, places=10),
    Inner: st.builds(Inner, st.integers(-(2**63), 2**63 - 1), st.floats()),
}


def same(left: Any, right: Any) -> bool:
    """Equal, all NaN being one and a time without a zone being UTC."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, dict) and isinstance(right, list):
        return same(list(left.items()), right)  # a map may be given as pairs
    if isinstance(left, (tuple, list)) and isinstance(right, (tuple, list)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, datetime) and isinstance(right, datetime):
        return left.replace(tzinfo=left.tzinfo or UTC) == right.replace(tzinfo=right.tzinfo or UTC)
    if isinstance(left, Decimal) and isinstance(right, np.generic):
        right = right.item()  # numpy compares no decimals
    nans = [
        value.is_nan()
        if isinstance(value, Decimal)
        else isinstance(value, (float, np.floating)) and math.isnan(value)
        for value in (left, right)
    ]
    return all(nans) if any(nans) else bool(left == right)


def record(kinds: Sequence[Any]) -> Any:
    return NamedTuple("Record", [(f"c{number}", kind | None) for number, kind in enumerate(kinds)])  # type: ignore[misc]


def forms(schema: Schema, rows: list[Any]) -> list[list[Any]]:
    """What comes out, whichever way they go."""
    tuples = Tuples.of_rows(schema, rows)
    again = block.decode(schema, block.encode(tuples), None)
    taken = again.take(np.arange(len(rows)))
    return [
        tuples.rows,
        schema.decode(schema.encode(rows)),
        Tuples.of_batch(schema, tuples.batch).rows,
        again.rows,
        taken.rows,
    ]


@settings(deadline=None, max_examples=deep(48))  # each run draws others
@given(st.data())
def test_rows_of_any_values_come_out_equal_or_are_refused_by_column(data: Any) -> None:
    kinds = data.draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3))
    kind = record(kinds)
    fitting = [st.one_of(st.none(), FITTING.get(one, ANY), ANY) for one in kinds]
    rows = [kind(*values) for values in data.draw(st.lists(st.tuples(*fitting), max_size=4))]
    schema = Schema(kind)
    try:
        found = forms(schema, rows)
    except SchemaError as error:
        assert "does not fit Record(" in str(error)  # noqa: PT017  either way is right
        assert any(f"`{name}` must be" in str(error) for name in schema.arrow.names)  # noqa: PT017
        return
    for came in found:
        assert [type(row) for row in came] == [kind] * len(rows)
        assert same(came, rows)
