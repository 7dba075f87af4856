"""Numbers that are given from outside are bounded: a count of 400 digits makes a window that never ends."""

import pytest

from ridgeline import Application, ValidationError
from ridgeline.operators import RandomEventGenerator
from ridgeline.plan import plan_application
from ridgeline.plan.edits import SetProperty
from ridgeline.testing import CollectorSink
from support.rows import in_a_row


def dice() -> Application:
    return in_a_row(Application("dice"), source=RandomEventGenerator(maximum=6), sink=CollectorSink())


@pytest.mark.parametrize("value", [10**399, "9" * 400, 2**63, -(2**63) - 1])
@pytest.mark.parametrize("name", ["count", "seed"])
def test_numbers_beyond_64_bits_are_refused(name: str, value: object) -> None:
    with pytest.raises(ValidationError) as raised:
        plan_application(dice(), edits=[SetProperty("source", name, value)])
    assert f"`source.{name}`" in str(raised.value)
    assert "digits" in str(raised.value) or "less than" in str(raised.value)
    assert len(str(raised.value)) < 600


def test_the_greatest_number_is_taken() -> None:
    plan = plan_application(dice(), edits=[SetProperty("source", "seed", 2**63 - 1)])
    assert plan.logical.operator("source").operator.seed == 2**63 - 1


def test_no_window_has_more_than_a_billion_tuples() -> None:
    with pytest.raises(ValidationError, match="`tuples_per_window` of `RandomEventGenerator`"):
        plan_application(dice(), edits=[SetProperty("source", "tuples_per_window", 10**18)])
