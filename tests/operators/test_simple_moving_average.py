from typing import NamedTuple

import numpy as np
import pytest

from ridgeline import ValidationError
from ridgeline.operators import SimpleMovingAverage
from support.depth import deeper
from support.operators.one_operator import collect, values


class Price(NamedTuple):
    symbol: str
    price: float


class Count(NamedTuple):
    symbol: str
    count: int | None


class Average(NamedTuple):
    symbol: str
    average: float


RANDOM = np.random.default_rng(3)
WINDOWS = [
    [
        Price(f"s{k}", float(v))
        for k, v in zip(RANDOM.integers(0, 9, n), RANDOM.normal(100, 1, n), strict=True)
    ]
    for n in (40, 0, 17, 3, 0, 0, 0, 25, 60, 1)
]


def averages(windows):
    found = {}
    for window in windows:
        for key, value in window:
            found.setdefault(key, []).append(value)
    return sorted((key, float(np.mean(seen))) for key, seen in found.items())


def close(got, expected):
    assert [[key for key, _ in rows] for rows in got] == [[key for key, _ in rows] for rows in expected]
    assert [value for rows in got for _, value in rows] == pytest.approx(
        [value for rows in expected for _, value in rows], rel=1e-9
    )


@pytest.mark.guide("002", "Sliding Application Window")
@pytest.mark.parametrize("partitions", [1, pytest.param(2, marks=deeper), 3])
def test_application_windows_slide_as_a_whole(partitions):
    operator = SimpleMovingAverage(schema=Average, window_size=2)
    got = values(
        collect(
            operator, {"data": (Price, WINDOWS)}, "average", partitions=partitions, application_window_count=3
        )
    )
    borders = {2: (0, 3), 5: (0, 6), 8: (3, 9), 9: (6, 10)}
    close(got, [averages(WINDOWS[slice(*borders[i])]) if i in borders else [] for i in range(len(WINDOWS))])


def test_keys_are_forgotten_when_all_their_values_are_old():
    windows = [[Count("a", 1), Count("a", 2)], [Count("b", 4)], [], [Count("b", None)], [Count("a", 7)]]
    got = values(
        collect(SimpleMovingAverage(schema=Average, window_size=2), {"data": (Count, windows)}, "average")
    )
    assert got == [[("a", 1.5)], [("a", 1.5), ("b", 4.0)], [("b", 4.0)], [], [("a", 7.0)]]


def test_averages_of_whole_numbers_need_a_column_for_them():
    """An average that is whole by rounding would go into the column of integers, others would not."""
    with pytest.raises(ValidationError, match=r"averages of `.*`, which is int64, are no whole numbers"):
        collect(SimpleMovingAverage(), {"data": (Count, [[("a", 2**53 + 1), ("a", 3)]])}, "average")
