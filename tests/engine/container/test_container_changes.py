"""One container through changes of its spec: what stays, what is made anew, and what is loaded."""

from typing import ClassVar, NamedTuple

import pytest

from ridgeline import InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.api.errors import OperatorError
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


class Connected(Operator):
    """Notes its life with the state at that time; what `breaks` names raises once in `breaks_at`."""

    data = InputPort(object)
    out = OutputPort(object)
    count = State(0)
    notes: ClassVar[list] = []
    broken: ClassVar[list] = []
    breaks: str = ""
    breaks_at: int = -1

    def _note(self, what):
        type(self).notes.append((what, self.count))
        if what == self.breaks and self.context.window_id == self.breaks_at:
            self.broken.append(what)
            if self.broken.count(what) == 1:
                raise ConnectionError(f"{what} breaks")

    def setup(self, context):
        self._note("setup")

    def activate(self):
        self._note("activate")

    def deactivate(self):
        self._note("deactivate")

    def teardown(self):
        self._note("teardown")

    @data.process
    def take(self, one):
        self.count += 1
        self.out.emit(self.count)
        self._note("process")


class Quiet(Operator):
    """Has nothing but a `setup`."""

    data = InputPort(object)
    out = OutputPort(object)
    notes: ClassVar[list] = []

    def setup(self, context):
        type(self).notes.append("setup")

    @data.process
    def take(self, one):
        self.out.emit(one)


@pytest.fixture
def hand():
    """`hand(operator)`: three windows of one tuple each."""
    Connected.notes.clear()
    Connected.broken.clear()
    Quiet.notes.clear()
    return lambda operator: ByHand(application(object, [0, END_WINDOW] * 3, operator))


UP, DOWN = ["setup", "activate"], ["deactivate", "teardown"]


def lives():
    return [what for what, _ in Connected.notes if what != "process"]


def test_an_operator_that_failed_begins_anew_with_the_committed_state(hand):
    by_hand = hand(Connected(breaks="process", breaks_at=1))
    assert by_hand.window() == [1]
    with pytest.raises(OperatorError, match="process breaks"):
        by_hand.attempt()
    assert by_hand.window(1) == [2]
    assert by_hand.window() == [3]
    assert lives() == [*UP, *DOWN, *UP]
    assert [count for what, count in Connected.notes if what in UP] == [0, 0, 1, 1]


def test_an_operator_whose_attempt_was_void_begins_anew(hand):
    by_hand = hand(Connected())
    by_hand.window()
    by_hand.attempt()
    assert by_hand.window(1) == [2]
    assert lives() == [*UP, *DOWN, *UP]


def test_an_operator_that_holds_nothing_stays_as_it_is(hand):
    by_hand = hand(Quiet())
    by_hand.window()
    by_hand.attempt()
    by_hand.window(1)
    assert Quiet.notes == ["setup"]


@pytest.mark.parametrize("breaks", ["deactivate", "teardown"])
def test_what_fails_in_letting_go_fails_no_window_and_is_told_at_the_end(hand, breaks):
    by_hand = hand(Connected(breaks=breaks, breaks_at=1))
    by_hand.window()
    by_hand.attempt()
    assert by_hand.window(1) == [2]
    assert lives() == [*UP, *DOWN, *UP]
    with pytest.raises(OperatorError, match=f"{breaks} breaks"):
        by_hand.containers[0].close()
    assert lives() == [*UP, *DOWN, *UP, *DOWN]


def test_what_setup_made_is_torn_down_if_activate_fails(hand):
    by_hand = hand(Connected(breaks="activate", breaks_at=-1))
    with pytest.raises(OperatorError, match="activate breaks"):
        by_hand.attempt()
    by_hand.window(1)
    assert lives() == [*UP, "teardown", *UP]
