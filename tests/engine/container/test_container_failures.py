"""What operators hold after a failure: connections are made anew, once the state is restored."""

from typing import ClassVar

import pytest

from ridgeline import InputPort, Operator, OutputPort, State
from ridgeline.api.errors import OperatorError
from ridgeline.testing import END_WINDOW
from support.engine.containers import ByHand, application


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
