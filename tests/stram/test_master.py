"""Stories of windows: events in, instructions out."""

from dataclasses import replace

import pytest

from ridgeline.api.errors import Failure
from ridgeline.plan.protocol import WindowRequest
from ridgeline.stram.compaction import Compacted, DiscardCompaction, ReportCompaction, WarnOfState
from ridgeline.stram.control import (
    AttemptFailed,
    CheckStates,
    Commit,
    ContainerReported,
    GiveUp,
    ManifestWritten,
    Publish,
    Repaired,
    RunWindow,
    StatesChecked,
    WindowDue,
)
from ridgeline.stram.master import Master
from support.stram.plans import Counter, ids, plan, reports


def failure(operator: str = "step1", window_id: int = 0) -> Failure:
    return Failure("app", operator, 0, window_id, "process", "ValueError: no")


def handle(master: Master, event):
    """The one instruction that an event about a window leads to."""
    [instruction] = master.handle(event)
    return instruction


def report(master: Master, found) -> list:
    """What follows once these containers have reported."""
    return [instruction for one in found for instruction in master.handle(ContainerReported(one))]


def run(master: Master, instruction, **what) -> object:
    """All containers report the attempt that STRAM asked for."""
    assert isinstance(instruction, RunWindow)
    [following] = report(master, reports(master.plan, instruction.request, **what))
    return following


def fail(master: Master, running, failure: Failure) -> object:
    """An attempt that STRAM asked for has failed."""
    return handle(master, AttemptFailed(running.request.window_id, running.request.attempt, failure))


def window(master: Master, window_id: int, **what) -> object:
    """A window without trouble."""
    commit = run(master, handle(master, WindowDue(window_id)), **what)
    assert isinstance(commit, Commit)
    return handle(master, ManifestWritten(window_id))


def test_a_window_runs_is_committed_and_published():
    master = Master(plan(), epoch=4)
    first = handle(master, WindowDue(0))
    assert first == RunWindow(WindowRequest(0, 0, 4))
    step = ids(master.plan, "step1")[0]
    found = reports(master.plan, first.request, changes={step: "a"})
    [commit] = report(master, found)
    assert commit == Commit({0: tuple(found)}, {step: ("a",)}, frozenset(), ends=False)
    assert commit.window_id == 0
    assert (master.committed, master.states) == (-1, {})
    assert handle(master, ManifestWritten(0)) == Publish(0)
    assert (master.committed, master.states, master.ended) == (0, {step: ("a",)}, False)
    assert handle(master, WindowDue(1)) == RunWindow(WindowRequest(1, 0, 4, states={step: ("a",)}))


def test_an_operator_without_changes_keeps_its_version():
    master = Master(plan(), epoch=1)
    one, two = ids(master.plan, "step1")
    window(master, 0, changes={one: "a", two: "b"})
    window(master, 1, changes={one: "c"})
    assert master.states == {one: ("a", "c"), two: ("b",)}


def test_a_failed_attempt_is_tried_again_from_the_same_state():
    master = Master(plan(), epoch=1)
    window(master, 0, changes={2: "a"})
    again = fail(master, handle(master, WindowDue(1)), failure(window_id=1))
    assert again == RunWindow(WindowRequest(1, 1, 1, states={2: ("a",)}), str(failure(window_id=1)))
    assert isinstance(run(master, again), Commit)


def raised(text="ValueError: no", tuple="Number(value=1)", **what) -> Failure:
    """The operator's own code has raised it."""
    return replace(failure(), error=text, tuple=tuple, raised=True, **what)


def handled(failures, **attributes) -> list[type]:
    """What STRAM does after each of the failures of one window."""
    master = Master(plan(recovery_attempts=3, **attributes), epoch=1)
    running = handle(master, WindowDue(0))
    following = []
    for one in failures:
        running = fail(master, running, one)
        following.append(type(running))
    return following


def test_the_same_failure_on_the_same_tuple_twice_is_enough():
    assert handled([raised(), raised()]) == [RunWindow, GiveUp]
    assert handled([raised("ValueError: <object at 0x7f01>"), raised("ValueError: <object at 0x7fa2>")]) == [
        RunWindow,
        GiveUp,
    ]


@pytest.mark.parametrize(
    "other",
    [
        raised("ValueError: yes"),
        raised("KeyError: no"),
        raised(tuple="Number(value=2)"),
        raised(operator="step2"),
        raised(partition=1),
    ],
)
def test_other_failures_count_as_recovery_attempts_allow(other):
    assert handled([raised(), other, raised(), other]) == [RunWindow, RunWindow, RunWindow, GiveUp]


def test_what_no_callback_raised_is_tried_again_even_if_it_is_the_same():
    assert handled([failure()] * 4) == [RunWindow, RunWindow, RunWindow, GiveUp]


def test_an_operator_may_ask_for_tries_of_the_same():
    assert handled([raised()] * 4, on_error="RETRY") == [RunWindow, RunWindow, RunWindow, GiveUp]


def test_a_failure_of_the_window_before_does_not_count():
    master = Master(plan(), epoch=1)
    run(master, fail(master, handle(master, WindowDue(0)), raised()))
    handle(master, ManifestWritten(0))
    assert isinstance(fail(master, handle(master, WindowDue(1)), raised()), RunWindow)


@pytest.mark.parametrize("attempts", [0, 1, 3])
def test_it_gives_up_after_the_operator_s_recovery_attempts(attempts):
    master = Master(plan(recovery_attempts=attempts), epoch=1)
    running = handle(master, WindowDue(0))
    for attempt in range(attempts):
        running = fail(master, running, failure())
        assert running.request.attempt == attempt + 1
    assert fail(master, running, failure()) == GiveUp(failure(), attempts + 1)
    assert (master.committed, master.states) == (-1, {})


@pytest.mark.parametrize(
    ("blamed", "attempts"),
    [
        ("source1", 1),
        ("step1", 2),
        ("step1[1]", 2),
        ("step1.out#unifier", 2),
        ("step1.out#unifier[0]", 2),
        ("", 2),
        ("nobody", 2),
    ],
)
def test_each_operator_has_its_own_number_of_attempts(blamed, attempts):
    master = Master(plan(recovery_attempts=2), epoch=1)
    running = handle(master, WindowDue(0))
    for _ in range(attempts):
        running = fail(master, running, failure(blamed))
        assert isinstance(running, RunWindow)
    assert isinstance(fail(master, running, failure(blamed)), GiveUp)


def test_failures_are_counted_for_each_window_anew():
    master = Master(plan(recovery_attempts=1), epoch=1)
    for window_id in range(3):
        again = fail(master, handle(master, WindowDue(window_id)), failure())
        assert isinstance(again, RunWindow)
        assert isinstance(run(master, again), Commit)
        handle(master, ManifestWritten(window_id))
    assert master.committed == 2


def test_after_giving_up_the_window_may_be_due_again():
    master = Master(plan(recovery_attempts=0), epoch=1)
    fail(master, handle(master, WindowDue(0)), failure())
    assert handle(master, WindowDue(0)) == RunWindow(WindowRequest(0, 1, 1))


def test_a_container_that_reported_twice_fails_the_attempt():
    master = Master(plan(), epoch=1)
    first = handle(master, WindowDue(0))
    found = reports(master.plan, first.request)
    [again] = report(master, [found[0], found[0]])
    assert again.reason == "application `app` failed in window 0 in `window`: a container reported twice"


def test_the_end_with_open_application_windows_runs_the_window_again_as_the_last():
    master = Master(plan(windows_seen_as_one=3), epoch=1)
    window(master, 0)
    again = run(master, handle(master, WindowDue(1)), finished=["source1"])
    assert again == RunWindow(WindowRequest(1, 1, 1, final=True))
    commit = run(master, again, finished=["source1"])
    assert (commit.ends, commit.finished) == (True, frozenset(ids(master.plan, "source1")))
    assert master.ended is False
    handle(master, ManifestWritten(1))
    assert master.ended is True


@pytest.mark.parametrize(("windows_seen_as_one", "window_id"), [(1, 0), (3, 2)])
def test_the_end_at_the_border_of_application_windows_needs_no_second_run(windows_seen_as_one, window_id):
    master = Master(plan(windows_seen_as_one=windows_seen_as_one), epoch=1)
    for before in range(window_id):
        window(master, before)
    commit = run(master, handle(master, WindowDue(window_id)), finished=["source1"])
    assert commit.ends is True


def test_a_failure_in_the_last_run_keeps_it_the_last():
    master = Master(plan(windows_seen_as_one=2), epoch=1)
    last = run(master, handle(master, WindowDue(0)), finished=["source1"])
    again = fail(master, last, failure())
    assert (last.request.final, again.request.final, again.request.attempt) == (True, True, 2)


def test_an_input_that_changes_its_mind_goes_on():
    master = Master(plan(windows_seen_as_one=2), epoch=1)
    last = run(master, handle(master, WindowDue(0)), finished=["source1"])
    again = run(master, last)
    assert again == RunWindow(WindowRequest(0, 2, 1))
    assert run(master, again).ends is False


def test_the_application_ends_when_its_last_input_has_finished():
    master = Master(plan(inputs=3), epoch=1)
    ends = []
    for window_id, finished in enumerate([["source2"], [], ["source1"], [], ["source3"]]):
        request = handle(master, WindowDue(window_id))
        commit = run(master, request, finished=finished)
        ends.append(commit.ends)
        handle(master, ManifestWritten(window_id))
    assert ends == [False, False, False, False, True]
    assert master.finished == master.inputs
    assert master.ended


def test_what_has_finished_is_reported_to_the_containers():
    master = Master(plan(inputs=2), epoch=1)
    window(master, 0, finished=["source2"])
    assert handle(master, WindowDue(1)).request.finished == frozenset(ids(master.plan, "source2"))


def test_a_finish_that_was_not_committed_does_not_count():
    master = Master(plan(), epoch=1)
    run(master, handle(master, WindowDue(0)), finished=["source1"])
    assert (master.finished, master.ended) == (frozenset(), False)


def test_all_partitions_of_an_input_must_finish():
    master = Master(plan(), epoch=1)
    assert len(master.inputs) == 1
    app = plan(inputs=2)
    assert Master(app, epoch=1, finished=frozenset(ids(app, "source1"))).ended is False


def test_a_committed_window_is_not_run_again():
    master = Master(plan(), epoch=1, committed=5)
    assert not master.handle(WindowDue(5))
    assert not master.handle(WindowDue(2))
    assert isinstance(handle(master, WindowDue(6)), RunWindow)


def test_a_restart_goes_on_with_the_states_of_the_last_commit():
    tiny = plan(inputs=2)
    one = ids(tiny, "step1")[0]
    finished = frozenset(ids(tiny, "source1"))
    master = Master(tiny, epoch=7, committed=3, states={one: ("s", "d")}, finished=finished)
    assert handle(master, WindowDue(4)) == RunWindow(
        WindowRequest(4, 0, 7, finished=finished, states={one: ("s", "d")})
    )
    assert Master(tiny, epoch=7, committed=3, finished=master.inputs).ended


def test_a_request_is_not_changed_by_what_is_committed_later():
    master = Master(plan(), epoch=1)
    request = handle(master, WindowDue(0)).request
    run(master, RunWindow(request), changes={2: "a"})
    handle(master, ManifestWritten(0))
    assert request.states == {}


def test_events_out_of_order_are_errors_of_the_engine():
    master = Master(plan(), epoch=1)
    with pytest.raises(AssertionError, match="window 3 cannot begin now; the next one is 0"):
        handle(master, WindowDue(3))
    with pytest.raises(AssertionError, match="window 0 was not about to be committed"):
        handle(master, ManifestWritten(0))


def test_state_keys_depend_on_names_and_partitions_only():
    tiny = plan(partitions=2)
    assert [operator.state_key for operator in tiny.physical.operators] == [
        "source1/0/1",
        "step1/0/2",
        "step1/1/2",
    ]


# Versions that change beside the windows --------------------------------------------------------------------


def compacted(master: Master, version, names) -> list:
    """What follows when a compaction of the first `step1` has ended."""
    return list(master.handle(Compacted(2, version, names, 10)))


def counting() -> Master:
    """A master whose steps (operators 2 and 3) hold state."""
    return Master(plan(step=Counter), epoch=1)


def test_a_compaction_is_installed_between_windows():
    master = counting()
    window(master, 0, changes={2: "a"})
    window(master, 1, changes={2: "b"})
    assert compacted(master, ("a", "b"), ("ab",)) == [ReportCompaction(2, 2, 10)]
    assert handle(master, WindowDue(2)).request.states == {2: ("ab",)}


def test_the_report_of_a_running_window_begins_with_what_was_installed_meanwhile():
    master = counting()
    window(master, 0, changes={2: "a", 3: "x"})
    running = handle(master, WindowDue(1))
    compacted(master, ("a",), ("A",))
    compacted(master, ("A",), ("R", "S"))
    commit = run(master, running, changes={2: "b", 3: "y"})
    assert commit.states == {2: ("R", "S", "b"), 3: ("x", "y")}


def test_the_next_attempt_at_a_window_gets_the_new_version():
    master = counting()
    window(master, 0, changes={2: "a"})
    running = handle(master, WindowDue(1))
    compacted(master, ("a",), ("A",))
    assert fail(master, running, failure(window_id=1)).request.states == {2: ("A",)}


def test_a_compaction_is_installed_while_a_window_is_being_committed():
    master = counting()
    window(master, 0, changes={2: "a"})
    commit = run(master, handle(master, WindowDue(1)), changes={2: "b"})
    compacted(master, ("a",), ("A",))
    assert commit.states == {2: ("a", "b")}
    handle(master, ManifestWritten(1))
    assert master.states == {2: ("A", "b")}
    assert run(master, handle(master, WindowDue(2))).states == {2: ("A", "b")}
    handle(master, ManifestWritten(2))
    assert run(master, handle(master, WindowDue(3))).states == {}


def test_a_compaction_of_a_version_that_began_anew_is_discarded():
    master = counting()
    window(master, 0, changes={2: "a"})
    window(master, 1, changes={2: "b"}, replaced=[2])
    assert compacted(master, ("a",), ("A",)) == [DiscardCompaction(2)]
    assert master.states == {2: ("b",)}


def test_nobody_else_can_change_the_states():
    master = counting()
    run(master, handle(master, WindowDue(0)), changes={2: "a"})
    with pytest.raises(TypeError):
        master.states[2] = ("b",)
    handle(master, ManifestWritten(0))
    handle(master, WindowDue(1)).request.states.clear()
    assert master.states == {2: ("a",)}
    for name in ("states", "committed", "finished", "ended"):
        with pytest.raises(AttributeError):
            setattr(master, name, getattr(master, name))


# State that cannot be read ----------------------------------------------------------------------------------


UNREADABLE = replace(failure(), callback="state", error="StateError: state file `A` is corrupt")


def test_after_an_attempt_that_could_not_read_its_state_the_files_are_checked_before_the_next():
    master = counting()
    window(master, 0, changes={2: "A"})
    window(master, 1, changes={2: "c"})
    running = handle(master, WindowDue(2))
    assert fail(master, running, UNREADABLE) == CheckStates()
    warning = handle(master, Repaired(2, ("A",), ("a", "b"), (), "state file `A` is corrupt"))
    remedy = "the files that it was merged from are used instead, nothing is lost"
    assert warning == WarnOfState(2, f"state file `A` is corrupt; {remedy}")
    again = handle(master, StatesChecked())
    assert (again.request.attempt, again.request.states) == (1, {2: ("a", "b", "c")})
    assert again.reason == str(UNREADABLE)


def test_checked_states_do_not_make_more_attempts():
    master = Master(plan(recovery_attempts=1), epoch=1)
    running = handle(master, WindowDue(0))
    for expected in (RunWindow, GiveUp):
        assert fail(master, running, UNREADABLE) == CheckStates()
        running = handle(master, StatesChecked())
        assert isinstance(running, expected)


def test_states_are_checked_only_when_asked_for():
    with pytest.raises(AssertionError, match="no states were to be checked"):
        handle(Master(plan(), epoch=1), StatesChecked())
