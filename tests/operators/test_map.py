from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ridgeline import OperatorError
from ridgeline.operators import Map
from support.operators.one_operator import collect, values
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
