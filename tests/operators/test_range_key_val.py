from typing import NamedTuple

import numpy as np
import pytest

from ridgeline import OperatorError, RoundRobinPartitioner
from ridgeline.operators import RangeKeyVal
from support.operators.one_operator import collect, values


class Price(NamedTuple):
    symbol: str
    price: float | None


class HighLow(NamedTuple):
    symbol: str
    high: float
    low: float


RANDOM = np.random.default_rng(2)
WINDOWS = [
    [Price(f"s{k}", float(v)) for k, v in zip(RANDOM.integers(0, 9, n), RANDOM.normal(size=n), strict=True)]
    for n in (40, 0, 17, 3, 25, 60, 1)
]


@pytest.mark.parametrize("partitioner", [None, RoundRobinPartitioner()])
def test_neither_nulls_nor_nans_beside_numbers_count(partitioner):
    nan = float("nan")
    windows = [
        [Price("a", None), Price("a", nan), Price("b", 1.0), Price("c", None), Price("b", nan)],
        [Price("a", 2.0), Price("b", nan), Price("b", 3.0), Price("a", 1.0)],
    ]
    attributes = {"partitions": 2, "partitioner": partitioner, "application_window_count": 2}
    got = collect(RangeKeyVal(schema=HighLow), {"data": (Price, windows)}, "range", **attributes)
    assert values(got) == [[], [("a", 2.0, 1.0), ("b", 3.0, 1.0)]]


def test_a_schema_that_does_not_fit_is_reported():
    with pytest.raises(
        OperatorError,
        match=r"`RangeKeyVal` emits 3 columns; got a `schema` with 2: \['symbol', 'price'\]; "
        r"give one of 3 columns",
    ):
        collect(RangeKeyVal(schema=Price), {"data": (Price, WINDOWS)}, "range")
