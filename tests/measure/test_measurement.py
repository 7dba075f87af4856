"""All figures as one fold: stories of events, and what is answered."""

import dataclasses

import pytest

from ridgeline.measure.events import (
    ApplicationEnded,
    MessagesRefused,
    OutputAsked,
    SourceProgress,
    SparkTrigger,
    WindowReported,
    WindowRetried,
)
from ridgeline.measure.measurement import Measurement
from ridgeline.measure.slot_events import SlotEvent
from ridgeline.measure.topology import StreamEdge, Topology
from support.measure.partitioned import chain
from support.measure.reports import changed
from support.measure.story import age, begin, burst, heartbeat, measured, planned, windows


def test_operators_and_the_application_after_three_windows():
    measurement = measured(*windows(3))
    now = 2.6

    read, total, write = measurement.operators(now)

    named = [total[name] for name in ("operator", "logicalName", "kind", "status")]
    assert named == ["sum", "sum", "operator", "ACTIVE"]
    assert (total["host"], total["pid"], total["container"], total["stage"]) == ("driver", 7, 1, 1)
    assert (total["currentWindowId"], total["recoveryWindowId"], total["windowsBehind"]) == (2, 2, 0)
    assert [total[name] for name in ("latencyMs", "computeMs", "latencyMA")] == pytest.approx([100.0] * 3)
    # 0.2 s in the 2 s between the first commit and the last
    assert total["cpuPercentageMA"] == pytest.approx(10.0)
    assert (total["totalTuplesProcessed"], total["totalTuplesEmitted"]) == (30, 30)
    assert total["tuplesProcessedPSMA"] == pytest.approx(10.0)
    assert [(port["name"], port["type"], port["totalTuples"]) for port in total["ports"]] == [
        ("input", "input", 30),
        ("output", "output", 30),
    ]
    assert (read["totalTuplesProcessed"], write["totalTuplesEmitted"]) == (0, 0)
    stats = measurement.info(now)["stats"]
    assert (stats["latency"], stats["windowLatency"]) == pytest.approx((300.0, 550.0))
    assert stats["criticalPath"] == ["read", "sum", "write"]
    assert (stats["windowsCommitted"], stats["windowsRetried"]) == (3, 0)
    assert (stats["currentWindowId"], stats["recoveryWindowId"]) == (2, 2)
    assert (stats["totalTuplesProcessed"], stats["totalTuplesEmitted"], stats["numOperators"]) == (60, 60, 3)
    assert (stats["allocatedContainers"], stats["plannedContainers"], stats["windowStartMillis"]) == (3, 3, 0)
    box = measurement.container(now, 1)
    assert (box["id"], box["stage"], box["host"], box["jvmName"]) == (1, 1, "driver", "7@driver")
    assert (box["state"], box["operators"], box["lastWindowId"]) == ("IDLE", {"2": "sum"}, 2)
    assert (box["numOperators"], box["bytesOut"], box["memoryBytes"]) == (1, 15, None)
    times = [box[name] for name in ("lastHeartbeat", "heartbeatAgeSeconds", "startedTime")]
    assert times == pytest.approx([2.3, 0.3, 0.3])


def test_an_output_is_stuck_until_its_results_get_through():
    story = [
        *windows(1),
        OutputAsked(1.0, "write", "stuck: the server is away"),
        OutputAsked(1.0, "gone", "no"),
    ]
    stuck = measured(*story).progress(5.0)["application"]["stuckOutputs"]
    assert stuck == ["`write` is stuck: the server is away"]
    story.append(OutputAsked(6.0, "write"))
    assert measured(*story).progress(7.0)["application"]["stuckOutputs"] == []


def test_attempts_that_failed_leave_counts_only():
    text = "operator `sum` (partition 0) of application `app` failed in window 1 in `process`: ValueError: no"
    story = [*windows(1), *begin(1), WindowRetried(1.2, 1, 1, text), *begin(1, attempt=1)]
    measurement = measured(*story, *burst(1))

    assert measurement.info(2.0)["stats"]["windowsRetried"] == 1
    assert measurement.info(2.0)["stats"]["failedContainers"] == 1
    assert [row["failureCount"] for row in measurement.operators(2.0)] == [0, 1, 0]
    measurement.apply(WindowRetried(2.2, 2, 1, "", final=True))
    assert measurement.info(2.0)["stats"]["windowsRetried"] == 1


def test_containers_of_a_slot_that_is_lost_have_no_process_until_another_one_reports():
    measurement = measured(*windows(1))
    assert [row["pid"] for row in measurement.containers(1.0)] == [7] * 3
    measurement.apply(SlotEvent(1.0, "lost", "slot 0 is lost", 0, "driver", 7))
    assert [(row["pid"], row["state"]) for row in measurement.containers(1.0)] == [(None, "PENDING")] * 3
    stats = measurement.info(1.0)["stats"]
    assert (stats["slotsLost"], stats["slotsRestarted"], stats["allocatedContainers"]) == (1, 0, 0)
    for event in (SlotEvent(1.0, "restarted", "slot 0 is there again", 0, "driver", 7), *begin(1), *burst(1)):
        measurement.apply(event)
    assert [row["pid"] for row in measurement.containers(2.0)] == [7] * 3
    assert measurement.info(2.0)["stats"]["slotsRestarted"] == 1
    assert measurement.summary()["slotsLost"] == 1


def test_slots_that_were_late_are_counted_and_have_not_failed():
    measurement = measured(*windows(1), SlotEvent(1.0, "speculated", "slot 0 took 300 ms", 0, "driver", 7))
    measurement.apply(WindowRetried(1.2, 1, 1, "slot 2 has what slot 0 was late with, or has lost"))
    stats = measurement.info(1.0)["stats"]
    assert (stats["slotsSpeculated"], stats["slotsLost"], stats["windowsRetried"]) == (1, 0, 1)
    assert [row["failureCount"] for row in measurement.operators(2.0)] == [0] * 3


def test_a_long_window_shows_who_works_and_who_is_silent():
    measurement = measured(*windows(3), *begin(3), heartbeat(5.0, 0, 1, "running", stack="in read"))

    assert [row["status"] for row in measurement.operators(5.0)] == ["ACTIVE", "WAITING", "WAITING"]
    assert measurement.container(5.0, 0)["state"] == "RUNNING"
    assert measurement.container(5.0, 0)["stack"] == "in read"
    assert measurement.operator(5.0, 1)["currentWindowId"] == 3
    measurement.apply(heartbeat(6.0, 1, 2, "running"))
    assert measurement.operator(6.0, 1)["status"] == "DONE"  # its stage is over, since the next one has begun
    assert measurement.operator(6.0, 3)["status"] == "WAITING"
    assert measurement.operator(35.9, 2)["status"] == "ACTIVE"
    assert measurement.operator(36.1, 2)["status"] == "SILENT"
    assert measurement.container(36.1, 1)["state"] == "SILENT"
    assert measurement.container(36.1, 0)["state"] == "IDLE"
    measurement.apply(heartbeat(37.0, 1, 2, "running"))
    assert measurement.container(37.0, 1)["state"] == "RUNNING"
    for event in burst(3):
        measurement.apply(event)
    assert [row["status"] for row in measurement.operators(39.0)] == ["ACTIVE"] * 3
    assert [row["state"] for row in measurement.containers(39.0)] == ["IDLE"] * 3


def test_heartbeats_of_another_attempt_say_only_what_time_it_is():
    others = heartbeat(5.0, 0, 1, "running", window=2), heartbeat(5.0, 0, 1, "running", attempt=1)
    measurement = measured(*windows(3), *begin(3), *others)
    assert measurement.container(5.0, 0)["state"] == "IDLE"
    assert measurement.info(5.0)["stats"]["heartbeatsReceived"] == 2


def test_rejected_heartbeats_are_counted_by_reason():
    said = (("malformed", 3), ("late", 1), ("malformed", 1))
    stats = measured(*(MessagesRefused(1.0, why, count=count) for why, count in said)).info(3.0)["stats"]
    assert stats["messagesRefused"] == 5
    assert stats["messagesRefusedByReason"] == {"malformed": 4, "late": 1}


def test_windows_behind_are_those_that_should_be_over():
    measurement = measured(*windows(3), *begin(3))
    for now, behind in ((3.0, 0), (3.9, 0), (4.1, 1), (6.5, 3)):
        assert [row["windowsBehind"] for row in measurement.latency(now)["operators"]] == [behind] * 3
    for event in burst(3):
        measurement.apply(event)
    assert measurement.operator(6.5, 2)["windowsBehind"] == 2
    measurement.apply(ApplicationEnded(6.5, "stopped"))
    assert measurement.operator(99.0, 2)["windowsBehind"] == 0


def test_a_host_whose_clock_is_ahead_is_corrected_and_the_own_one_is_never():
    ahead = measured(*windows(12, host="other", offset=0.25))
    own = measured(*windows(12))

    assert ahead.info(12.0)["stats"]["clockSkew"] == {"other": pytest.approx(-250.0)}
    assert own.info(12.0)["stats"]["clockSkew"] == {}
    assert Measurement("here")._clocks.own_host == "here"


def test_sparks_account_of_a_window_comes_after_it_and_changes_its_head():
    measurement = measured(*windows(3))
    assert measurement.windows()[1]["latencyMs"] == pytest.approx(550.0)

    measurement.apply(SparkTrigger(1.7, 1, 0.8, {"latestOffset": 0.05, "queryPlanning": 0.1}))
    measurement.apply(SparkTrigger(9.0, 99, 0.8, {}))  # of a window that is not known (any more)

    assert [row["latencyMs"] for row in measurement.windows()] == pytest.approx([550.0, 750.0, 550.0])
    blame = {step["what"]: step["ms"] for step in measurement.critical_path(1)["blame"]}
    assert blame["offsets"] == pytest.approx(50.0)
    assert sum(step["ms"] for step in measurement.critical_path(1)["blame"]) == pytest.approx(750.0)
    assert measurement.info(3.0)["stats"]["windowsCommitted"] == 3


def test_ages_at_commit_have_the_time_to_the_commit_on_top():
    ages = (age("emit"), age("commit"))
    for offset, host in ((0.0, "driver"), (0.25, "other")):
        measurement = measured(*windows(6, ages=ages, host=host, offset=offset))
        emit, commit = measurement.record_age(6.0, "write")["operators"]
        # The host's clock is ahead by the offset, so were its ages; write ends at 0.4 s, the commit is at
        # 0.55 s.
        ahead = offset * 1e3
        assert (emit["at"], emit["count"]) == ("emit", 12)
        found = [emit[name] for name in ("minMs", "maxMs", "avgMs")]
        assert found == pytest.approx([1000 - ahead, 3000 - ahead, 2000 - ahead], abs=1)
        found = [commit[name] for name in ("minMs", "maxMs", "oldestMs")]
        assert found == pytest.approx([1150 - ahead, 3150 - ahead, 3150 - ahead], abs=1)
    assert measurement.record_age(6.0, "read") == {"operators": [], "fromNewestRecord": False}
    silent = measurement.record_age(300.0)["operators"]
    assert [(row["count"], row["maxMs"]) for row in silent] == [(0, None), (0, None)]
    assert [(node.title, place, totals.counts[-1]) for node, place, totals in measurement.age_totals()] == [
        ("write", "emit", 12),
        ("write", "commit", 12),
    ]


def test_progress_of_sources_is_folded_with_its_window_or_after_it():
    measurement = measured(*begin(0), SourceProgress(0.6, 0, 1, 10.0, 90.0))
    assert measurement.progress(1.0)["sources"][0]["backlogRecords"] is None
    for event in burst(0):
        measurement.apply(event)
    assert measurement.progress(1.0)["sources"][0]["backlogRecords"] == 90.0
    measurement.apply(SourceProgress(1.1, 0, 1, 10.0, 80.0, whole=True))
    assert measurement.progress(1.2)["sources"][0]["backlogRecords"] == 80.0


def test_nothing_waits_once_all_inputs_have_given_everything():
    waits = SourceProgress(2.1, 2, 1, 10.0, 80.0, whole=True)
    for outcome, left in (("stopped", 80.0), ("finished", 0.0)):
        measurement = measured(*windows(3), waits, ApplicationEnded(3.0, outcome))
        source = measurement.progress(99.0)["sources"][0]
        assert source["backlogRecords"] == left
        assert (source["verdict"] == "keeping up") == (outcome == "finished")


def test_an_application_that_is_over_is_answered_for_as_of_its_end():
    measurement = measured(*windows(3), ApplicationEnded(3.0, "finished"))
    assert measurement.info(1000.0) == measurement.info(3.0)
    assert measurement.info(3.0)["state"] == "FINISHED"
    assert {row["status"] for row in measurement.operators(1000.0)} == {"INACTIVE"}
    why = "operator `sum` (partition 0) of application `app` failed in window 0 in `setup`: no"
    failed = measured(ApplicationEnded(3.0, "failed", why))
    assert (failed.info(3.0)["state"], failed.operator(3.0, 2)["failureCount"]) == ("FAILED", 1)


def test_a_new_plan_forgets_operators_that_vanished_and_keeps_the_others():
    read, double, write = chain("read", "double", "write").operators
    streams = (StreamEdge("s1", 1, "output", 7, "input"), StreamEdge("s2", 7, "output", 3, "input"))
    other = Topology((read, dataclasses.replace(double, id=7), write), streams)
    measurement = measured(*windows(3))

    measurement.apply(planned(other, at=3.0, version=1))

    rows = measurement.operators(3.0)
    assert [row["totalTuplesEmitted"] + row["totalTuplesProcessed"] for row in rows] == [30, 0, 30]
    assert measurement.operator(3.0, 7)["status"] == "PENDING"
    for event in [*begin(3), *burst(3, topology=other)]:
        measurement.apply(event)
    assert measurement.operator(4.0, 7)["totalTuplesProcessed"] == 10
    assert [step["operator"] for step in measurement.critical_path()["path"]] == ["read", "double", "write"]
    with pytest.raises(KeyError, match="`sum` is not an operator of this application"):
        measurement.record_age(4.0, "sum")


def test_what_does_not_exist_is_named_with_what_does():
    measurement = measured(*windows(2))
    with pytest.raises(KeyError, match="there is no operator 9; there are 1, 2, 3"):
        measurement.operator(2.0, 9)
    with pytest.raises(KeyError, match="there is no container 9; there are 0, 1, 2"):
        measurement.container(2.0, 9)
    with pytest.raises(
        KeyError, match=r"`summ` is not an operator of this application; did you mean `sum`\?"
    ):
        measurement.record_age(2.0, "summ")
    with pytest.raises(KeyError, match="window 5 is not known; kept are 0 to 1"):
        measurement.window(5)


def test_errors_drops_and_state_are_kept_per_operator():
    def wrong(own):
        if own.operator != 2:
            return own
        state = {"state_bytes": 70, "state_seconds": 0.5, "state_written": 7.0, "write_seconds": 0.25}
        taken = {"words": 4, "stops": 2}
        return dataclasses.replace(
            own, errors=2, error_tuples=("x",), dropped="why", tuples_in=taken, **state
        )

    def spoil(event):
        return changed(event, wrong) if isinstance(event, WindowReported) else event

    row = measured(*map(spoil, windows(3))).operator(3.0, 2)
    assert (row["lastStateWritten"], row["lastStateSeconds"]) == (7.0, 0.75)
    assert (row["errors"], row["errorTuples"], row["droppedWindows"]) == (6, ["x"], 3)
    assert (row["stateBytes"], row["queueSizeMA"]) == (70, 6)
    queues = {port["name"]: port["queueSizeMA"] for port in row["ports"] if port["type"] == "input"}
    assert (queues["words"], queues["stops"]) == (4, 2)


def rounded(value):
    """An answer whose sums do not depend on the order of additions."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    return round(value, 9) if isinstance(value, float) else value


def answers(measurement):
    now = measurement.at
    return rounded(
        [
            *(measurement.overview(now), measurement.windows(), measurement.summary()),
            *(measurement.application_history(now), measurement.operator_history(now, "sum")),
            [
                (total.latency.counts, total.latency.total, total.compute)
                for _, total in measurement.latency_totals()
            ],
            sorted(measurement.window_totals().blame.items()),
        ]
    )


def test_it_makes_no_difference_when_it_is_asked():
    events = windows(40, ages=(age("commit"),))
    events[90:90] = [SparkTrigger(events[89].at, 20, 19.99, {"latestOffset": 0.005})]
    asked = measured()
    for event in events:
        asked.apply(event)
        asked.windows(1)
    assert answers(measured(*events)) == answers(asked)
