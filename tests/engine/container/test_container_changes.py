"""One container through changes of its spec: what stays, what is made anew, and what is loaded."""

from typing import NamedTuple

import pytest

from ridgeline import InputPort, KeyedState, Operator, OperatorError, OutputPort
from ridgeline.plan.change.succession import succeed
from ridgeline.plan.container_spec import container_specs
from ridgeline.plan.edits import SetAttribute, SetProperty
from ridgeline.plan.planner import plan_application
from ridgeline.testing import END_WINDOW
from support.engine.containers import ByHand, application


class Item(NamedTuple):
    key: str
    number: int


class Totals(Operator):
    """Emits the total of each key times `factor`."""

    data = InputPort(Item, key="key")
    out = OutputPort(object)
    factor: int = 1
    totals = KeyedState(int)

    @data.process
    def take(self, item: Item) -> None:
        self.totals[item.key] = self.totals.get(item.key, 0) + item.number
        self.out.emit(self.totals[item.key] * self.factor)


class SetUp(Totals):
    """Has used `factor` in `setup`."""

    data = Totals.data
    fails: bool = False

    def setup(self, context):
        self.used = self.factor

    @data.process
    def take(self, item: Item) -> None:
        self.totals[item.key] = self.totals.get(item.key, 0) + item.number
        self.out.emit(self.totals[item.key] * self.used)

    def teardown(self):
        if self.fails:
            raise ValueError("it does not end")


ITEMS = [one for number in range(1, 6) for one in (Item("a", number), END_WINDOW)]


class Changing(ByHand):
    """A container by hand whose application is edited."""

    def __init__(self, operator):
        self.app = application(Item, ITEMS, operator)
        self.edits = ()
        super().__init__(self.app)

    def change(self, *edits):
        """Change all containers; what they raised in `teardown`."""
        self.edits = (*self.edits, *edits)
        self.plan = succeed(self.plan, plan_application(self.app, edits=self.edits))
        self.specs = container_specs(self.plan)
        [container], [spec] = self.containers, self.specs
        return container.change(spec)


@pytest.mark.parametrize("kind", [Totals, SetUp])
def test_a_property_is_set_on_the_instance_which_is_set_up_again_if_it_may_have_used_it(kind):
    hand = Changing(kind())
    assert hand.window() == [1]
    before = hand.operator("step")
    assert not hand.change(SetProperty("step", "factor", 10))
    assert hand.operator("step") is before
    assert hand.window() == [30]


def test_what_fails_in_the_teardown_of_the_old_is_told_and_does_not_stop_the_new():
    hand = Changing(SetUp(fails=True))
    hand.window()
    [error] = hand.change(SetAttribute("step", "recovery_attempts", 9))
    assert isinstance(error, OperatorError)
    assert "it does not end" in str(error)
    assert hand.window() == [3]


def test_it_goes_back_to_the_spec_before_with_the_states_before():
    """The first window of a changed plan may fail: nothing of it counts."""
    hand = Changing(Totals())
    hand.window()
    before = hand.plan
    hand.change(SetProperty("step", "factor", 10))
    assert hand.collected(hand.attempt()) == [30]
    hand.edits, hand.plan = (), before
    hand.specs = container_specs(before)
    assert not hand.containers[0].change(hand.specs[0])
    assert hand.window(attempt=1) == [3]
