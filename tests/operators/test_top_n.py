import pickle
from itertools import chain
from typing import NamedTuple

import cloudpickle
import numpy as np
import pytest

from ridgeline import RoundRobinPartitioner, ValidationError
from ridgeline.operators import TopN
from support.operators.one_operator import collect
from support.testing.shares import share


class Route(NamedTuple):
    route: str
    minutes: int


RANDOM = np.random.default_rng(5)
WINDOWS = [
    [Route(f"r{k}", int(v)) for k, v in RANDOM.integers(0, 30, (n, 2))] for n in (40, 0, 17, 3, 25, 60, 1)
]


def rows(windows):
    return [[tuple(row.values()) for row in window] for window in windows]


def flat(windows):
    return list(chain.from_iterable(windows))


def largest(tuples, size):
    return sorted(tuples, key=lambda row: (-row[1], row[0]))[:size]


@pytest.mark.parametrize(("partitioner", "partitions"), share(2, [None, RoundRobinPartitioner()], [1, 2, 3]))
def test_largest_since_the_start(partitions, partitioner):
    operator = TopN(by="minutes", size=4, cumulative=True)
    got = rows(
        collect(operator, {"data": (Route, WINDOWS)}, "top", partitions=partitions, partitioner=partitioner)
    )
    assert got == [largest(flat(WINDOWS[: i + 1]), 4) for i in range(len(WINDOWS))]


@pytest.mark.parametrize(("cumulative", "partitions"), share(2, [False, True], [1, 2, 3]))
def test_newer_tuples_take_the_place_of_older_ones_with_the_same_key(partitions, cumulative):
    operator = TopN(by="minutes", size=4, keyed=True, cumulative=cumulative)
    got = rows(collect(operator, {"data": (Route, WINDOWS)}, "top", partitions=partitions))
    expected = []
    for i in range(len(WINDOWS)):
        newest = dict(flat(WINDOWS[0 if cumulative else i : i + 1]))
        expected.append(largest(newest.items(), 4))
    assert got == expected


def test_a_missing_column_is_reported():
    with pytest.raises(
        ValidationError, match=r"`by` names `delay`, which the stream \['route', 'minutes'\] does not have"
    ):
        collect(TopN(by="delay"), {"data": (Route, WINDOWS)}, "top")


def test_it_can_be_shipped():
    copy = pickle.loads(cloudpickle.dumps(TopN(by="minutes", size=3)))
    assert (copy.size, copy.by, copy.unifier_of("top").size, copy.unifier_of("top").by) == (
        3,
        "minutes",
        3,
        "minutes",
    )
