"""The log of events and instructions: bounded, without tuples and secrets."""

from __future__ import annotations

import json

import pytest

from ridgeline.api.errors import Failure
from ridgeline.observe.control_log import ControlLog
from ridgeline.stram.control import (
    AttemptFailed,
    ContainerReported,
    ManifestWritten,
    WindowDue,
    WindowPublished,
)
from ridgeline.stram.master import Master
from support.stram.plans import Counter, ids, plan, reports


def logged(windows: int, **bounds: int) -> tuple[ControlLog, Master]:
    """The log of so many windows that are run and committed."""
    times = iter(range(1_000_000))
    log = ControlLog(lambda: float(next(times)), **bounds)
    master = Master(plan(step=Counter), epoch=1)
    step, *_ = ids(master.plan, "step1")
    for window_id in range(windows):
        [running] = log.handle(WindowDue(window_id), master.handle)
        for report in reports(master.plan, running.request, changes={step: f"d{window_id}"}):
            report.small_change = (f"d{window_id}", b"a tuple" * 1000)
            log.handle(ContainerReported(report), master.handle)
        log.handle(ManifestWritten(window_id), master.handle)
        log.handle(WindowPublished(window_id), master.handle)
    return log, master


def test_a_window_is_seen_from_its_first_event_to_its_last() -> None:
    log, master = logged(1)
    containers = len(master.plan.execution.containers)
    dump = log.dump(master)
    assert [one["event"] for one in dump["events"]] == [
        "WindowDue", *["ContainerReported"] * containers, "ManifestWritten", "WindowPublished",
    ]  # fmt: skip
    assert [one["at"] for one in dump["events"]] == [*range(containers + 3)]
    answers = [one["instructions"] for one in dump["events"]]
    assert [one["instruction"] for found in answers for one in found or ()] == [
        "RunWindow", "Commit", "Publish",
    ]  # fmt: skip
    [[details]] = [[one["details"] for one in found] for found in answers[:1] if found]
    assert {name: details[name] for name in ("window", "attempt", "final")} == {
        "window": 0, "attempt": 0, "final": False,
    }  # fmt: skip
    assert (dump["committed"], dump["windows"], dump["dropped"]) == (0, [], 0)
    assert "a tuple" not in json.dumps(dump)


def test_the_oldest_events_go_first() -> None:
    log, _ = logged(20, most_events=7)
    events = log.events()
    assert len(events) == 7
    assert events[-1]["details"] == {"window": 19, "seconds": 0.0}
    assert log.dropped == events[0]["at"]


def test_secrets_are_masked_and_tuples_left_out() -> None:
    log = ControlLog(lambda: 0.0)
    error = "x" * 390 + " password=hunter2"
    failure = Failure("app", "step1", 0, 0, "process", error, tuple="(1, 'ann')", traceback="line 7")
    log.handle(AttemptFailed(0, 0, failure), lambda _event: ())
    text = json.dumps(log.events())
    assert "hunter2" not in text
    assert "ann" not in text
    assert "line 7" not in text


def test_the_event_that_the_master_failed_on_is_the_last() -> None:
    log, master = logged(1)
    with pytest.raises(AssertionError):
        log.handle(ManifestWritten(9), master.handle)
    last = log.dump(master, ZeroDivisionError("token=abc"))["events"][-1]
    assert (last["event"], last["instructions"]) == ("ManifestWritten", None)
    assert log.dump(master, ZeroDivisionError("token=abc"))["fault"] == "ZeroDivisionError: token=***"
