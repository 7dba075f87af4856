from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np
import pytest

from ridgeline import OperatorError, RoundRobinPartitioner
from ridgeline.operators import SumKeyVal
from support.depth import deeper
from support.operators.one_operator import collect, values
from support.testing.shares import share


class Volume(NamedTuple):
    symbol: str
    volume: int


class Delay(NamedTuple):
    carrier: str
    flights: int
    minutes: float | None


RANDOM = np.random.default_rng(1)
WINDOWS = [
    [
        Volume(f"s{k}", int(v))
        for k, v in zip(RANDOM.integers(0, 9, n), RANDOM.integers(-(10**15), 10**15, n), strict=True)
    ]
    for n in (40, 0, 17, 3, 25, 60, 1)
]
GROUPS = [WINDOWS[0:3], WINDOWS[3:6], WINDOWS[6:7]]  # application windows of three


def added(windows):
    total = Counter()
    for window in windows:
        for key, value in window:
            total[key] += value
    return total


@pytest.mark.guide("004", "Aggregations")
@pytest.mark.parametrize(("partitioner", "partitions"), share(2, [None, RoundRobinPartitioner()], [1, 2, 3]))
def test_sums_of_each_application_window(partitions, partitioner):
    got = values(
        collect(
            SumKeyVal(), {"data": (Volume, WINDOWS)}, "sum", partitions=partitions, partitioner=partitioner
        )
    )
    assert got == [sorted(added([window]).items()) for window in WINDOWS]
    got = values(
        collect(
            SumKeyVal(),
            {"data": (Volume, WINDOWS)},
            "sum",
            partitions=partitions,
            partitioner=partitioner,
            application_window_count=3,
        )
    )
    expected = [[] for _ in WINDOWS]
    expected[2], expected[5], expected[6] = (sorted(added(group).items()) for group in GROUPS)
    assert got == expected


@pytest.mark.parametrize("partitions", [1, pytest.param(2, marks=deeper), 3])
def test_cumulative_sums_of_the_keys_that_came(partitions):
    got = values(
        collect(SumKeyVal(cumulative=True), {"data": (Volume, WINDOWS)}, "sum", partitions=partitions)
    )
    for number, window in enumerate(WINDOWS):
        totals = added(WINDOWS[: number + 1])
        assert got[number] == sorted((key, totals[key]) for key in {key for key, _ in window})


@pytest.mark.parametrize("partitions", [1, pytest.param(2, marks=deeper), 3])
def test_cumulative_sums_that_restart(partitions):
    got = values(
        collect(
            SumKeyVal(cumulative=True, restart_every=3),
            {"data": (Volume, WINDOWS)},
            "sum",
            partitions=partitions,
        )
    )
    for number, window in enumerate(WINDOWS):
        totals = added(WINDOWS[number - number % 3 : number + 1])
        assert got[number] == sorted((key, totals[key]) for key in {key for key, _ in window})


def test_cumulative_sums_refuse_round_robin():
    with pytest.raises(
        OperatorError,
        match=r"`SumKeyVal` needs all tuples of a key in one partition; "
        r"got key 's\d' in partition \d of 3, which",
    ):
        collect(
            SumKeyVal(cumulative=True),
            {"data": (Volume, WINDOWS)},
            "sum",
            partitions=3,
            partitioner=RoundRobinPartitioner(),
        )


@pytest.mark.parametrize("partitioner", [None, RoundRobinPartitioner()])
def test_several_values_are_summed_column_by_column(partitioner):
    windows = [[Delay("AA", 1, 2.5), Delay("UA", 1, 1.0), Delay("AA", 1, None)], [Delay("UA", 2, -1.0)]]
    got = collect(
        SumKeyVal(schema=Delay), {"data": (Delay, windows)}, "sum", partitions=2, partitioner=partitioner
    )
    assert values(got) == [[("AA", 2, 2.5), ("UA", 1, 1.0)], [("UA", 2, -1.0)]]


def test_sums_beyond_64_bits_are_not_wrong_but_refused():
    windows = [[Volume("a", 2**62), Volume("a", 2**62)]]
    with pytest.raises(
        OperatorError, match=r"`SumKeyVal` emits values that do not fit column `volume` \(int64\)"
    ):
        collect(SumKeyVal(), {"data": (Volume, windows)}, "sum")
    windows = [[Volume("a", 2**62), Volume("a", 2**62), Volume("a", -(2**62))]]
    assert values(collect(SumKeyVal(), {"data": (Volume, windows)}, "sum")) == [[("a", 2**62)]]


def test_sums_come_in_the_order_of_the_keys():
    windows = [[Volume("b", 1), Volume("a", 1), Volume("b", 1), Volume("c", 1)]]
    assert [row["symbol"] for row in collect(SumKeyVal(), {"data": (Volume, windows)}, "sum")[0]] == [
        "b",
        "a",
        "c",
    ]


def test_floats_are_summed_to_the_last_digits():
    numbers = RANDOM.normal(size=1000)
    windows = [[Delay("x", 1, float(v)) for v in part] for part in np.split(numbers, 10)]
    exact = defaultdict(int)
    for partitions in (1, 2, 3):
        got = collect(SumKeyVal(cumulative=True), {"data": (Delay, windows)}, "sum", partitions=partitions)
        exact[partitions] = got[-1][0]["minutes"]
    assert exact[1] == pytest.approx(float(np.sum(numbers)), rel=1e-9)
    assert exact[1] == exact[2] == exact[3]
