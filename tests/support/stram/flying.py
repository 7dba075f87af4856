"""Windows under way: a master is told what containers do, and says what follows."""

from __future__ import annotations

from ridgeline.api.errors import Failure
from ridgeline.stram.control import (
    AttemptFailed,
    Commit,
    ContainerReported,
    ManifestWritten,
    Publish,
    RunWindow,
    WindowDue,
    WindowPublished,
)
from ridgeline.stram.master import Master
from support.stram.plans import reports

RAISED = Failure("app", "step1", 0, 0, "process", "ValueError: no", raised=True)
LOST = Failure("app", "", 0, 0, "slot", "its process was killed")


def begin(master: Master) -> RunWindow:
    [instruction] = master.handle(WindowDue(master.next_window))
    assert isinstance(instruction, RunWindow)
    return instruction


def report(master: Master, running: RunWindow, **what) -> list:
    """What follows once all containers have reported the attempt."""
    found = reports(master.plan, running.request, **what)
    return [instruction for one in found for instruction in master.handle(ContainerReported(one))]


def fail(master: Master, running: RunWindow, failure: Failure) -> list:
    request = running.request
    return list(master.handle(AttemptFailed(request.window_id, request.attempt, failure)))


def commit(master: Master, instructions) -> list:
    """The commit that is to be done, and what follows from it."""
    [asked] = instructions
    assert isinstance(asked, Commit)
    assert list(master.handle(ManifestWritten(asked.window_id))) == [Publish(asked.window_id)]
    return list(master.handle(WindowPublished(asked.window_id)))


def commit_all(master: Master, asked: Commit) -> list:
    """What follows from a commit of several windows."""
    *before, last = asked.reports
    assert list(master.handle(ManifestWritten(last))) == [Publish(last, tuple(before))]
    return list(master.handle(WindowPublished(last)))


def begun(instructions) -> list[tuple[int, int, bool]]:
    """Window, attempt, and whether the states are given, of the windows that are begun."""
    return [
        (one.request.window_id, one.request.attempt, one.request.states is not None)
        for one in instructions
        if isinstance(one, RunWindow)
    ]
