"""The phases of a window in flight: a transition that the table lacks is an error that names it."""

from __future__ import annotations

from itertools import product

import pytest

from ridgeline.stram.control import CommitDue, ManifestWritten, RunWindow, WindowPublished
from ridgeline.stram.master import Master
from ridgeline.stram.windows import TRANSITIONS, IllegalTransitionError, InFlightWindow, WindowPhase
from support.stram.flying import LOST, RAISED, begin, commit, fail, report
from support.stram.plans import Counter, plan

ACTIONS = {
    WindowPhase.RUNNING: lambda window: window.begin(carries_states=False),
    WindowPhase.COMPLETE: InFlightWindow.release,
    WindowPhase.HELD: InFlightWindow.hold,
    WindowPhase.VOID: lambda window: window.void("its slot is lost"),
    WindowPhase.COMMITTING: InFlightWindow.commit,
    WindowPhase.COMMITTED: InFlightWindow.committed,
}
"""What brings a window into each phase."""


@pytest.mark.parametrize(("phase", "following"), [*product(WindowPhase, ACTIONS)])
def test_only_legal_transitions_are_made(phase: WindowPhase, following: WindowPhase) -> None:
    window = InFlightWindow(7, phase=phase)
    if following in TRANSITIONS[phase]:
        ACTIONS[following](window)
        assert window.phase is following
        return
    with pytest.raises(
        IllegalTransitionError, match=f"window 7 cannot go from {phase.name} to {following.name}: "
    ):
        ACTIONS[following](window)
    assert window.phase is phase


def test_a_window_is_held_until_the_next_commit() -> None:
    master = Master(plan(step=Counter), epoch=1, capacity=4, groups=True)
    assert report(master, begin(master)) == []
    assert report(master, begin(master)) == []
    assert phases(master) == [WindowPhase.HELD, WindowPhase.HELD]
    [asked] = master.handle(CommitDue())
    assert phases(master) == [WindowPhase.COMMITTING, WindowPhase.COMMITTING]
    begin(master)
    master.handle(ManifestWritten(asked.window_id))
    master.handle(WindowPublished(asked.window_id))
    assert phases(master) == [WindowPhase.RUNNING]


def test_a_failure_releases_the_windows_that_are_held_before_it() -> None:
    master = Master(plan(step=Counter), epoch=1, capacity=4, groups=True)
    first, second = begin(master), begin(master)
    assert report(master, first) == []
    assert phases(master) == [WindowPhase.HELD, WindowPhase.RUNNING]
    asked = fail(master, second, RAISED)
    assert phases(master) == [WindowPhase.COMMITTING, WindowPhase.VOID]
    [again] = commit(master, asked)
    assert isinstance(again, RunWindow)
    assert phases(master) == [WindowPhase.RUNNING]


def test_a_lost_process_leaves_complete_windows_alone() -> None:
    master = Master(plan(step=Counter), epoch=1, capacity=4)
    first, second, third = begin(master), begin(master), begin(master)
    report(master, second)
    fail(master, first, LOST)
    assert phases(master) == [WindowPhase.RUNNING, WindowPhase.VOID, WindowPhase.VOID]
    assert report(master, third) == []


def phases(master: Master) -> list[WindowPhase]:
    return [window.phase for window in master._windows._windows.values()]
