from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ridgeline import OperatorError
from ridgeline.operators import Map
from support.operators.one_operator import collect


class Number(NamedTuple):
    value: int


class Square(NamedTuple):
    value: int
    square: int


WINDOWS = [[Number(i) for i in range(10)], [], [Number(12), Number(13)]]


def squares(batch):
    return pa.record_batch({"square": pc.multiply(batch["value"], batch["value"]), "value": batch["value"]})


def test_a_tuple_of_another_schema_is_reported():
    with pytest.raises(OperatorError, match="does not fit Square"):
        collect(Map(function=lambda number: number, schema=Square), {"data": (Number, WINDOWS)}, "output")
    with pytest.raises(OperatorError, match=r"a batch with columns \['value'\] was emitted"):
        collect(Map(batch_function=lambda batch: batch, schema=Square), {"data": (Number, WINDOWS)}, "output")


def test_one_function_is_needed():
    with pytest.raises(
        TypeError, match="`Map` needs one of `function` and `batch_function`; got neither; give one"
    ):
        Map(schema=Square)
    with pytest.raises(
        TypeError, match="`Map` needs one of `function` and `batch_function`; got both; give one"
    ):
        Map(schema=Square, function=squares, batch_function=squares)
