from typing import NamedTuple

import pytest

from ridgeline import OperatorError
from ridgeline.operators import FlatMap
from support.operators.one_operator import collect


class Number(NamedTuple):
    value: int


WINDOWS = [[Number(i) for i in range(5)], [], [Number(3)]]


def test_a_result_that_cannot_be_iterated_is_reported() -> None:
    with pytest.raises(OperatorError, match="iterable"):
        collect(FlatMap(lambda _: 5, schema=Number), {"data": (Number, WINDOWS)}, "output")
