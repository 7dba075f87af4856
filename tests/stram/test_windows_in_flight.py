"""Several windows under way: what STRAM does about them, in whatever order their events come."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ridgeline.stram.compaction import Compacted, ReportCompaction
from ridgeline.stram.control import (
    AttemptFailed,
    CheckStates,
    Commit,
    CommitDue,
    ContainerReported,
    GiveUp,
    ManifestWritten,
    Publish,
    Repaired,
    RunWindow,
    StatesChecked,
    WindowDue,
    WindowPublished,
)
from ridgeline.stram.master import Master
from support.depth import deep
from support.stram.flying import LOST, RAISED, begin, begun, commit, fail, report
from support.stram.plans import Counter, ids, plan, reports


def flying(windows=3, capacity=8, **what) -> tuple[Master, list[RunWindow]]:
    """A master with this many windows under way, and their first attempts."""
    master = Master(plan(**what), epoch=1, capacity=capacity)
    return master, [begin(master) for _ in range(windows)]


def test_only_the_first_window_of_a_run_is_told_the_states():
    _, running = flying(3)
    assert begun(running) == [(0, 0, True), (1, 0, False), (2, 0, False)]


def test_no_more_windows_are_under_way_than_the_attribute_and_the_executor_allow():
    for capacity, allowed in ((1, 1), (2, 2), (8, 4), (64, 4)):
        master = Master(plan(), epoch=1, capacity=capacity)
        while master.can_begin:
            begin(master)
        assert master.under_way == allowed
        with pytest.raises(AssertionError, match=f"window {allowed} cannot begin now"):
            master.handle(WindowDue(allowed))


def test_an_executor_whose_containers_forget_is_told_the_states_each_time():
    master = Master(plan(), epoch=1, capacity=1)
    for window_id in range(3):
        running = begin(master)
        assert begun([running]) == [(window_id, 0, True)]
        commit(master, report(master, running, changes={2: f"d{window_id}"}))
    assert master.states == {2: ("d0", "d1", "d2")}


@pytest.mark.parametrize("attributes", [{"on_error": "SKIP"}, {"processing_mode": "AT_MOST_ONCE"}])
def test_a_window_whose_state_is_taken_back_is_told_the_states_as_are_those_after_it(attributes):
    master, (first, second, third) = flying(3, step=Counter, recovery_attempts=0, **attributes)
    assert fail(master, second, RAISED) == []
    following = commit(master, report(master, first))
    for window_id in range(1, 1 + 16):
        attempt = 1 if window_id in (1, 2) else 0
        running = following[0] if following else begin(master)
        assert not master.can_begin
        assert begun([running]) == [(window_id, attempt, True)]
        following = commit(master, report(master, running))
    assert report(master, third) == []
    commit(master, report(master, begin(master)))
    assert begun([begin(master), begin(master)]) == [(18, 0, False), (19, 0, False)]


def test_a_failure_that_is_not_dealt_with_so_counts():
    master, (first,) = flying(1, step=Counter, recovery_attempts=0, on_error="SKIP")
    assert fail(master, first, RAISED) == [GiveUp(RAISED, 1)]


@pytest.mark.guide("002", "Streaming Application Manager (STRAM)")
def test_windows_are_committed_in_order_whichever_is_complete_first():
    master, (first, second, third) = flying(3)
    assert report(master, third, changes={2: "c"}) == []
    assert report(master, second, changes={2: "b"}) == []
    following = report(master, first, changes={2: "a"})
    for window_id in range(3):
        assert following[0].window_id == window_id
        following = commit(master, following)
    assert following == []
    assert (master.committed, master.states, master.under_way) == (2, {2: ("a", "b", "c")}, 0)


def test_changes_get_the_names_that_the_commit_gives_them():
    master, (first, second) = flying(2)
    report(master, first, changes={2: "a", 3: "x"})
    assert list(master.handle(ManifestWritten(0, {"a": "a.j1.0.5", "b": "no change of this window"}))) == [
        Publish(0)
    ]
    master.handle(WindowPublished(0))
    [asked] = report(master, second, changes={2: "b", 3: "y"}, replaced=[3])
    assert asked.states == {2: ("a.j1.0.5", "b"), 3: ("y",)}
    master.handle(ManifestWritten(1, {"b": "b.j1.5.5"}))
    assert master.states == {2: ("a.j1.0.5", "b.j1.5.5"), 3: ("y",)}


def test_a_window_that_raised_waits_for_those_before_it_and_then_runs_alone():
    master, (first, second, third) = flying(3)
    assert fail(master, second, RAISED) == []
    assert not master.can_begin
    again = commit(master, report(master, first, changes={2: "a"}))
    assert begun(again) == [(1, 1, True)]
    assert again[0].request.states == {2: ("a",)}
    assert again[0].reason == str(RAISED)
    assert report(master, third) == []
    assert not master.can_begin
    [last] = commit(master, report(master, again[0], changes={2: "b"}))
    assert begun([last]) == [(2, 1, False)]
    assert last.reason == "window 1 failed"
    commit(master, report(master, last, changes={2: "c"}))
    assert master.states == {2: ("a", "b", "c")}
    assert begun([begin(master)]) == [(3, 0, False)]


def test_a_lost_process_takes_all_windows_back_and_they_run_one_at_a_time_up_to_the_one_it_died_in():
    master, (first, second, third) = flying(3)
    report(master, second)
    [again] = fail(master, third, LOST)
    assert begun([again]) == [(0, 1, True)]
    assert again.reason == f"window 2 failed: {LOST}", "the first window that runs again says why"
    assert report(master, first) == []
    following = commit(master, report(master, again))
    assert begun(following) == [(1, 1, False)]
    assert following[0].reason == "window 2 failed"
    following = commit(master, report(master, following[0]))
    assert begun(following) == [(2, 1, False)]
    assert not master.can_begin
    commit(master, report(master, following[0]))
    assert begun([begin(master), begin(master)]) == [(3, 0, False), (4, 0, False)]


def test_windows_after_the_one_that_failed_begin_again_together():
    master, (first, *_) = flying(4)
    [again] = fail(master, first, LOST)
    following = commit(master, report(master, again))
    assert begun(following) == [(1, 1, False), (2, 1, False), (3, 1, False)]


def test_a_process_lost_while_a_failed_window_waits_takes_all_back():
    master, (first, second, _) = flying(3)
    assert fail(master, second, RAISED) == []
    [again] = fail(master, first, LOST)
    assert begun([again]) == [(0, 1, True)]
    following = commit(master, report(master, again))
    assert begun(following) == [(1, 1, False), (2, 1, False)]


def test_a_process_lost_in_a_void_attempt_takes_those_back_that_still_count():
    master, (first, second, third) = flying(3)
    assert fail(master, second, RAISED) == []
    assert begun(fail(master, third, LOST)) == [(0, 1, True)]
    assert report(master, first) == []


def test_failures_of_void_attempts_are_dropped():
    master, (first, second, _) = flying(3)
    [again] = fail(master, first, LOST)
    assert fail(master, first, LOST) == []
    assert fail(master, second, RAISED) == []
    assert begun(commit(master, report(master, again))) == [(1, 1, False), (2, 1, False)]


def test_a_process_lost_after_its_window_was_committed_is_a_failure_of_those_under_way():
    master, (first, second) = flying(2)
    commit(master, report(master, first))
    assert begun(fail(master, first, LOST)) == [(1, 1, True)]
    assert report(master, second) == []


def test_a_process_lost_while_nothing_is_under_way_makes_the_next_window_name_the_states():
    master, (first,) = flying(1)
    commit(master, report(master, first))
    assert fail(master, first, LOST) == []
    assert begun([begin(master), begin(master)]) == [(1, 0, True), (2, 0, False)]


def test_each_window_has_its_own_number_of_failures():
    master, (first, _) = flying(2, recovery_attempts=1)
    [again] = fail(master, first, LOST)
    following = commit(master, report(master, again))
    assert begun(following) == [(1, 1, False)]
    [again] = fail(master, following[0], LOST)
    assert begun([again]) == [(1, 2, True)]
    assert fail(master, again, LOST) == [GiveUp(LOST, 2)]


def test_windows_before_the_one_that_fails_for_good_are_committed():
    master, (first, second, third) = flying(3, recovery_attempts=0)
    assert fail(master, third, RAISED) == []
    following = commit(master, report(master, first))
    assert following == []
    assert commit(master, report(master, second)) == [GiveUp(RAISED, 1)]
    assert (master.committed, master.under_way) == (1, 0)


def test_windows_after_the_last_one_count_for_nothing():
    master, (first, second, third) = flying(3)
    report(master, second, finished=["source1"])
    report(master, third, finished=["source1"], changes={2: "x"})
    following = commit(master, report(master, first))
    assert following[0].ends
    assert commit(master, following) == []
    assert (master.committed, master.ended, master.under_way, master.states) == (1, True, 0, {})


def test_a_failure_after_the_last_window_counts_for_nothing():
    master, (first, second) = flying(2)
    assert fail(master, second, RAISED) == []
    assert commit(master, report(master, first, finished=["source1"])) == []
    assert (master.ended, master.under_way) == (True, 0)


def test_the_last_window_runs_once_more_alone_if_application_windows_are_open():
    master, (first, second, third) = flying(3, windows_seen_as_one=4)
    report(master, second, finished=["source1"])
    [again] = commit(master, report(master, first))
    assert begun([again]) == [(1, 1, True)]
    assert (again.request.final, again.reason) == (True, "")
    assert report(master, third) == []
    following = report(master, again, finished=["source1"])
    assert commit(master, following) == []
    assert (master.ended, master.under_way) == (True, 0)


def test_an_input_that_goes_on_after_all_lets_the_windows_after_it_begin_again():
    master, (first, second) = flying(2, windows_seen_as_one=4)
    [last] = report(master, first, finished=["source1"])
    [again] = report(master, last)
    assert (again.request.final, begun([again])) == (False, [(0, 2, True)])
    assert begun(commit(master, report(master, again))) == [(1, 1, False)]
    assert report(master, second) == []


def test_windows_that_complete_during_a_commit_are_committed_together():
    """Each change of state is named once, in order; a window that is not complete ends the group."""
    master = Master(plan(step=Counter), epoch=1, capacity=8, groups=True)
    first, second, third, fourth = (begin(master) for _ in range(4))
    [one] = report(master, first, changes={2: "a"})
    assert report(master, fourth) == []
    assert report(master, second, changes={2: "b"}) == []
    assert report(master, third, changes={2: "c"}) == []
    assert not master.can_begin  # the windows of a commit are under way until it is done
    assert (list(one.reports), one.states) == ([0], {2: ("a",)})
    assert list(master.handle(ManifestWritten(0, {"a": "a.j1.0.9"}))) == [Publish(0)]
    fifth = begin(master)
    [three] = master.handle(WindowPublished(0))
    assert (list(three.reports), three.window_id, three.states) == ([1, 2, 3], 3, {2: ("a.j1.0.9", "b", "c")})
    assert list(master.handle(ManifestWritten(3, {"b": "B", "c": "C"}))) == [Publish(3, (1, 2))]
    assert (master.committed, master.states) == (3, {2: ("a.j1.0.9", "B", "C")})
    commit(master, [*master.handle(WindowPublished(3)), *report(master, fifth, changes={2: "e"})])


def test_a_failure_waits_for_the_windows_before_it_which_are_committed_together():
    master = Master(plan(), epoch=1, capacity=8, groups=True)
    first, second, third = (begin(master) for _ in range(3))
    [one] = report(master, first, changes={2: "a"})
    assert fail(master, third, RAISED) == []
    assert report(master, second) == []
    master.handle(ManifestWritten(one.window_id))
    [two] = master.handle(WindowPublished(0))
    assert list(two.reports) == [1]
    master.handle(ManifestWritten(1))
    assert begun(master.handle(WindowPublished(1))) == [(2, 1, True)]


def test_no_window_begins_while_the_last_one_is_being_committed():
    master, (first, _) = flying(2)
    [last] = report(master, first, finished=["source1"])
    assert last.ends
    assert not master.can_begin
    commit(master, [last])
    assert (master.ended, master.under_way) == (True, 0)


def test_a_compaction_without_segments_is_installed_without_a_pause():
    master, (first, second) = flying(2, step=Counter)
    commit(master, report(master, first, changes={2: "a"}))
    assert list(master.handle(Compacted(2, ("a",), ("A",), 10))) == [ReportCompaction(2, 1, 10)]
    assert begun([begin(master)]) == [(2, 0, False)]
    commit(master, report(master, second, changes={2: "b"}))
    assert master.states == {2: ("A", "b")}


def test_new_segments_are_opened_once_what_is_under_way_is_committed():
    master, (first, second) = flying(2, step=Counter)
    commit(master, report(master, first, changes={2: "a"}))
    list(master.handle(Compacted(2, ("a",), ("S", "A"), 10)))
    assert not master.can_begin
    commit(master, report(master, second, changes={2: "b"}))
    running = begin(master)
    assert running.request.states == {2: ("S", "A", "b")}
    commit(master, report(master, running))
    list(master.handle(Compacted(2, ("S", "A", "b"), ("B",), 10)))
    assert begun([begin(master)]) == [(3, 0, True)]  # it holds the old segments


def test_states_are_checked_before_windows_begin_again():
    master, (first, _) = flying(2, step=Counter)
    unreadable = replace(LOST, callback="state")
    assert fail(master, first, unreadable) == [CheckStates()]
    master.handle(Repaired(2, (), (), (), "broken"))
    again = list(master.handle(StatesChecked()))
    assert begun(again) == [(0, 1, True)]


class Flights(RuleBasedStateMachine):
    """Containers that hold state, run, fail and die in any order; the state is the list of what they ran."""

    LAST = 12
    GROUPS = False
    EMPTY = 1
    """Windows change nothing whose number leaves a rest when it is divided by this."""

    def __init__(self):
        super().__init__()
        self.master = Master(
            plan(step=Counter, recovery_attempts=1000, windows_seen_as_one=5),
            epoch=1,
            capacity=3,
            groups=self.GROUPS,
        )
        self.operator = ids(self.master.plan, "step1")[0]
        self.committed: list[tuple[int, int]] = []
        self.valid: dict[int, RunWindow] = {}
        self.waiting: deque = deque()
        self.begun: set[tuple[int, int]] = set()
        self.durable: Commit | None = None
        self.faults = 0

    def process(self, instructions):
        for instruction in instructions:
            match instruction:
                case RunWindow(request):
                    key = request.window_id, request.attempt
                    assert key not in self.begun
                    self.begun.add(key)
                    if request.states is not None:
                        assert not any(window >= request.window_id for window, _ in self.committed)
                        self.valid.clear()
                    elif self.valid:
                        assert max(self.valid) == request.window_id - 1
                    else:
                        assert self.master.committed == request.window_id - 1
                    self.valid[request.window_id] = instruction
                    finished = ["source1"] if request.window_id >= self.LAST else []
                    change = f"{request.window_id}.{request.attempt}"
                    changes = {} if request.window_id % self.EMPTY else {self.operator: change}
                    self.waiting.extend(
                        reports(self.master.plan, request, finished=finished, changes=changes)
                    )
                case Commit():
                    assert self.durable is None
                    self.durable = instruction
                case CheckStates():
                    self.process(self.master.handle(StatesChecked()))

    @precondition(lambda self: self.master.can_begin)
    @rule()
    def due(self):
        self.process(self.master.handle(WindowDue(self.master.next_window)))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def container_reports(self, data):
        number = data.draw(st.integers(0, len(self.waiting) - 1))
        found = self.waiting[number]
        del self.waiting[number]
        self.process(self.master.handle(ContainerReported(found)))

    def unreported(self, window, attempt):
        return [
            one for one in self.waiting if (one.window.window_id, one.window.attempt) == (window, attempt)
        ]

    def failure(self, *, raised, callback="process"):
        self.faults += 1
        return replace(LOST, raised=raised, callback=callback, error=f"number {self.faults}")

    @precondition(lambda self: self.valid and self.faults < 6)
    @rule(data=st.data(), callback=st.sampled_from(["process", "state"]))
    def callback_raises(self, data, callback):
        """One container does not report this attempt; it is none of those that have."""
        window = data.draw(st.sampled_from(sorted(self.valid)))
        attempt = self.valid[window].request.attempt
        if found := self.unreported(window, attempt):
            self.waiting.remove(data.draw(st.sampled_from(found)))
            failure = self.failure(raised=callback == "process", callback=callback)
            self.process(self.master.handle(AttemptFailed(window, attempt, failure)))

    @precondition(lambda self: self.begun and self.faults < 6)
    @rule(data=st.data())
    def process_dies(self, data):
        """A container reports nothing any more of what it has begun; the window named may be any."""
        window, attempt = data.draw(st.sampled_from(sorted(self.begun)))
        running = self.valid.get(window)
        stale = window > self.master.committed and (running is None or running.request.attempt != attempt)
        if not stale and self.durable is None:
            dead = data.draw(st.integers(0, 2))
            self.waiting = deque(one for one in self.waiting if one.window.container != dead)
        self.process(self.master.handle(AttemptFailed(window, attempt, self.failure(raised=False))))

    @precondition(lambda self: self.durable is not None)
    @rule()
    def manifest_is_written(self):
        commit, self.durable = self.durable, None
        for window_id, found in commit.reports.items():
            attempts = {report.window.attempt for report in found}
            assert len(attempts) == 1
            assert len(found) == len(self.master.plan.execution.containers)
            self.committed.append((window_id, attempts.pop()))
        *before, last = commit.reports
        assert self.GROUPS or not before
        assert list(self.master.handle(ManifestWritten(last))) == [Publish(last, tuple(before))]
        for window_id in commit.reports:
            self.valid.pop(window_id, None)
        self.process(self.master.handle(WindowPublished(last)))

    @invariant()
    def windows_are_committed_once_and_in_order(self):
        assert [window for window, _ in self.committed] == list(range(len(self.committed)))
        assert self.master.committed == len(self.committed) - 1

    @invariant()
    def the_state_is_what_the_committed_attempts_made(self):
        made = tuple(f"{window}.{attempt}" for window, attempt in self.committed if not window % self.EMPTY)
        assert self.master.states.get(self.operator, ()) == made

    def teardown(self):
        """Without further failures it comes to its end."""
        for _ in range(1000):
            if self.master.ended:
                break
            if self.durable is not None:
                self.manifest_is_written()
            elif self.master.can_begin:
                self.due()
            else:
                assert self.waiting
                self.process(self.master.handle(ContainerReported(self.waiting.popleft())))
        assert self.master.ended
        assert len(self.committed) == self.LAST + 1


Flights.TestCase.settings = settings(
    max_examples=deep(16),
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much],  # often no rule can go on: all have to wait
)
TestFlights = Flights.TestCase


class FlightsInGroups(Flights):
    """As before; a commit covers all windows that are complete by then. Empty ones wait for others."""

    GROUPS = True
    EMPTY = 3

    @rule()
    def time_is_up(self):
        self.process(self.master.handle(CommitDue()))


FlightsInGroups.TestCase.settings = Flights.TestCase.settings
TestFlightsInGroups = FlightsInGroups.TestCase
