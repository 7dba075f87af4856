"""An overview of very many operators has one row for each logical one: it says what all their rows say."""

import random
from collections import defaultdict

import numpy as np
import pytest

from ridgeline.measure.events import (
    AgeSample,
    ApplicationPlanned,
    ContainerHeartbeat,
    ContainerWindow,
    OperatorWindow,
    RunningOperator,
    SourceProgress,
    WindowCommitted,
    WindowPlanned,
    WindowRetried,
    WindowStarted,
)
from ridgeline.measure.measurement import Measurement
from ridgeline.measure.topology import MOST_ROWS, is_summed
from ridgeline.measure.wording.sentence import sentence_of
from ridgeline.measure.wording.times import logical_name
from support.measure.partitioned import Plan

WINDOWS = 3
PARTITIONS = 450


def large_plan():
    """2,250 partitions in chains, and unifiers before three partitions more."""
    plan = Plan()
    plan.operator("read", PARTITIONS, [], "input")
    for name, before in (("parse", "read"), ("keyed", "parse"), ("joined", "keyed"), ("checked", "joined")):
        plan.operator(name, PARTITIONS, [(before, True)], "operator")
    plan.operator("write", 3, [("checked", False)], "output")
    return plan.topology


def ages_of(draw, operator):
    """One age at `commit`, of writers; the buckets say how much older than the base they are."""
    if operator.kind != "output":
        return ()
    age = draw.uniform(0.01, 0.5)
    return (AgeSample("commit", "INFO", 10, 0, age, age, 10 * age, age, ((0, 10),), base=age),)


def window_events(topology, window, draw):
    """All that a run reports of a window: each container in turn, on two hosts."""
    at = float(window)
    yield WindowPlanned(at, window, 0, at)
    yield WindowStarted(at, window, 0)
    for container, operators in topology.containers.items():
        host, began = f"host{container % 2}", at + 0.1 * topology.stage_of[container]
        times = [began, began, began + 0.01, began + 0.06, began + 0.07, began + 0.08]
        yield ContainerWindow(at + 0.8, window, 0, container, host, container % 7, f"t{container}", *times)
        for number in operators:
            node = topology.by_id[number]
            seconds = draw.uniform(0.001, 0.02)
            event = OperatorWindow(
                at + 0.8, window, 0, number, container, host, began + 0.01, began + 0.01 + seconds, seconds,
                0.0, 0.0, {"in0": draw.randrange(100)} if node.kind != "input" else {},
                {"out": draw.randrange(100)} if node.kind != "output" else {},
            )  # fmt: skip
            event.cpu_seconds = seconds / 2
            event.queue, event.errors, event.late = draw.randrange(9), draw.randrange(2), draw.randrange(2)
            event.state_bytes, event.held_bytes = draw.randrange(1000), draw.randrange(10)
            event.error_tuples = (f"{number}",) if event.errors else ()
            event.ages = ages_of(draw, node)
            event.finished = draw.random() < 0.001
            yield event
            if node.kind == "input":
                yield SourceProgress(at + 0.8, window, number, 10.0 * (window + 1), 5.0)
    yield WindowCommitted(at + 0.9, window, 1, at, at, at, at + 0.8, at + 0.8, at + 0.85, at + 0.9)


@pytest.fixture(scope="module")
def measured():
    """Three windows, a failure, and heartbeats of the fourth."""
    topology, draw, measurement = large_plan(), random.Random(7), Measurement("host0")
    assert is_summed(topology)
    info = {"host": "host0", "name": "app"}
    events = [ApplicationPlanned(0.0, "app", "app-1", 0, 1.0, topology, {}, info)]
    for window in range(WINDOWS):
        events += window_events(topology, window, draw)
    events.append(
        WindowRetried(WINDOWS - 0.05, WINDOWS - 1, 0, "operator `keyed` (partition 3) of application x")
    )
    events += [WindowPlanned(WINDOWS, WINDOWS, 0, WINDOWS), WindowStarted(WINDOWS, WINDOWS, 0)]
    for container in list(topology.containers)[: 3 * PARTITIONS : 29]:
        reports = [
            RunningOperator(
                number,
                draw.choice(["running", "done"]),
                draw.random(),
                {"in0": draw.randrange(9)},
                {"in0": draw.randrange(9)},
                produced={"out": draw.randrange(9)},
            )
            for number in topology.containers[container]
        ]
        at, host = WINDOWS + 0.3, f"host{container % 2}"
        beat = ContainerHeartbeat(at, container, host, container % 7, at, WINDOWS, 0, 0.0, reports)
        events.append(beat)
    for event in events:
        measurement.apply(event)
    return measurement


NOW = WINDOWS + 0.5
SUMS = [
    "totalTuplesProcessed",
    "totalTuplesEmitted",
    "tuplesProcessedPSMA",
    "tuplesEmittedPSMA",
    "cpuPercentageMA",
    "failureCount",
    "stateBytes",
    "heldBytes",
    "errors",
    "lateRecords",
    "droppedWindows",
    "queueSizeMA",
]
GREATEST = ("windowsBehind", "latencyMs", "latencyMA")
LEAST = ("currentWindowId", "recoveryWindowId", "lastHeartbeat")
OF_THE_SLOWEST = ("computeMs", "cpuMs", "waitMs", "transferMs")
NOT_NUMBERS = {"errorTuples", "p50Ms", "p99Ms"}


def by_label(rows):
    groups = defaultdict(list)
    for row in rows:
        groups[logical_name(row["operator"])].append(row)
    return groups


def test_each_row_is_the_sum_of_the_rows_of_its_operators(measured):
    rows, groups = measured.overview(NOW)["operators"], by_label(measured.operators(NOW))
    assert [row["operator"] for row in rows] == list(groups)
    for row in rows:
        several = groups[row["operator"]]
        assert row["partitions"] == len(several)
        slowest = max(several, key=lambda one: one["latencyMs"])
        expected = {name: sum(one[name] for one in several) for name in SUMS}
        expected |= {name: max(one[name] for one in several) for name in GREATEST}
        expected |= {name: min(one[name] for one in several) for name in LEAST}
        expected |= {name: slowest[name] for name in OF_THE_SLOWEST}
        assert {name: row[name] for name in expected} == pytest.approx(expected), row["operator"]
        ports = defaultdict(int)
        for one in several:
            for port in one["ports"]:
                ports[port["name"]] += port["totalTuples"]
        assert {port["name"]: port["totalTuples"] for port in row["ports"]} == ports
        assert (row["id"], row["kind"], row["stage"]) == tuple(
            several[0][name] for name in ("id", "kind", "stage")
        )
        assert {row["status"]} <= {one["status"] for one in several}
        assert set(row["errorTuples"]) <= {text for one in several for text in one["errorTuples"]}


def test_no_metric_of_operators_is_forgotten(measured):
    assert len(measured.overview(NOW)["operators"]) < 10 < MOST_ROWS
    one, other = measured.overview(NOW)["operators"][0], measured.operators(NOW)[0]
    assert one.keys() == other.keys() | {"partitions"}
    numbers = {*SUMS, *GREATEST, *LEAST, *OF_THE_SLOWEST}
    assert numbers | NOT_NUMBERS <= one.keys()


def test_latencies_are_those_of_the_slowest_and_logical_rows_are_the_same(measured):
    found, whole = measured.overview(NOW)["latency"], measured.latency(NOW)
    groups = by_label(whole["operators"])
    for row in found["operators"]:
        slowest = max(groups[row["operator"]], key=lambda one: one["latencyMs"])
        names = ("latencyMs", "computeMs", "cpuMs", "waitMs", "transferMs")
        assert {name: row[name] for name in names} == pytest.approx({name: slowest[name] for name in names})
        assert row["averageMs"] == pytest.approx(max(one["averageMs"] for one in groups[row["operator"]]))
        assert row.keys() == slowest.keys()
    for row, other in zip(found["logical"], whole["logical"], strict=True):
        assert row == pytest.approx(other), row["operator"]


def test_the_critical_path_is_the_same_with_ids_of_rows(measured):
    overview, whole = measured.overview(NOW), measured.critical_path()
    path = overview["criticalPath"]
    ids = {row["id"] for row in overview["operators"]}
    assert [step["operator"] for step in path["path"]] == [step["operator"] for step in whole["path"]]
    assert {step["id"] for step in path["path"]} <= ids
    on_path = {logical_name(step["operator"]) for step in whole["path"]}
    least = {}
    for title, slack in whole["slack"].items():
        label = logical_name(title)
        if label not in on_path:
            least[label] = min(slack, least.get(label, slack))
    assert path["slack"] == pytest.approx(least)
    assert {name: path[name] for name in ("latencyMs", "blame", "explained", "logicalShare")} == {
        name: whole[name] for name in ("latencyMs", "blame", "explained", "logicalShare")
    }


def test_progress_adds_up(measured):
    found, whole = measured.overview(NOW)["progress"], measured.progress(NOW)
    groups = by_label(whole["operators"])
    assert [row["operator"] for row in found["operators"]] == list(groups)
    for row in found["operators"]:
        several = groups[row["operator"]]
        for name in ("consumed", "active", "produced", "secondsSpent"):
            assert row[name] == pytest.approx(sum(one[name] for one in several)), name
        states = {one["state"] for one in several}
        assert row["state"] in {*states, "running"}
        known = [one["remainingSeconds"]["value"] for one in several]
        if None not in known:
            assert row["remainingSeconds"]["value"] == pytest.approx(sum(known))
    assert {name: found[name] for name in found if name not in {"operators", "containers"}} == {
        name: whole[name] for name in whole if name not in {"operators", "containers"}
    }


def test_ages_are_those_of_all_records_of_an_operator(measured):
    (row,) = measured.overview(NOW)["recordAge"]["operators"]
    several = measured.record_age(NOW)["operators"]
    assert (row["operator"], row["at"], row["count"]) == (
        "write",
        "commit",
        sum(one["count"] for one in several),
    )
    assert row["minMs"] == pytest.approx(min(one["minMs"] for one in several))
    assert row["maxMs"] == pytest.approx(max(one["maxMs"] for one in several))
    average = np.average([one["avgMs"] for one in several], weights=[one["count"] for one in several])
    assert row["avgMs"] == pytest.approx(average)
    assert min(one["p50Ms"] for one in several) <= row["p50Ms"] <= max(one["p50Ms"] for one in several)


def test_the_sentence_is_the_one_of_a_full_overview(measured):
    overview = measured.overview(NOW)
    full = {**overview, "operators": measured.operators(NOW), "progress": measured.progress(NOW)}
    assert overview["together"]
    assert sentence_of(overview) == sentence_of(full)


def test_containers_that_are_silent_are_named_and_no_others(measured):
    assert measured.overview(NOW)["progress"]["containers"] == []
    later = NOW + 60
    silent = [row["id"] for row in measured.progress(later)["containers"] if row["silent"]]
    assert silent
    overview = measured.overview(later)
    assert [row["id"] for row in overview["progress"]["containers"]] == silent
    assert "SILENT" in {row["status"] for row in overview["operators"]}
