"""Stories of a plan that follows another one while windows run."""

from ridgeline.api.errors import Failure
from ridgeline.plan.change.succession import succeed
from ridgeline.stram.control import (
    AttemptFailed,
    Commit,
    ContainerReported,
    GiveUp,
    ManifestWritten,
    RunWindow,
    WindowDue,
)
from ridgeline.stram.master import Master
from support.stram.plans import ids, plan, reports


def report(master, running, **what):
    """All containers report an attempt; what follows."""
    return [
        instruction
        for one in reports(master.plan, running.request, **what)
        for instruction in master.handle(ContainerReported(one))
    ]


def begin(master, window_id, time=0):
    """The attempt that begins a window."""
    [running] = master.handle(WindowDue(window_id, time))
    assert isinstance(running, RunWindow)
    return running


def run(master, window_id, time=0, **what):
    """A window without trouble."""
    [commit] = report(master, begin(master, window_id, time), **what)
    assert isinstance(commit, Commit)
    master.handle(ManifestWritten(window_id))


def followed(first, partitions=3):
    """The master of a plan with other partitions, which follows another master."""
    new = succeed(first.plan, plan(partitions=partitions))
    states = {one: (f"moved{one}",) for one in ids(new, "step1")}
    return Master(
        new,
        epoch=1,
        committed=first.committed,
        states=states,
        capacity=3,
        groups=True,
        follows=first,
    )


def in_slots():
    return Master(plan(), epoch=1, capacity=3, groups=True)


def test_the_first_window_of_a_plan_names_the_states_and_runs_alone():
    first = in_slots()
    run(first, 0, changes={ids(first.plan, "step1")[0]: "a"})
    second = followed(first)
    running = begin(second, 1)
    assert running.request.states == {one: (f"moved{one}",) for one in ids(second.plan, "step1")}
    assert not second.can_begin
    [commit] = report(second, running, changes={ids(second.plan, "step1")[0]: "b"})
    assert isinstance(commit, Commit)
    second.handle(ManifestWritten(1))
    assert [begin(second, window).request.states for window in (2, 3)] == [None, None]
    assert second.can_begin


def test_the_first_window_of_a_plan_is_committed_though_nothing_moved_in_it():
    first = in_slots()
    running = begin(first, 0)
    assert report(first, running) == [], "it is held"
    second = followed(in_slots())
    [commit] = report(second, begin(second, 0))
    assert isinstance(commit, Commit)


def test_ids_of_the_plan_before_mean_nothing_to_the_next():
    first = in_slots()
    old = begin(first, 0)
    second = followed(in_slots())
    new = begin(second, 0)
    before = {one.window.container for one in reports(first.plan, old.request)}
    after = {one.window.container for one in reports(second.plan, new.request)}
    assert before != after
    assert new.request.attempt == old.request.attempt == 0


def test_attempts_go_on_where_a_plan_that_did_not_last_has_ended():
    first = in_slots()
    running = begin(first, 0)
    failure = Failure("app", "step1", 0, 0, "process", "ValueError: no", raised=True)
    again = next(
        one
        for one in first.handle(AttemptFailed(0, running.request.attempt, failure))
        if isinstance(one, RunWindow)
    )
    back = followed(first, partitions=2)
    assert begin(back, 0).request.attempt == again.request.attempt + 1


def test_attempts_also_go_on_after_one_that_was_about_to_be_committed():
    first = in_slots()
    running = begin(first, 0)
    [commit] = report(first, running, changes={ids(first.plan, "step1")[0]: "a"})
    assert isinstance(commit, Commit)
    back = followed(first, partitions=2)
    late = begin(back, 0)
    assert late.request.attempt == running.request.attempt + 1
    assert report(back, running) == [], "a report of the attempt before is dropped"


def test_the_time_of_windows_does_not_go_back_with_the_plan():
    first = in_slots()
    run(first, 0, time=500, changes={ids(first.plan, "step1")[0]: "a"})
    assert begin(followed(first), 1, time=300).request.time == 500


def test_attempts_go_on_after_the_window_was_given_up():
    first = in_slots()
    number = begin(first, 0).request.attempt
    failure = Failure("app", "step1", 0, 0, "process", "ValueError: no", raised=True)
    while True:
        [instruction] = first.handle(AttemptFailed(0, number, failure))
        if isinstance(instruction, GiveUp):
            break
        number = instruction.request.attempt
    assert number > 0
    assert begin(followed(first, partitions=2), 0).request.attempt == number + 1
