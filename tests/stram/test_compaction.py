"""Stories of compactions: windows and outcomes in, instructions out."""

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ridgeline.stram import compaction
from ridgeline.stram.compaction import (
    AwaitCompaction,
    Compact,
    Compacted,
    CompactionFailed,
    DiscardCompaction,
    GiveUpCompaction,
    ReportCompaction,
    StateSize,
    WarnOfState,
)
from ridgeline.stram.control import (
    ContainerReported,
    ManifestWritten,
    Repaired,
    RunStarted,
    WindowDue,
    WindowPublished,
)
from ridgeline.stram.master import Master
from support.depth import deep
from support.stram.plans import Counter, Last, ids, plan, reports

STEP = 2
"""The first `step1`, whose state the stories are about."""


def windows(master, count=1, *, state_bytes=10, anew=False, ended=0.0):
    """`count` windows, each with a delta of the step's state; returns what is to be done after the last.

    `ended`: when the operators were done, by their clock.
    """
    instructions = []
    for _ in range(count):
        window_id = master.committed + 1
        [attempt] = master.handle(WindowDue(window_id))
        changes, replaced = {STEP: f"d{window_id}"}, [STEP] if anew else []
        found = reports(
            master.plan, attempt.request, changes=changes, replaced=replaced, state_bytes=state_bytes
        )
        for report in found:
            for one in report.operators:
                one.window.ended = ended
            master.handle(ContainerReported(report))
        master.handle(ManifestWritten(window_id))
        instructions = list(master.handle(WindowPublished(window_id)))
    return instructions


def started(interval=3, step=Counter):
    master = Master(plan(step=step, snapshot_interval=interval), epoch=1)
    assert list(master.handle(RunStarted())) == []
    return master


def succeed(master, version, names=("C",), snapshot_bytes=5):
    return list(master.handle(Compacted(STEP, version, names, snapshot_bytes)))


def fail(master):
    return list(master.handle(CompactionFailed(STEP, "no")))


WARNING = WarnOfState(
    STEP,
    "state of operator `step1`, partition 0, could not be merged: no; nothing is lost, it is tried again",
)


def test_by_default_short_windows_are_compacted_once_a_second_or_after_256_of_them():
    master = started(interval=None)
    assert windows(master, 15) == []
    [first] = windows(master)
    succeed(master, first.version)

    assert windows(master, 255) == []
    [many] = windows(master)
    assert isinstance(many, Compact)
    assert len(many.version) == 1 + 256
    succeed(master, many.version)

    assert windows(master, 15, ended=1.5) == []
    [slow] = windows(master, ended=1.5)
    assert isinstance(slow, Compact)
    assert len(slow.version) == 1 + 16


def test_after_an_interval_a_version_is_compacted_and_the_windows_go_on():
    master = started()
    assert windows(master, 2) == []
    assert windows(master) == [Compact(STEP, ("d0", "d1", "d2"), 30)]
    assert windows(master, 4) == []
    assert succeed(master, ("d0", "d1", "d2")) == [
        ReportCompaction(STEP, 3, 5),
        Compact(STEP, ("C", "d3", "d4", "d5", "d6"), 45),
    ]
    assert master.states[STEP] == ("C", "d3", "d4", "d5", "d6")


def test_many_bytes_are_compacted_before_the_interval_is_over():
    master = started(interval=1_000)
    assert windows(master, state_bytes=compaction.COMPACT_BYTES - 1) == []
    assert windows(master, state_bytes=1) == [Compact(STEP, ("d0", "d1"), compaction.COMPACT_BYTES)]
    large = 3 * compaction.COMPACT_BYTES
    assert succeed(master, ("d0", "d1"), snapshot_bytes=large) == [ReportCompaction(STEP, 2, large)]
    assert windows(master, state_bytes=large - 1) == []
    assert windows(master, state_bytes=1) == [Compact(STEP, ("C", "d2", "d3"), 2 * large)]


def test_windows_wait_where_a_version_has_too_many_deltas():
    master = started()
    limit = 3 * compaction.LIMIT_INTERVALS
    assert windows(master, limit - 1) == []
    assert windows(master) == [AwaitCompaction(STEP)]
    assert succeed(master, ("d0", "d1", "d2"))[1] == Compact(
        STEP, ("C", *(f"d{n}" for n in range(3, limit))), 275
    )
    assert len(master.states[STEP]) == limit - 2


def test_windows_wait_where_the_deltas_have_too_many_bytes():
    master = started(interval=1_000)
    assert windows(master, state_bytes=compaction.LIMIT_BYTES) == [
        Compact(STEP, ("d0",), compaction.LIMIT_BYTES),
        AwaitCompaction(STEP),
    ]
    assert succeed(master, ("d0",), snapshot_bytes=compaction.LIMIT_BYTES) == [
        ReportCompaction(STEP, 1, compaction.LIMIT_BYTES)
    ]
    [begun] = windows(master, state_bytes=compaction.LIMIT_BYTES)
    assert begun == Compact(STEP, ("C", "d1"), 2 * compaction.LIMIT_BYTES)
    assert windows(master, state_bytes=compaction.LIMIT_BYTES) == [AwaitCompaction(STEP)]


def test_a_compaction_that_fails_is_retried_each_time_later():
    master = started()
    begun = []
    for window in range(12):
        if windows(master):
            begun.append(window + 1)
            assert fail(master) == [WARNING]
    assert begun == [3, 6, 9, 12]
    assert windows(master, 3) == [Compact(STEP, tuple(f"d{n}" for n in range(15)), 150)]
    succeed(master, master.states[STEP])
    assert windows(master, 3) == [Compact(STEP, ("C", "d15", "d16", "d17"), 35)]


def test_a_compaction_that_windows_wait_for_is_retried_at_once_until_it_is_given_up():
    master = started(interval=1_000)
    again = [Compact(STEP, ("d0",), compaction.LIMIT_BYTES), AwaitCompaction(STEP)]
    assert windows(master, state_bytes=compaction.LIMIT_BYTES) == again
    for _ in range(compaction.ATTEMPTS - 1):
        assert fail(master) == [WARNING, *again]
    name = "state of operator `step1`, partition 0,"
    waiting = "the changes of 1 windows (134217728 bytes) wait for it"
    remedy = "put right what was said before and run again with the same `--checkpoint`"
    assert fail(master) == [WARNING, GiveUpCompaction(f"{name} cannot be merged; {waiting}; {remedy}")]


def test_failures_while_no_window_waits_do_not_end_the_run():
    master = started(interval=1_000)
    windows(master, state_bytes=compaction.COMPACT_BYTES)
    for failures in range(2, 8):
        assert fail(master) == [WARNING]
        [begun] = windows(master, state_bytes=compaction.COMPACT_BYTES)
        assert begun == Compact(STEP, master.states[STEP], failures * compaction.COMPACT_BYTES)
    assert windows(master, state_bytes=compaction.COMPACT_BYTES) == [AwaitCompaction(STEP)]
    assert isinstance(fail(master)[-1], GiveUpCompaction)


def test_single_values_need_no_compaction_as_each_window_writes_them_all():
    master = started(interval=1, step=Last)
    assert windows(master, 50, anew=True) == []
    assert windows(master) == [Compact(STEP, ("d49", "d50"), 20)]


def test_a_state_that_begins_anew_makes_the_compaction_that_runs_useless():
    master = started()
    assert windows(master, 3) == [Compact(STEP, ("d0", "d1", "d2"), 30)]
    assert windows(master, anew=True) == []
    assert succeed(master, ("d0", "d1", "d2")) == [DiscardCompaction(STEP)]
    assert windows(master) == []
    assert windows(master) == [Compact(STEP, ("d3", "d4", "d5"), 30)]


def test_a_run_begins_with_the_compactions_that_the_one_before_has_left():
    left = ("C", "a", "b", "c")
    sizes = {STEP: StateSize(("C",), 100, 30)}
    made = plan(step=Counter, snapshot_interval=3)
    master = Master(made, epoch=2, committed=3, states={STEP: left}, sizes=sizes)
    assert list(master.handle(RunStarted())) == [Compact(STEP, left, 130)]
    assert windows(master) == []


def test_a_repaired_version_counts_the_deltas_that_it_has_now():
    made, sizes = plan(step=Counter, snapshot_interval=3), {STEP: StateSize(("C",), 100, 10)}
    master = Master(made, epoch=2, committed=3, states={STEP: ("C", "e")}, sizes=sizes)
    master.handle(RunStarted())
    master.handle(Repaired(STEP, ("C",), ("B", "c", "d"), ("B",), "state file `C` is missing"))
    [begun] = master.handle(WindowPublished(3))
    assert begun.version == ("B", "c", "d", "e")


class Compactions(RuleBasedStateMachine):
    """Any sequence of windows and outcomes, against a model: the deltas whose effect each state holds."""

    INTERVAL = 2
    SIZES = (1, compaction.COMPACT_BYTES // 2, compaction.LIMIT_BYTES // 3)

    def __init__(self):
        super().__init__()
        self.master = Master(plan(step=Counter, snapshot_interval=self.INTERVAL), epoch=1)
        self.operators = ids(self.master.plan, "step1")
        self.held = dict.fromkeys(self.operators, ())
        self.content = {}
        self.running = {}
        self.failures = dict.fromkeys(self.operators, 0)
        self.awaited = set()
        self.over = False
        self.number = 0
        self.process([RunStarted()], [])

    def process(self, events, outcomes):
        """Report events and carry out what follows. Awaited compactions end as `outcomes` say, then well."""
        instructions, outcomes = deque(), deque(outcomes)
        for event in events:
            instructions.extend(self.master.handle(event))
        while instructions:
            match instructions.popleft():
                case Compact(operator, version):
                    assert operator not in self.running
                    assert version == self.master.states[operator]
                    self.running[operator] = version
                case AwaitCompaction(operator):
                    assert operator in self.running
                    self.awaited.add(operator)
                    ends_well = outcomes.popleft() if outcomes else True
                    instructions.extend(self.master.handle(self.outcome(operator, ends_well=ends_well)))
                case GiveUpCompaction():
                    assert any(self.failures[operator] >= compaction.ATTEMPTS for operator in self.awaited)
                    self.over = True
                case DiscardCompaction(operator):
                    assert operator not in self.running
        self.awaited.clear()

    def outcome(self, operator, *, ends_well):
        version = self.running.pop(operator)
        if not ends_well:
            self.failures[operator] += 1
            return CompactionFailed(operator, "no")
        self.failures[operator] = 0
        self.number += 1
        names = (f"segment{self.number}", f"snapshot{self.number}")
        self.content |= {names[0]: (), names[1]: self.expand(version)}
        return Compacted(operator, version, names, len(self.content[names[1]]))

    def expand(self, version):
        return tuple(delta for name in version for delta in self.content[name])

    @precondition(lambda self: not self.over)
    @rule(
        changes=st.lists(
            st.tuples(st.integers(0, 1), st.sampled_from(SIZES), st.booleans()),
            max_size=2,
            unique_by=lambda change: change[0],
        ),
        outcomes=st.lists(st.booleans(), max_size=8),
    )
    def window(self, changes, outcomes):
        window_id = self.master.committed + 1
        [attempt] = self.master.handle(WindowDue(window_id))
        found = reports(self.master.plan, attempt.request)
        by_id = {report.window.operator: report for one in found for report in one.operators}
        for number, size, anew in changes:
            operator, delta = self.operators[number], f"d{window_id}.{number}"
            self.content[delta] = (delta,)
            self.held[operator] = (*(() if anew else self.held[operator]), delta)
            by_id[operator].window.state_bytes = size
            by_id[operator].change, by_id[operator].replaces = delta, anew
        for report in found:
            self.master.handle(ContainerReported(report))
        self.master.handle(ManifestWritten(window_id))
        self.process([WindowPublished(window_id)], outcomes)

    @precondition(lambda self: self.running and not self.over)
    @rule(data=st.data(), ends_well=st.booleans(), outcomes=st.lists(st.booleans(), max_size=8))
    def compaction_ends(self, data, ends_well, outcomes):
        operator = data.draw(st.sampled_from(sorted(self.running)))
        self.process([self.outcome(operator, ends_well=ends_well)], outcomes)

    @precondition(lambda self: self.over)
    @rule()
    def restart(self):
        """The next run goes on from the last commit; it has to compact what the one before has given up."""
        committed, states = self.master.committed, dict(self.master.states)
        sizes = {
            operator: StateSize(tuple(name for name in version if name[0] == "s"), 1, 1)
            for operator, version in states.items()
        }
        self.master = Master(self.master.plan, epoch=2, committed=committed, states=states, sizes=sizes)
        self.running, self.over = {}, False
        self.failures = dict.fromkeys(self.operators, 0)
        self.process([RunStarted()], [])

    @invariant()
    def states_hold_what_windows_wrote(self):
        for operator in self.operators:
            assert self.expand(self.master.states.get(operator, ())) == self.held[operator]

    @invariant()
    def no_version_grows_without_end(self):
        limit = compaction.LIMIT_INTERVALS * self.INTERVAL
        if not self.over:
            for operator in self.operators:
                deltas = [name for name in self.master.states.get(operator, ()) if name.startswith("d")]
                assert len(deltas) < limit


Compactions.TestCase.settings = settings(max_examples=deep(25), stateful_step_count=40, deadline=None)
TestCompactions = pytest.mark.filterwarnings("error")(Compactions.TestCase)
