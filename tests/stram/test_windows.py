"""The phases of a window in flight: a transition that the table lacks is an error that names it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from ridgeline.stram.compaction import Compacted
from ridgeline.stram.control import (
    AttemptFailed,
    CheckStates,
    Commit,
    CommitDue,
    ContainerReported,
    ManifestWritten,
    Publish,
    RunWindow,
    StatesChecked,
    WindowPublished,
)
from ridgeline.stram.master import Master
from ridgeline.stram.windows import TRANSITIONS, IllegalTransitionError, InFlightWindow, WindowPhase
from support.stram.flying import LOST, RAISED, begin, begun, commit, commit_all, fail, report
from support.stram.plans import Counter, plan, reports

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
    return [window.phase for window in master.windows._windows.values()]


def held(windows=2, capacity=2) -> Master:
    """A master that holds so many windows."""
    master = Master(plan(step=Counter), epoch=1, capacity=capacity, groups=True)
    for _ in range(windows):
        assert report(master, begin(master)) == []
    assert (master.held, master.committed, master.under_way) == (windows, -1, windows)
    return master


def test_windows_in_which_nothing_moved_are_committed_with_the_next_in_which_something_did():
    master = held(5)
    [one] = report(master, begin(master), changes={2: "a"})
    assert (list(one.reports), one.states, master.held) == ([0, 1, 2, 3, 4, 5], {2: ("a",)}, 0)
    assert list(master.handle(ManifestWritten(5))) == [Publish(5, (0, 1, 2, 3, 4))]


@pytest.mark.parametrize("figure", ["tuples_in", "tuples_out", "errors", "dropped"])
def test_a_window_in_which_anything_happened_is_not_held(figure):
    master, running = held(), None
    running = begin(master)
    found = reports(master.plan, running.request)
    setattr(found[-1].operators[-1].window, figure, {"data": 1} if figure.startswith("tuples") else 1)
    *_, last = (list(master.handle(ContainerReported(one))) for one in found)
    assert list(last[0].reports) == [0, 1, 2]


def test_a_window_whose_input_finishes_is_not_held():
    master = held(1)
    [last] = report(master, begin(master), finished=["source1"])
    assert (list(last.reports), last.ends) == ([0, 1], True)


def test_held_windows_are_committed_when_time_is_up_and_only_so_many_are_held():
    master = held(3)
    [one] = master.handle(CommitDue())
    commit_all(master, one)
    assert master.handle(CommitDue()) == ()
    count = 0
    while not (following := report(master, begin(master))):
        count += 1
    assert len(following[0].reports) == count + 1 <= 32


def test_held_windows_are_committed_before_a_failure_is_dealt_with():
    for failure in (RAISED, LOST, replace(LOST, callback="state")):
        master = held()
        [one] = fail(master, begin(master), failure)
        assert list(one.reports) == [0, 1]
        following = commit_all(master, one)
        if following == [CheckStates()]:
            following = list(master.handle(StatesChecked()))
        assert begun(following) == [(2, 1, True)]


def test_held_windows_are_committed_when_a_process_is_lost_that_runs_none():
    master = held()
    [one] = master.handle(AttemptFailed(1, 0, LOST))
    assert commit_all(master, one) == []
    assert begun([begin(master)]) == [(2, 0, True)]


def test_held_windows_are_committed_when_containers_are_to_open_other_files():
    master = Master(plan(step=Counter), epoch=1, capacity=8, groups=True)
    [one] = report(master, begin(master), changes={2: "a"})
    commit_all(master, one)
    assert report(master, begin(master)) == []
    *_, one = master.handle(Compacted(2, ("a",), ("S", "A"), 10))
    assert (one.states, list(one.reports)) == ({2: ("S", "A")}, [1])
    commit_all(master, one)
    assert begin(master).request.states == {2: ("S", "A")}


def test_no_window_is_held_where_each_has_a_commit_of_its_own():
    master = Master(plan(), epoch=1, capacity=8)
    assert isinstance(report(master, begin(master))[0], Commit)
