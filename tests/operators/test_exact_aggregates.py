"""Aggregates equal those of fractions and plain loops: in any order of records, partitions and borders."""

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ridgeline import Application
from ridgeline.operators import aggregate, tumbling
from ridgeline.operators._exact import added, divided, exact, float_square_sums, float_sums, rounded
from ridgeline.operators._vectors import extremes
from ridgeline.testing import ListInput

FLOATS = st.floats() | st.sampled_from([0.0, -0.0, 1e308, -1e308, 1e16, 1.0, 5e-324, math.inf, math.nan])


def nearest(values: list[float]) -> float:
    """The sum of floats by fractions: rounded once."""
    special = [value for value in values if not math.isfinite(value)]
    if special:
        return sum(special)
    return float(sum(map(Fraction, values), Fraction(0)))


def same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


@pytest.mark.parametrize("spread", [0, 3, 40, 200])
def test_many_floats_of_similar_sizes_are_summed_without_rounding(spread: int) -> None:
    """Amounts and prices take a quick way, up to a limit of digits that is crossed here."""
    random = np.random.default_rng(spread)
    values = random.normal(100, 15, 3_000).round(2) * 2.0 ** random.integers(-spread, spread + 1, 3_000)
    values[:3] = 0.0, -0.0, -values[4]
    groups = random.integers(0, 5, len(values))
    found = float_sums(values, groups, 6)
    for group in range(5):
        total = sum(map(Fraction, values[groups == group].tolist()))
        assert rounded(found[group]) == float(total)
        assert divided(found[group], 7) == float(total / 7)
    assert found[5] == 0.0


@given(st.lists(st.tuples(st.integers(0, 3), FLOATS), max_size=30), st.integers(0, 30))
@example([(0, 1e308), (0, 1e308), (0, -1e308)], 1)
@example([(0, 1e16), (0, 1.0), (0, -1e16)], 2)
def test_sums_of_floats_equal_those_of_fractions(rows: list[tuple[int, float]], border: int) -> None:
    values = np.array([value for _, value in rows], np.float64)
    groups = np.array([group for group, _ in rows], np.int64)
    whole = float_sums(values, groups, 4)
    parts = [float_sums(values[part], groups[part], 4) for part in (slice(border), slice(border, None))]
    one_by_one: list[Any] = [0.0] * 4
    for group, value in rows:
        one_by_one[group] = added(one_by_one[group], value)
    for group in range(4):
        own = [value for other, value in rows if other == group]
        try:
            expected = nearest(own)
        except OverflowError:
            with pytest.raises(OverflowError):
                rounded(whole[group])
            continue
        for total in (whole[group], added(parts[0][group], parts[1][group]), one_by_one[group]):
            assert same(rounded(total), expected)
            if own and math.isfinite(expected):
                assert divided(total, len(own)) == float(sum(map(Fraction, own), Fraction(0)) / len(own))


def test_squares_are_summed_without_rounding_whatever_their_sizes() -> None:
    random = np.random.default_rng(1)
    values = random.normal(size=300) * 10.0 ** random.integers(-200, 201, 300)
    groups = random.integers(0, 3, 300)
    for group, found in enumerate(float_square_sums(values, groups, 3)):
        assert exact(found) == sum(Fraction(value) ** 2 for value in values[groups == group].tolist())


def test_extremes_of_all_types_that_have_an_order() -> None:
    columns = [
        pa.array([True, False]),
        pa.array([3, 2**64 - 1], pa.uint64()),
        pa.array([timedelta(1), timedelta(2)]),
        pa.array(["a", "b"]),
        pa.array([1.5, 2.5], pa.float32()),
        pa.array([Decimal("0.1"), Decimal("0.2")], pa.decimal128(38, 18)),
    ]
    for column in columns:
        for highest, pick in ((True, max), (False, min)):
            found = extremes(column, np.array([0, 0]), 2, highest=highest)
            assert found == [pick(column.to_pylist()), None]
            assert pa.array(found, column.type).to_pylist() == found


START = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("kind", [pa.decimal128(5, 2), pa.decimal128(38, 0), pa.decimal256(76, 40)])
def test_sums_of_decimals_have_the_digits_of_their_column(kind: Any) -> None:
    columns = pa.schema(
        [
            pa.field("key", pa.string(), nullable=False),
            pa.field("time", pa.timestamp("us", "UTC"), nullable=False),
            pa.field("amount", kind),
        ]
    )
    amount = Decimal(999).scaleb(-kind.scale) if kind.scale < 3 else Decimal("123.4").scaleb(-kind.scale + 1)
    rows = [{"key": "a", "time": START, "amount": amount}] * 40
    rows += [{"key": "a", "time": START, "amount": None}, {"key": "b", "time": START, "amount": None}]
    app = Application("sums", window="1s")
    values = {"total": aggregate.sum("amount"), "mean": aggregate.mean("amount")}
    grouped = app.read("source", ListInput(columns, rows, "time", lateness="1s")).group_by("key")
    found = grouped.window(tumbling("1m")).aggregate("windowed", **values).collect()
    one, other = sorted(found, key=lambda row: row["key"])
    assert Fraction(one["total"]) == Fraction(amount) * 40
    assert one["mean"] == float(amount)
    assert (other["total"], other["mean"]) == (None, None)
