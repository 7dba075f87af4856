"""Operators that are generic in Python's sense: what a template is in the guide."""

from typing import Generic, TypeVar

import pytest

from ridgeline import Application, InputPort, Operator, OutputPort
from ridgeline.testing import CollectorSink, ListInput, run_local
from support.rows import in_a_row

T = TypeVar("T", int, str)


class Greater(Operator, Generic[T]):
    """Lets values through that are greater than a limit."""

    values = InputPort(object)
    greater = OutputPort(object)

    limit: T

    @values.process
    def take(self, value: T) -> None:
        """Emit the value if it is greater."""
        if value > self.limit:
            self.greater.emit(value)


class GreaterNumber(Greater[int]):
    """The same for numbers: a class of its own, with more."""

    step: int = 1


@pytest.mark.guide("004", "Templates")
@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        (Greater[int](limit=2), [1, 5], [5]),
        (Greater[str](limit="b"), ["a", "c"], ["c"]),
        (GreaterNumber(limit=4), [1, 5], [5]),
    ],
)
def test_a_generic_operator_is_for_several_types(operator, values, expected):
    app = in_a_row(
        Application("templates"),
        source=ListInput(object, values),
        greater=operator,
        sink=CollectorSink(object),
    )
    assert run_local(app).collected("sink") == expected
