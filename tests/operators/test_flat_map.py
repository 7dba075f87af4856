from collections.abc import Iterator
from typing import NamedTuple

import pytest

from ridgeline import OperatorError
from ridgeline.operators import FlatMap
from support.depth import deeper
from support.operators.one_operator import collect, values


class Number(NamedTuple):
    value: int


WINDOWS = [[Number(i) for i in range(5)], [], [Number(3)]]


def below(number: Number) -> Iterator[Number]:
    yield from map(Number, range(number.value))


@pytest.mark.parametrize("partitions", [1, pytest.param(2, marks=deeper), 3])
def test_each_tuple_becomes_none_or_several(partitions: int) -> None:
    got = collect(FlatMap(below, schema=Number), {"data": (Number, WINDOWS)}, "output", partitions=partitions)
    assert values(got) == [sorted((n,) for row in window for n in range(row.value)) for window in WINDOWS]


def test_a_result_that_cannot_be_iterated_is_reported() -> None:
    with pytest.raises(OperatorError, match="iterable"):
        collect(FlatMap(lambda _: 5, schema=Number), {"data": (Number, WINDOWS)}, "output")
