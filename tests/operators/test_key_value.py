from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from ridgeline import OperatorError, RoundRobinPartitioner
from ridgeline.api import SchemaError
from ridgeline.api.codec import hash_columns
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.operators import RangeKeyVal
from ridgeline.operators._vectors import distinct, extremes, first_rows, last_rows, sums
from ridgeline.operators.key_value import FirstColumnCodec, check_width, to_batch
from support.operators.one_operator import collect, values


class Price(NamedTuple):
    symbol: str
    price: float


LATER = datetime(2020, 1, 2, tzinfo=UTC)


@dataclass
class Volume:
    symbol: str
    volume: int


def test_the_codec_hashes_the_first_column_like_a_key_of_its_name():
    codec = FirstColumnCodec()
    schema = Schema(Price)
    tuples = Tuples.of_rows(schema, [Price("IBM", 1.0), Price("AAPL", 2.0), Price("IBM", 3.0)])
    expected = hash_columns(tuples.batch, ["symbol"])
    assert codec.hashes(tuples).tolist() == expected.tolist()
    assert [codec.hash(row) for row in tuples.rows] == expected.tolist()
    assert codec.hash(Volume("IBM", 1)) == codec.hash({"symbol": "IBM", "volume": 1}) == expected[0]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["b", "a", None, "b", None]),
        pa.array([3, 1, None, 3, None]),
        pa.array([2.5, -0.5, None, 2.5, None]),
        pa.array([True, False, None, True, None]),
        pa.array([date(2020, 1, 2), date(2020, 1, 1), None, date(2020, 1, 2), None]),
        pa.array([LATER, datetime(2020, 1, 1, tzinfo=UTC), None, LATER, None]),
        pa.array(["b", "a", None, "b", None]).dictionary_encode(),
    ],
)
def test_keys_are_distinct_in_order_of_appearance(column):
    keys, index = distinct(column)
    assert [keys.to_pylist()[i] for i in index] == column.to_pylist()
    assert keys.to_pylist() == list(dict.fromkeys(column.to_pylist()))
    assert first_rows(index, len(keys)).tolist() == [0, 1, 2]
    assert last_rows(index, len(keys)).tolist() == [3, 1, 4]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1, 2, None, 4]), [5, 2]),
        (pa.array([2**62, 2**62, 2**62, 2**62]), [2**63, 2**63]),
        (pa.array([2**64 - 1, 0, 1, 7], pa.uint64()), [2**64 + 6, 1]),
        (pa.array([-(2**63), 1, 2, -1]), [-(2**63) - 1, 3]),
        (pa.array([0.5, 1.5, None, 2.0]), [2.5, 1.5]),
        (pa.array([Decimal("0.1"), Decimal("0.2"), None, Decimal("0.2")]), [Decimal("0.3"), Decimal("0.2")]),
        (pa.array([True, False, True, True]), [2, 1]),
        (pa.array([1, 2, 3, 4], pa.int8()), [5, 5]),
    ],
)
def test_sums_are_exact(column, expected):
    assert sums(column, np.array([0, 1, 1, 0]), 2) == expected


def test_what_has_no_sum_is_refused():
    with pytest.raises(SchemaError, match=r"type string have no sum; .*; put a `Map` before it"):
        sums(pa.array(["a"]), np.array([0]), 1)


@pytest.mark.parametrize(
    ("column", "high", "low"),
    [
        (pa.array([1, 2, 3, -4]), [1, 3], [-4, 2]),
        (pa.array([0.5, float("nan"), 1.0, 2.0]), [2.0, 1.0], [0.5, 1.0]),
        (pa.array(["b", "a", "c", "a"]), ["b", "c"], ["a", "a"]),
        (
            pa.array([date(2020, 1, d) for d in (1, 2, 3, 4)]),
            [date(2020, 1, d) for d in (4, 3)],
            [date(2020, 1, d) for d in (1, 2)],
        ),
    ],
)
def test_extremes(column, high, low):
    index = np.array([0, 1, 1, 0])
    assert extremes(column, index, 2, highest=True) == high
    assert extremes(column, index, 2, highest=False) == low


def test_columns_that_do_not_fit_a_schema_are_reported():
    schema = pa.schema([("symbol", pa.string()), ("volume", pa.int64())])
    with pytest.raises(SchemaError, match=r"`Sum` emits 3 columns; got a `schema` with 2: .*; give one of 3"):
        to_batch(schema, [["a"], [1], [2]], "Sum")
    for value in (2**63, 0.5):
        with pytest.raises(
            SchemaError, match=r"`Sum` .* do not fit column `volume` \(int64\).*; give another"
        ):
            to_batch(schema, [["a"], [value]], "Sum")


def test_wrong_numbers_of_columns_are_reported():
    batch = pa.record_batch({"a": [1], "b": [2], "c": [3]})
    check_width(batch, 2, None, "Sum")
    check_width(batch, 3, 3, "Sum")
    with pytest.raises(SchemaError, match=r"a key and 1 value; got .* \['a', 'b', 'c'\]; put a `Map` before"):
        check_width(batch, 2, 2, "Sum")
    with pytest.raises(SchemaError, match="`Sum` takes a key and at least 1 value"):
        check_width(batch.select(["a"]), 2, None, "Sum")


class Quote(NamedTuple):
    symbol: str
    price: float | None


class HighLow(NamedTuple):
    symbol: str
    high: float
    low: float


RANDOM = np.random.default_rng(2)
WINDOWS = [
    [Quote(f"s{k}", float(v)) for k, v in zip(RANDOM.integers(0, 9, n), RANDOM.normal(size=n), strict=True)]
    for n in (40, 0, 17, 3, 25, 60, 1)
]


@pytest.mark.parametrize("partitioner", [None, RoundRobinPartitioner()])
def test_neither_nulls_nor_nans_beside_numbers_count(partitioner):
    nan = float("nan")
    windows = [
        [Quote("a", None), Quote("a", nan), Quote("b", 1.0), Quote("c", None), Quote("b", nan)],
        [Quote("a", 2.0), Quote("b", nan), Quote("b", 3.0), Quote("a", 1.0)],
    ]
    attributes = {"partitions": 2, "partitioner": partitioner, "application_window_count": 2}
    got = collect(RangeKeyVal(schema=HighLow), {"data": (Quote, windows)}, "range", **attributes)
    assert values(got) == [[], [("a", 2.0, 1.0), ("b", 3.0, 1.0)]]


def test_a_schema_that_does_not_fit_is_reported():
    with pytest.raises(OperatorError, match="`RangeKeyVal` emits 3 columns; got a `schema` with 2"):
        collect(RangeKeyVal(schema=Quote), {"data": (Quote, WINDOWS)}, "range")
