from typing import NamedTuple

import numpy as np
import pytest

from ridgeline import OperatorError
from ridgeline.operators import ConsolidatorKeyVal
from support.depth import deeper
from support.operators.one_operator import collect, values


class Price(NamedTuple):
    symbol: str
    price: float


class Volume(NamedTuple):
    symbol: str
    volume: int


class HighLow(NamedTuple):
    symbol: str
    high: float
    low: float


class Quote(NamedTuple):
    symbol: str
    price: float | None
    volume: int | None


class Chart(NamedTuple):
    symbol: str
    volume: int | None
    low: float | None
    high: float | None


RANDOM = np.random.default_rng(4)
PRICES = [[Price(f"s{k}", float(v)) for k, v in RANDOM.integers(0, 9, (n, 2))] for n in (5, 0, 17, 3, 25)]
VOLUMES = [[Volume(f"s{k}", int(v)) for k, v in RANDOM.integers(0, 9, (n, 2))] for n in (4, 6, 0, 9, 2)]


def joined(windows):
    newest, changed = {}, set()
    for prices, volumes in windows:
        changed = {row[0] for row in (*prices, *volumes)}
        for symbol, price in prices:
            newest.setdefault(symbol, [None, None])[0] = price
        for symbol, volume in volumes:
            newest.setdefault(symbol, [None, None])[1] = volume
    return sorted((key, *newest[key]) for key in changed)


def by_none_last(rows):
    return sorted(rows, key=repr)


@pytest.mark.guide("004", "Joins")
@pytest.mark.parametrize("partitions", [1, pytest.param(2, marks=deeper), 3])
def test_newest_values_of_the_keys_that_came(partitions):
    inputs = {"in1": (Price, PRICES), "in2": (Volume, VOLUMES)}
    got = values(collect(ConsolidatorKeyVal(schema=Quote), inputs, "out", partitions=partitions))
    pairs = list(zip(PRICES, VOLUMES, strict=True))
    assert list(map(by_none_last, got)) == [by_none_last(joined(pairs[: i + 1])) for i in range(len(pairs))]


@pytest.mark.parametrize("partitions", [1, pytest.param(2, marks=deeper), 3])
def test_values_are_placed_by_name_and_once_an_application_window(partitions):
    inputs = {
        "in1": (HighLow, [[HighLow("a", 2.0, 1.0)], [HighLow("b", 4.0, 3.0)], [], []]),
        "in5": (Volume, [[], [Volume("a", 7)], [Volume("c", 8)], []]),
    }
    got = collect(
        ConsolidatorKeyVal(schema=Chart), inputs, "out", partitions=partitions, application_window_count=2
    )
    assert values(got) == [[], [("a", 7, 1.0, 2.0), ("b", None, 3.0, 4.0)], [], [("c", 8, None, None)]]


def test_a_column_without_a_place_is_reported():
    message = (
        r"column `high` of port `in1` has no place in the output; "
        r"got a `schema` with the values \['price', 'volume'\]; add it, or rename"
    )
    with pytest.raises(OperatorError, match=message):
        collect(ConsolidatorKeyVal(schema=Quote), {"in1": (HighLow, [[HighLow("a", 2.0, 1.0)]])}, "out")
