"""Casts of batches: every value equal, or refused, also within lists, structs and maps."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ridgeline.api.columns.casting import cast_exactly, refuse_changing

LISTS = [pa.list_, pa.large_list, lambda kind: pa.list_(kind, 1), pa.list_view]
BIG = 2**53 + 1

REFUSED: list[tuple[list[Any], pa.DataType, pa.DataType]] = [
    ([5], pa.int64(), pa.string()),
    ([1.5], pa.float64(), pa.int64()),
    ([BIG], pa.int64(), pa.float64()),
    ([2.0**24 + 1], pa.float64(), pa.float32()),
    ([0.1], pa.float64(), pa.decimal128(38, 18)),
    ([Decimal("0.1")], pa.decimal128(38, 18), pa.float64()),
    ([Decimal("1.25")], pa.decimal128(38, 18), pa.decimal128(38, 1)),
    ([Decimal(13901871834065952311728857757051)], pa.decimal128(38, 0), pa.decimal128(38, 18)),
    ([datetime(2026, 1, 1)], pa.timestamp("us"), pa.date32()),  # noqa: DTZ001
]
TAKEN: list[tuple[list[Any], pa.DataType, pa.DataType]] = [
    ([True], pa.bool_(), pa.int64()),
    ([2.0], pa.float64(), pa.int8()),
    ([2**60], pa.int64(), pa.float64()),
    ([0.5], pa.float64(), pa.float32()),
    ([0.5], pa.float64(), pa.decimal128(38, 18)),
    ([Decimal("0.5")], pa.decimal128(38, 18), pa.float32()),
    (["a"], pa.string(), pa.large_string()),
    (["a"], pa.string(), pa.dictionary(pa.int8(), pa.string())),
    ([date(2026, 1, 1)], pa.date32(), pa.timestamp("ns")),
]


def nested(array: pa.Array) -> list[pa.Array]:
    """The same values as they are, in lists, structs and maps, each also as a slice."""
    count = len(array)
    lists = pa.ListArray.from_arrays(pa.array(range(count + 1), pa.int32()), array)
    struct = pa.StructArray.from_arrays([array], names=["v"])
    maps = pa.MapArray.from_arrays(pa.array(range(count + 1), pa.int32()), pa.array(["k"] * count), array)
    found = [array, *(lists.cast(make(array.type)) for make in LISTS[:3]), struct, maps]
    return [one for whole in found for one in (whole, whole.slice(1))]


def wanted(array: pa.Array, kind: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_struct(array.type):
        return [pa.struct([("v", kind)])]
    if pa.types.is_map(array.type):
        return [pa.map_(pa.string(), kind)]
    return [make(kind) for make in LISTS] if hasattr(array.type, "value_field") else [kind]


@pytest.mark.parametrize(("values", "source", "kind"), REFUSED)
def test_what_would_change_is_refused_at_every_depth(
    values: list[Any], source: pa.DataType, kind: pa.DataType
) -> None:
    for array in nested(pa.array([None, *values], source)):
        for target in wanted(array, kind):
            with pytest.raises(pa.ArrowException):
                cast_exactly(array, target)


@pytest.mark.parametrize(("values", "source", "kind"), TAKEN)
def test_what_stays_equal_is_cast_at_every_depth(
    values: list[Any], source: pa.DataType, kind: pa.DataType
) -> None:
    plain = [*values] if not pa.types.is_date(source) else [datetime.combine(values[0], datetime.min.time())]
    for array in nested(pa.array([None, *values], source)):
        for target in wanted(array, kind):
            made = cast_exactly(array, target)
            made.validate(full=True)
            assert made.type == target
            assert str(made.to_pylist()[-1]).count("None") == 0
            if array.type == source:
                assert made.to_pylist()[-1] == plain[0]


def test_fractions_are_rounded_to_the_digits_of_a_narrow_float() -> None:
    values = [0.1, -1 / 3, 1e-30, 12345.678]
    for kind, width in ((pa.float32(), np.float32), (pa.float16(), np.float16)):
        fitting = values if kind == pa.float32() else [0.1, -1 / 3, 12345.678]
        assert cast_exactly(pa.array(fitting), kind).to_pylist() == [float(width(value)) for value in fitting]


def test_nulls_and_the_order_of_fields_are_kept() -> None:
    array = pa.array([None, {"b": [1, None], "a": {"x": 1}}, {"b": None, "a": None}])
    kind = pa.struct([("a", pa.struct([("x", pa.int8())])), ("b", pa.large_list(pa.float64()))])
    assert cast_exactly(array, kind).to_pylist() == array.to_pylist()
    maps = pa.array([None, [("a", 1)], [], [("b", None)]], pa.map_(pa.string(), pa.int64()))
    for slice in (maps, maps.slice(1), maps.slice(3)):
        made = cast_exactly(slice, pa.map_(pa.large_string(), pa.float64()))
        assert made.to_pylist() == slice.to_pylist()
    for wrong in (pa.struct([("a", kind[0].type)]), pa.struct([*kind, ("c", pa.int64())])):
        with pytest.raises(pa.ArrowInvalid, match="instead of"):
            cast_exactly(array, wrong)


@pytest.mark.parametrize(
    ("pairs", "kind"),
    [
        ([("a", 1), ("a", 2)], pa.string()),
        ([(1, 1), (2, 2), (1, 3)], pa.int64()),
        ([(0.0, 1), (-0.0, 2)], pa.float64()),
        ([(math.nan, 1), (-math.nan, 2)], pa.float64()),
        ([([1], 1), ([1], 2)], pa.list_(pa.int64())),
    ],
)
def test_a_key_that_a_map_has_twice_is_found_at_every_depth(pairs: list[Any], kind: pa.DataType) -> None:
    double = pa.array([[pairs[0]], None, pairs], pa.map_(kind, pa.int64()))
    single = pa.array([[pair] for pair in pairs], pa.map_(kind, pa.int64()))
    for array, is_double in ((double, True), (single, False), (double.slice(0, 1), False)):
        count = len(array)
        for whole in (
            array,
            pa.ListArray.from_arrays(pa.array(range(count + 1), pa.int32()), array),
            pa.StructArray.from_arrays([array], names=["m"]),
            pa.MapArray.from_arrays(pa.array(range(count + 1), pa.int32()), pa.array(range(count)), array),
        ):
            if is_double:
                with pytest.raises(ValueError, match=r"in `c.*` has the key .* twice"):
                    refuse_changing(whole, "c")
            else:
                refuse_changing(whole, "c")
