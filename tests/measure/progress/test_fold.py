import json
from dataclasses import replace

import pytest

from ridgeline.measure.events import (
    ContainerHeartbeat,
    RunningOperator,
    SourceProgress,
    SourceTaken,
    WindowCommitted,
    WindowPlanned,
    WindowStarted,
)
from ridgeline.measure.progress.fold import ProgressFold
from ridgeline.measure.slot_events import StoreSilent
from ridgeline.measure.topology import OperatorNode, StreamEdge, Topology
from support.measure.partitioned import chain
from support.measure.reports import of_reports
from support.measure.simulated_window import operator_ended


def begin(fold, window, at, late=0.0):
    fold.window_planned(WindowPlanned(at, window, 0, at - late))
    fold.window_started(WindowStarted(at, window, 0))


def commit(fold, window, at):
    fold.window_committed(WindowCommitted(at, window, 1, at, at, at, at, at, at, at))


def beat(fold, at, container, *operators, window=0, attempt=0, pid=1):
    fold.heartbeat(ContainerHeartbeat(at, container, "h", pid, at, window, attempt, 0.0, operators))


def ran(fold, window, operator, seconds, tuples_in=None, tuples_out=None, **more):
    fold.operators_ended(of_reports(operator_ended(window, operator, seconds, tuples_in, tuples_out, **more)))


def report(fold, at, window, operator, consumed, remaining, **more):
    fold.source(SourceProgress(at, window, operator, consumed, remaining, **more))


def made(topology=None, **more):
    fold = ProgressFold(1.0, **more)
    fold.planned(topology or chain("read", "split", "write"))
    return fold


def strict(fold, now):
    """The progress, as it comes out of JSON."""
    return json.loads(json.dumps(fold.progress(now), allow_nan=False))


def split(done, seconds):
    return RunningOperator(2, "running", seconds, {"input": done}, {"input": 59 - done}, 1, {"output": done})


def test_a_window_of_sixty_seconds_after_twenty():
    fold = made()
    begin(fold, 0, 100.0)
    beat(fold, 120.0, 1, split(19, 19.8))
    found = strict(fold, 120.4)
    assert (found["windowId"], found["running"], found["elapsedSeconds"]) == (0, True, pytest.approx(20.4))
    assert found["window"]["remainingSeconds"] == pytest.approx(40.0, rel=0.1)
    assert found["window"]["fractionDone"] == pytest.approx(1 / 3, rel=0.1)
    assert found["window"]["expectedEndAt"] == pytest.approx(160.0, rel=0.02)
    operator = found["operators"][1]
    assert operator["remainingSeconds"]["basis"] == "estimated"
    expected = {
        "operator": "split",
        "id": 2,
        "state": "running",
        "consumed": 19,
        "queued": 40.0,
        "active": 1,
        "produced": 19,
    }
    assert {name: operator[name] for name in expected} == expected
    assert operator["secondsSpent"] == pytest.approx(20.2)
    assert operator["averageSecondsPerElement"] == pytest.approx(19.8 / 19.5)
    assert operator["inputRemaining"] == {"value": 40.0, "basis": "exact"}
    assert found["containers"][1]["lastHeartbeatAgeSeconds"] == pytest.approx(0.4)
    assert not found["containers"][1]["silent"]


def test_earlier_windows_show_how_long_a_batch_will_take():
    fold = made()
    for window in range(3):
        begin(fold, window, 100.0 + window)
        ran(fold, window, 1, 0.5, {}, {"output": 100})
        ran(fold, window, 2, 30.0, {"input": 100}, {"output": 200})
        ran(fold, window, 3, 2.0, {"input": 200})
        commit(fold, window, 100.5 + window)
    begin(fold, 3, 200.0)
    fresh = strict(fold, 200.0)["window"]
    assert fresh == {
        "remainingSeconds": 32.5,
        "cpuRemainingSeconds": 32.5,
        "fractionDone": 0.0,
        "basis": "estimated",
        "expectedEndAt": 232.5,
    }
    beat(fold, 212.0, 1, RunningOperator(2, "running", 12.0, {"input": 0}, {"input": 0}, 50), window=3)
    found = strict(fold, 212.0)
    assert found["operators"][1]["remainingSeconds"] == {"value": 3.0, "basis": "estimated"}
    assert found["operators"][2]["inputRemaining"] == {"value": pytest.approx(100.0), "basis": "estimated"}
    assert found["window"]["remainingSeconds"] == pytest.approx(4.0)


def test_what_an_input_has_produced_shows_before_its_window_is_committed():
    fold = made()
    begin(fold, 0, 100.0)
    taken = SourceTaken(101.0, 0, 0, 1, 60.0, 0.0, "tuples", 101.0, seconds=0.5, produced={"output": 60})
    fold.source_taken(taken)
    beat(fold, 102.0, 1, RunningOperator(2, "running", 1.0, {"input": 4}, {}, 1))
    read, split, _ = strict(fold, 102.0)["operators"]
    assert (read["state"], read["produced"], read["secondsSpent"]) == ("done", 60, 0.5)
    assert (split["queued"], split["inputRemaining"]) == (55.0, {"value": 55.0, "basis": "exact"})


def test_the_time_of_end_window_is_still_to_come():
    """100 tuples of 0.1 s, then 20 s in `end_window`."""
    fold = made()
    for window in range(3):
        begin(fold, window, 100.0 + window)
        ran(fold, window, 2, 30.0, {"input": 100}, {}, end_seconds=20.0)
        commit(fold, window, 100.5 + window)
    begin(fold, 3, 200.0)
    half = {"consumed": {"input": 50}, "queued": {"input": 50}}
    beat(fold, 205.0, 1, RunningOperator(2, "running", 5.0, **half), window=3)
    assert strict(fold, 205.0)["operators"][1]["remainingSeconds"] == {
        "value": pytest.approx(25.0),
        "basis": "estimated",
    }
    done = {"consumed": {"input": 100}, "queued": {"input": 0}}
    beat(fold, 218.0, 1, RunningOperator(2, "running", 18.0, **done, end_seconds=8.0), window=3)
    found = strict(fold, 218.0)["operators"][1]
    assert found["remainingSeconds"] == {"value": pytest.approx(12.0), "basis": "estimated"}
    assert (found["secondsSpent"], found["averageSecondsPerElement"]) == (18.0, pytest.approx(0.1))


def test_a_committed_window_has_nothing_left():
    fold = made()
    begin(fold, 7, 100.0)
    beat(fold, 102.0, 1, split(10, 2.0), window=7)
    ran(fold, 7, 2, 3.0, {"input": 60}, {"output": 60})
    assert [operator["state"] for operator in strict(fold, 102.0)["operators"]] == ["done", "done", "waiting"]
    commit(fold, 7, 103.5)
    found = strict(fold, 110.0)
    assert (found["windowId"], found["running"], found["elapsedSeconds"]) == (7, False, 3.5)
    assert found["window"] == {
        "remainingSeconds": 0,
        "cpuRemainingSeconds": 0,
        "fractionDone": 1,
        "basis": "exact",
        "expectedEndAt": None,
    }
    assert [operator["state"] for operator in found["operators"]] == ["done"] * 3
    assert found["operators"][1]["consumed"] == 60


def test_before_anything_has_happened():
    assert strict(ProgressFold(1.0), 5.0)["operators"] == []
    found = strict(made(), 5.0)
    assert (found["windowId"], found["running"], found["elapsedSeconds"]) == (None, False, None)
    assert found["application"] == {
        "backlogRecords": None,
        "backlogSeconds": None,
        "basis": "unknown",
        "caughtUpAt": None,
        "verdict": "unknown",
        "windowsBehind": None,
        "asOf": None,
        "unreachable": [],
        "stuckOutputs": [],
        "stuckStores": [],
        "oldest": {"value": None, "basis": "unknown"},
        "bottleneck": None,
    }
    assert found["sources"][0]["verdict"] == "unknown"


def test_a_store_that_does_not_answer_makes_an_application_stuck():
    fold = made()
    silent = StoreSilent(1_000_012.0, "s3a://states/app", 12.0, 3, "Connection refused")
    fold.store(silent)
    found = strict(fold, 20.0)["application"]
    assert found["verdict"] == "stuck"
    since = "has not answered since 1970-01-12T13:46:40+00:00 (3 attempts, last error: Connection refused)"
    assert found["stuckStores"] == [f"the checkpoint's store (`s3a://states/app`) {since}"]
    fold.store(replace(silent, again=True))
    assert strict(fold, 21.0)["application"]["stuckStores"] == []


def test_a_host_reaches_the_store_again_once_a_window_is_committed():
    fold = made()
    fold.store(StoreSilent(30.0, "s3a://states/app", 30.0, error="timed out", host="beta"))
    [why] = strict(fold, 31.0)["application"]["stuckStores"]
    assert "cannot be reached from `beta`: it has not answered since" in why
    begin(fold, 7, 31.0)
    commit(fold, 7, 39.0)
    assert strict(fold, 40.0)["application"]["stuckStores"] == []


def test_heartbeats_of_other_windows_attempts_and_containers_do_not_count():
    fold = made()
    beat(fold, 99.0, 1, split(1, 1.0))
    begin(fold, 1, 100.0)
    beat(fold, 101.0, 1, split(1, 1.0), window=0)
    beat(fold, 101.0, 9, split(1, 1.0), window=1)
    beat(fold, 101.0, 0, split(1, 1.0), window=1)  # not in this container
    beat(fold, 101.0, 1, split(5, 1.0), window=1)
    beat(fold, 100.5, 1, split(3, 0.5), window=1)  # overtaken
    assert strict(fold, 101.0)["operators"][1]["consumed"] == 5
    fold.window_started(WindowStarted(102.0, 1, 1))
    assert strict(fold, 102.0)["operators"][1]["state"] == "unknown"
    beat(fold, 102.5, 1, split(9, 9.0), window=1, attempt=0)
    assert strict(fold, 102.5)["operators"][1]["consumed"] is None
    assert strict(fold, 102.5)["elapsedSeconds"] == 0.5


def two_containers():
    nodes = tuple(
        OperatorNode(one, f"o{one}", f"o{one}", "Input", 0, 1, False, "input", False, one, 0)
        for one in (1, 2)
    )
    return Topology(nodes, ())


def test_a_container_that_is_not_heard_of_is_silent_unless_its_process_has_gone_on():
    fold = made(two_containers(), heartbeat_timeout=5.0)
    begin(fold, 0, 100.0)
    for container in (1, 2):
        work = RunningOperator(container, "running", 1.0, active=1, work=(1.0, 99.0))
        beat(fold, 101.0, container, work, pid=container)
    beat(fold, 102.0, -1, pid=2, window=-1)
    found = strict(fold, 104.0)["containers"]
    assert [one["silent"] for one in found] == [False, False]
    found = strict(fold, 110.0)["containers"]
    assert [one["silent"] for one in found] == [True, False]
    assert found[0]["remainingSeconds"]["value"] == 99.0 - 5.0  # no longer counted on
    assert found[1]["remainingSeconds"] == {"value": 0, "basis": "exact"}


def partitioned(stage=0):
    def counter(partition):
        shape = (partition, 2, False, "output", False, partition, stage)
        return OperatorNode(2 + partition, "count", f"count[{partition}]", "Count", *shape, ("in",))

    read = OperatorNode(1, "read", "read", "Read", 0, 1, False, "input", False, 2, 0, (), ("out",))
    return Topology(
        (read, counter(0), counter(1)), tuple(StreamEdge("s", 1, "out", sink, "in") for sink in (2, 3))
    )


def test_partitions_get_the_share_of_earlier_windows():
    fold = made(partitioned())
    for window in range(2):
        begin(fold, window, float(window))
        ran(fold, window, 1, 1.0, {}, {"out": 100})
        ran(fold, window, 2, 0.9, {"in": 90})
        ran(fold, window, 3, 0.1, {"in": 10})
        commit(fold, window, window + 0.5)
    begin(fold, 2, 10.0)
    said = [
        RunningOperator(1, "done", 2.0, produced={"out": 200}),
        RunningOperator(2, "waiting"),
        RunningOperator(3, "waiting"),
    ]
    for operator, container in zip(said, (2, 0, 1), strict=True):
        beat(fold, 12.0, container, operator, window=2, pid=container)
    assert [one["inputRemaining"]["value"] for one in strict(fold, 12.0)["operators"]] == [
        0,
        pytest.approx(180.0),
        pytest.approx(20.0),
    ]
    fold.planned(partitioned(1))
    assert strict(fold, 12.0)["operators"][1]["inputRemaining"]["value"] == pytest.approx(
        90.0
    )  # by its average


# Backlog ----------------------------------------------------------------------------------------------------


def test_partitions_add_up_to_one_source():
    nodes = tuple(
        OperatorNode(one, "read", f"read[{one}]", "Read", one, 2, False, "input", False, one, 0)
        for one in (0, 1)
    )
    fold = made(Topology(nodes, ()))
    for second in range(20):
        begin(fold, second, float(second))
        report(fold, second + 0.4, second, 0, 10.0 * second, 1000.0 - 5.0 * second, remaining_bytes=10.0)
        report(fold, second + 0.4, second, 1, 30.0 * second, 3000.0 - 15.0 * second, remaining_bytes=20.0)
        commit(fold, second, second + 0.5)
    found = strict(fold, 19.5)
    (source,) = found["sources"]
    left = 4000.0 - 20.0 * 19
    assert source == {
        "operator": "read",
        "unit": "records",
        "backlog": {"value": left, "basis": "exact"},
        "backlogRecords": left,
        "backlogBytes": 30.0,
        "backlogSeconds": pytest.approx(left / 40.0),
        "drainPerSecond": pytest.approx(40.0),
        "arrivalPerSecond": pytest.approx(20.0),
        "basis": "exact",
        "caughtUpAt": pytest.approx(19.4 + left / 20.0),
        "asOf": 19.4,
        "oldest": {"value": pytest.approx(19.1), "basis": "lower bound"},
        "problem": None,
        "verdict": "catching up",
    }
    assert found["application"] == {
        "backlogRecords": left,
        "backlogSeconds": pytest.approx(left / 40.0),
        "basis": "estimated",
        "caughtUpAt": pytest.approx(19.4 + left / 20.0),
        "asOf": 19.4,
        "unreachable": [],
        "stuckOutputs": [],
        "stuckStores": [],
        "verdict": "catching up",
        "windowsBehind": 0,
        "oldest": {"value": pytest.approx(19.1), "basis": "lower bound"},
        "bottleneck": None,
    }


def test_a_partition_that_does_not_report_makes_a_lower_bound():
    nodes = tuple(
        OperatorNode(one, "read", f"read[{one}]", "Read", one, 2, False, "input", False, one, 0)
        for one in (0, 1)
    )
    fold = made(Topology(nodes, ()))
    for second in range(5):
        begin(fold, second, float(second))
        report(fold, second + 0.4, second, 0, 10.0 * second, 50.0, unit="bytes")
        commit(fold, second, second + 0.5)
    (source,) = strict(fold, 5.0)["sources"]
    assert source["backlog"] == {"value": 50.0, "basis": "lower bound"}
    assert (source["backlogRecords"], source["backlogBytes"]) == (None, 50.0)


def test_a_whole_source_and_the_worst_of_two():
    fold = made(two_containers())
    for second in range(20):
        begin(fold, second, float(second))
        report(fold, second + 0.5, second, 1, 10.0 * second, 100.0 + 50.0 * second, whole=True)
        report(fold, second + 0.5, second, 2, 10.0 * second, 0.0, whole=True)
        commit(fold, second, second + 0.6)
    found = strict(fold, 20.0)
    assert [source["verdict"] for source in found["sources"]] == ["falling behind", "keeping up"]
    assert (found["application"]["verdict"], found["application"]["caughtUpAt"]) == ("falling behind", None)
    assert found["application"]["backlogRecords"] == 100.0 + 50.0 * 19
    assert found["application"]["backlogSeconds"] == pytest.approx((100.0 + 50.0 * 19) / 10.0)


@pytest.mark.parametrize("remaining", [None, -1.0])
def test_without_a_known_backlog_the_schedule_judges(remaining):
    fold = made()
    for window in range(20):  # windows of 1 s that take 1.5 s
        begin(fold, window, 1.5 * window, late=0.5 * window)
        report(fold, 1.5 * window + 1, window, 1, 10.0 * window, remaining, unit="work")
        commit(fold, window, 1.5 * window + 1.5)
    found = strict(fold, 30.0)
    assert found["application"]["verdict"] == "falling behind"
    assert found["application"]["basis"] == "schedule"
    assert (found["application"]["backlogSeconds"], found["application"]["windowsBehind"]) == (9.5, 9)
    assert found["sources"][0]["verdict"] == ("unknown" if remaining is None else "falling behind")
    assert found["sources"][0]["backlog"] == (
        {"value": None, "basis": "unknown"}
        if remaining is None
        else {"value": None, "basis": "exact", "infinite": True}
    )


def test_a_schedule_that_slips_is_no_recovery():
    """A driver that is more than ten windows late goes on as if it were ten late."""
    fold, due = made(), 0.0
    for window in range(60):
        if window:
            commit(fold, window - 1, 1.5 * window)
        begin(fold, window, 1.5 * window, late=1.5 * window - due)
        due = max(due + 1.0, 1.5 * (window + 1) - 10.0)
    found = strict(fold, 1.5 * 59 + 0.1)["application"]
    assert (found["verdict"], found["windowsBehind"]) == ("falling behind", 29)
    begin(fold, 60, 100.0)
    assert strict(fold, 100.1)["application"]["windowsBehind"] == 0


def test_a_window_that_does_not_end_makes_the_application_late():
    fold = made()
    begin(fold, 0, 99.0)
    commit(fold, 0, 99.5)
    begin(fold, 1, 100.0)
    assert strict(fold, 101.5)["application"]["verdict"] == "keeping up"
    found = strict(fold, 120.0)["application"]
    assert (found["verdict"], found["windowsBehind"]) == ("stuck", 19)  # nothing is heard of it
    for at in range(115, 120):
        beat(fold, float(at), 1, split(at - 100, at - 100.5), window=1)
    found = strict(fold, 120.0)["application"]
    assert (found["verdict"], found["windowsBehind"]) == ("falling behind", 19)
    commit(fold, 1, 120.0)
    assert (
        strict(fold, 500.0)["application"]["windowsBehind"] == 0
    )  # nobody knows that a window should have begun


def test_a_first_window_that_takes_long_is_no_evidence():
    fold = made()
    begin(fold, 0, 100.0)
    found = strict(fold, 120.0)["application"]
    assert (found["verdict"], found["windowsBehind"]) == ("settling", 19)


@pytest.mark.parametrize(("windows", "verdict"), [(0, "settling"), (1, "stuck")])
def test_a_source_is_stuck_without_heartbeats_unless_the_first_window_runs(windows, verdict):
    fold = made()
    for window in range(windows):
        begin(fold, window, 99.0)
        report(fold, 99.2, window, 1, 10.0, 50.0, whole=True)
        commit(fold, window, 99.5)
    begin(fold, windows, 100.0)
    report(fold, 100.2, windows, 1, 10.0, 60.0, whole=True)
    assert strict(fold, 130.0)["sources"][0]["verdict"] == verdict
