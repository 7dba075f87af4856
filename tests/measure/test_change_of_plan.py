"""The plan changes while the application runs: every answer goes on, as computed by hand."""

from dataclasses import replace

import pytest

from ridgeline.measure.events import (
    ApplicationChanged,
    ContainerHeartbeat,
    RunningOperator,
    SourceAsked,
    StateCompacted,
)
from ridgeline.measure.measurement import Measurement
from support.measure.changing import COUNT, IDS, READ, TUPLES, UNIFY, WINDOWS, WRITE, plan, run, window

NOW = 3 * WINDOWS - 1 + 0.5


def folded(events):
    measurement = Measurement()
    for event in events:
        measurement.apply(event)
    return measurement


@pytest.fixture(scope="module")
def over():
    """After three plans."""
    return folded(run())


def ms(seconds):
    return pytest.approx(1000 * seconds, abs=0.01)


def test_tuples_go_on_by_partition_and_by_name(over):
    rows = {row["operator"]: row for row in over.operators(NOW)}
    # Partition 0 had 12 tuples a window as the only one, then 4, then 6; partition 1 had none at first.
    assert rows["count[0]"]["totalTuplesProcessed"] == WINDOWS * (12 + 4 + 6)
    assert rows["count[1]"]["totalTuplesProcessed"] == WINDOWS * (0 + 4 + 6)
    assert rows["read"]["totalTuplesEmitted"] == 3 * WINDOWS * TUPLES
    assert rows["count[0]"]["tuplesProcessedPSMA"] == pytest.approx(6, rel=0.02)
    assert rows["read"]["tuplesEmittedPSMA"] == pytest.approx(12, rel=0.02)
    totals = over.operator_totals()
    assert totals["count"]["tuplesIn"] == totals["write"]["tuplesIn"] == 3 * WINDOWS * TUPLES
    assert totals["count.output#unifier"]["tuplesIn"] == 2 * WINDOWS * TUPLES
    stats = over.info(NOW)["stats"]
    assert stats["totalTuplesProcessed"] == sum(row["tuplesIn"] for row in totals.values())
    assert stats["totalTuplesProcessed"] == WINDOWS * TUPLES * (3 + 3 + 2 + 1)
    counts = [row["totalTuplesProcessed"] for row in rows.values() if row["logicalName"] == "count"]
    assert counts == [WINDOWS * 22, WINDOWS * 10, 2 * WINDOWS * TUPLES]


def test_the_summary_has_what_is_gone_last(over):
    summary = over.summary()
    rows = {row["operator"]: row for row in summary["operators"]}
    assert [(name, row["partitions"], row["windows"]) for name, row in rows.items()] == [
        ("read", 1, 12),
        ("count", 2, 12),
        ("count.output#unifier", 1, 8),
        ("write", 1, 12),
        ("audit", 0, 4),
    ]
    slowest = sum(WINDOWS * max(seconds) for seconds in COUNT.values())
    assert rows["count"]["seconds"] == pytest.approx(slowest)
    assert rows["count"]["errors"] == WINDOWS * (1 + 3 + 2)
    assert rows["audit"]["tuplesIn"] == WINDOWS * TUPLES
    assert summary["windows"] == 12
    assert summary["fractionDone"] == pytest.approx(144 / 1200)


def test_latencies_of_logical_operators_go_on(over):
    answer = over.latency(NOW)
    rows = {row["operator"]: row for row in answer["logical"]}
    # With its unifier: 60 ms, then 30 + 5, then 35 + 5, four windows each.
    assert rows["count"]["latencyMs"] == ms(0.040)
    assert rows["count"]["p50Ms"] == pytest.approx(40, rel=0.01)
    assert rows["count"]["p99Ms"] == pytest.approx(60, rel=0.01)
    assert rows["read"]["p99Ms"] == pytest.approx(1000 * READ, rel=0.01)
    physical = {row["operator"]: row for row in answer["operators"]}
    assert physical["count[0]"]["latencyMs"] == ms(0.035)
    assert physical["count[0]"]["averageMs"] == ms(0.035)
    assert physical["count[0]"]["p99Ms"] == pytest.approx(35, rel=0.01)  # its own: it is another operator
    assert {row["windowsBehind"] for row in answer["operators"]} == {0}


def test_a_window_of_a_plan_before_is_answered_for_with_that_plan(over):
    first, second = over.window(0), over.window(WINDOWS)
    assert [row["operator"] for row in first["operators"]] == list(IDS[1])
    assert [row["operator"] for row in second["operators"]] == list(IDS[2])
    assert [row["planVersion"] for row in over.windows()] == [1] * 4 + [2] * 4 + [3] * 4
    assert {row["operator"]: row["latencyMs"] for row in second["operators"]}["count[1]"] == ms(0.030)
    path = over.critical_path(WINDOWS)
    titles = ["read", "count[1]", "count.output#unifier", "write"]
    assert [step["operator"] for step in path["path"]] == titles
    assert path["latencyMs"] == ms(READ + 0.030 + UNIFY + WRITE)
    assert path["slack"] == pytest.approx({"count[0]": 10.0, "count[2]": 5.0, "audit": 37.0})


def test_shares_of_the_critical_path_go_on_by_name(over):
    answer = over.critical_path()
    assert answer["share"] == {
        "read": 1.0,
        "count[0]": pytest.approx(4 / 12),
        "count.output#unifier": pytest.approx(4 / 12),
        "write": 1.0,
    }
    assert answer["logicalShare"] == {"read": 1.0, "count": 1.0, "write": 1.0}
    assert answer["average"]["path"] == ["read", "count[0]", "count.output#unifier", "write"]
    assert sum(step["ms"] for step in answer["blame"]) == pytest.approx(answer["windowLatencyMs"])
    assert answer["latencyMs"] == ms(READ + 0.035 + UNIFY + WRITE)


def test_record_ages_go_on_with_partitions_and_names(over):
    rows = [row for row in over.record_age(NOW, "count")["operators"] if row["at"] == "state"]
    assert [row["operator"] for row in rows] == ["count[0]", "count[1]"]
    assert [row["count"] for row in rows] == [
        12,
        8,
    ]  # a record in each window, none of partition 2, which is gone
    assert [(row["minMs"], row["maxMs"]) for row in rows] == [
        pytest.approx((1000, 1000)),
        pytest.approx((2000, 2000)),
    ]
    totals = {(node.title, place): found for node, place, found in over.age_totals()}
    assert totals["count[0]", "state"].counts[-1] == 12  # a counter does not jump
    assert totals["count[1]", "state"].counts[-1] == 8
    assert [totals["write", place].counts[-1] for place in ("commit", "publish")] == [12, 12]
    assert not any(title == "audit" for title, _ in totals)


def test_backlog_goes_on(over):
    (source,) = over.progress(NOW)["sources"]
    assert source["backlogRecords"] == 1200 - 144
    assert source["drainPerSecond"] == pytest.approx(12, rel=0.01)
    assert source["verdict"] == "catching up"
    assert source["caughtUpAt"] is None  # three windows of the new plan are too few to foretell


def test_own_metrics_go_on_by_operator(over):
    hits, keys = over.own_metrics.all()
    assert hits["total"] == 3 * WINDOWS * TUPLES
    assert hits["partitionTotals"] == [WINDOWS * 22, WINDOWS * 10]
    assert hits["partitions"] == [6, 6]
    assert keys["total"] == 1200  # what is cumulative has moved with the state
    assert keys["partitionTotals"] == [600, 600]
    assert len(over.own_metrics.history("count", "hits")["windows"]) == 12
    with pytest.raises(KeyError, match="`audit` declares no metrics"):
        over.own_metrics.all("audit")


def test_an_operator_that_comes_late_is_not_behind():
    events = run(2)
    until = next(number for number, event in enumerate(events) if getattr(event, "plan_version", 0) == 2)
    measurement = folded(events[: until + 1])
    assert measurement.windows_behind(4.5)[14] == measurement.windows_behind(4.5)[1] == 0
    assert measurement.windows_behind(9.5)[14] == measurement.windows_behind(9.5)[1] == 5


def test_ids_of_a_plan_that_was_taken_back_may_belong_to_others_later():
    events = [*run(2), plan(3, 8.0), plan(2, 8.2), plan(3, 8.4), *window(8, 3, 8.5)]
    rows = {row["operator"]: row for row in folded(events).operators(9.0)}
    assert rows["count[0]"]["totalTuplesProcessed"] == WINDOWS * 16 + 6
    assert rows["count[1]"]["totalTuplesProcessed"] == WINDOWS * 4 + 6


def test_late_events_of_operators_that_are_gone_change_nothing():
    measurement, other = folded(run()), folded(run())
    late = [
        ContainerHeartbeat(NOW, 114, "driver", 7, NOW, 11, 0, NOW, (RunningOperator(14, "running"),)),
        SourceAsked(NOW, 7, 14, 5.0, 0.0, 3.0),
        StateCompacted(NOW, 14, 3, 100),
        *window(12, 2, NOW)[2:-1],
    ]
    for event in late:
        measurement.apply(event)
    assert [row["operator"] for row in measurement.operators(NOW)] == list(IDS[3])
    for name in ("operators", "record_age", "watermarks"):
        assert getattr(measurement, name)(NOW) == getattr(other, name)(NOW), name


def test_nobody_is_behind_while_the_application_is_paused():
    measurement = folded(run(1))
    asked = ApplicationChanged(3.6, 1, "ann", "", "pause", "APPLIED", 4)
    before = measurement.progress(3.6)["application"]["verdict"]
    measurement.apply(asked)
    assert measurement.info(60.0)["state"] == "PAUSED"
    assert set(measurement.windows_behind(60.0).values()) == {0}
    assert measurement.progress(60.0)["application"]["verdict"] == before == "catching up"
    assert measurement.operators(60.0)[0]["tuplesEmittedPSMA"] == 0
    measurement.apply(replace(asked, at=60.0, number=2, what="resume"))
    for event in window(4, 1, 60.0):
        measurement.apply(event)
    assert measurement.info(60.5)["state"] == "RUNNING"
    assert set(measurement.windows_behind(60.5).values()) == {0}
