from collections import defaultdict
from typing import NamedTuple

import numpy as np
import pytest

from ridgeline import OperatorError, RoundRobinPartitioner
from ridgeline.operators import SumKeyVal
from support.operators.one_operator import collect, values


class Volume(NamedTuple):
    symbol: str
    volume: int


class Delay(NamedTuple):
    carrier: str
    flights: int
    minutes: float | None


RANDOM = np.random.default_rng(1)


def test_cumulative_sums_refuse_round_robin():
    with pytest.raises(
        OperatorError,
        match=r"`SumKeyVal` needs all tuples of a key in one partition; "
        r"got key 's\d' in partition \d of 3, which",
    ):
        collect(
            SumKeyVal(cumulative=True),
            {"data": (Volume, [[Volume(f"s{number % 7}", 1) for number in range(40)]])},
            "sum",
            partitions=3,
            partitioner=RoundRobinPartitioner(),
        )


@pytest.mark.guide("004", "Aggregations")
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
