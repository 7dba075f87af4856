from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ridgeline import OperatorError
from ridgeline.operators import Filter, FlatMap, Map
from ridgeline.testing import ListInput
from support.operators.one_operator import ages, collect, values
from support.testing.shares import share


class Number(NamedTuple):
    value: int


class Square(NamedTuple):
    value: int
    square: int


WINDOWS = [[Number(i) for i in range(10)], [], [Number(12), Number(13)]]
SQUARES = [[(row.value, row.value**2) for row in window] for window in WINDOWS]


def squares(batch):
    return pa.record_batch({"square": pc.multiply(batch["value"], batch["value"]), "value": batch["value"]})


@pytest.mark.guide("004", "Filtering-Selecting-Map")
@pytest.mark.parametrize(
    ("make", "partitions"),
    share(
        2,
        [
            lambda: Map(function=lambda number: Square(number.value, number.value**2), schema=Square),
            lambda: Map(batch_function=squares, schema=Square),
        ],
        [1, 2, 3],
    ),
)
def test_each_tuple_becomes_another(make, partitions):
    got = collect(make(), {"data": (Number, WINDOWS)}, "output", partitions=partitions)
    assert values(got) == SQUARES
    if partitions == 1:
        assert [row["value"] for row in got[0]] == list(range(10))


def test_a_tuple_of_another_schema_is_reported():
    with pytest.raises(OperatorError, match="does not fit Square"):
        collect(Map(function=lambda number: number, schema=Square), {"data": (Number, WINDOWS)}, "output")
    with pytest.raises(OperatorError, match=r"a batch with columns \['value'\] was emitted"):
        collect(Map(batch_function=lambda batch: batch, schema=Square), {"data": (Number, WINDOWS)}, "output")


FEW = [[Number(i) for i in range(5)], [], [Number(3)]]


def test_a_result_that_cannot_be_iterated_is_reported() -> None:
    with pytest.raises(OperatorError, match="iterable"):
        collect(FlatMap(lambda _: 5, schema=Number), {"data": (Number, FEW)}, "output")


class Maybe(NamedTuple):
    value: int | None


MIXED = [[Maybe(i) for i in range(10)], [], [Maybe(None), Maybe(12), Maybe(13)], [Maybe(11)]]
EVEN = [[(0,), (2,), (4,), (6,), (8,)], [], [(12,)], []]


def is_even(number):
    return number.value is not None and number.value % 2 == 0


@pytest.mark.guide("004", "Filtering-Selecting-Map")
@pytest.mark.parametrize(
    ("make", "partitions"),
    share(
        2,
        [
            lambda: Filter(predicate=is_even),
            lambda: Filter(batch_predicate=lambda batch: pc.equal(pc.bit_wise_and(batch["value"], 1), 0)),
            lambda: Filter(
                batch_predicate=lambda batch: [
                    value in range(0, 99, 2) for value in batch["value"].to_pylist()
                ]
            ),
        ],
        [1, 2, 3],
    ),
)
def test_only_what_the_predicate_likes(make, partitions):
    got = collect(make(), {"data": (Maybe, MIXED)}, "output", partitions=partitions)
    assert values(got) == EVEN
    if partitions == 1:
        assert [row["value"] for row in got[0]] == [0, 2, 4, 6, 8]


class Moment(NamedTuple):
    value: int | None
    time: datetime


@pytest.mark.parametrize(
    "make",
    [
        lambda: Filter(predicate=is_even),
        lambda: Filter(batch_predicate=lambda batch: pc.equal(pc.bit_wise_and(batch["value"], 1), 0)),
        lambda: Filter(
            batch_predicate=lambda batch: pc.equal(pc.bit_wise_and(batch["value"], 1), 0).to_pylist()
        ),
        lambda: Filter(
            batch_predicate=lambda batch: np.array([value in {2, 4} for value in batch["value"].to_pylist()])
        ),
        lambda: Filter(batch_predicate=lambda _: pa.array([False, True, None, True, False])),
    ],
)
def test_what_passes_keeps_its_time(make):
    start = datetime(2026, 1, 1, tzinfo=UTC)
    items = [(1, 9), (2, 3), (None, 8), (4, 5), (5, 1)]
    source = ListInput(
        Moment, [Moment(value, start - timedelta(seconds=age)) for value, age in items], timestamp="time"
    )
    assert ages(source, make()) == [(2, 3, 5)]
