from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ridgeline.operators import Filter
from ridgeline.testing import ListInput
from support.operators.one_operator import ages, collect, values
from support.testing.shares import share


class Number(NamedTuple):
    value: int | None


WINDOWS = [[Number(i) for i in range(10)], [], [Number(None), Number(12), Number(13)], [Number(11)]]
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
                    value is not None and value % 2 == 0 for value in batch["value"].to_pylist()
                ]
            ),
        ],
        [1, 2, 3],
    ),
)
def test_only_what_the_predicate_likes(make, partitions):
    got = collect(make(), {"data": (Number, WINDOWS)}, "output", partitions=partitions)
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
