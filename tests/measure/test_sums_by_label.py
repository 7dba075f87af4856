"""The rows of logical operators, made from arrays, are what a plain loop makes of those of all operators."""

import random
from collections import defaultdict
from dataclasses import replace

import pytest

from ridgeline.measure import topology as topologies
from ridgeline.measure.events import (
    ApplicationPlanned,
    ContainerHeartbeat,
    ContainerWindow,
    OperatorWindow,
    RunningOperator,
    WatermarkReading,
    WindowCommitted,
    WindowPlanned,
    WindowRetried,
    WindowStarted,
)
from ridgeline.measure.measurement import Measurement
from ridgeline.measure.wording.times import logical_name
from support.depth import DEPTH
from support.measure.partitioned import Plan

ROUNDS = int(12 * DEPTH)
STATUSES = ("SILENT", "ACTIVE", "WAITING", "DONE", "PENDING", "INACTIVE")


@pytest.fixture(autouse=True)
def sums(monkeypatch):
    """Plans of a few operators are summed."""
    monkeypatch.setattr(topologies, "MOST_ROWS", 1)


def random_plan(draw, first):
    """Some operators with partitions, one after the other; ids begin with `first`."""
    plan, before = Plan(), []
    for number in range(draw.randint(2, 4)):
        last = number and draw.random() < 0.5
        plan.operator(
            f"o{number}", draw.randint(1, 4), before, "operator" if number and not last else "output"
            if number else "input",
        )  # fmt: skip
        before = [(f"o{number}", draw.random() < 0.5)]
    topology = plan.topology
    nodes = tuple(
        replace(node, id=node.id + first, partitions=len(plan.partitions[node.name]))
        for node in topology.operators
    )
    streams = tuple(
        replace(one, source=one.source + first, sink=one.sink + first) for one in topology.streams
    )
    return replace(topology, operators=nodes, streams=streams)


def operator_window(draw, window, topology, number):
    node, at = topology.by_id[number], window + 0.8
    began, seconds = window + 0.1 * node.stage, draw.uniform(0.0, 0.05)
    event = OperatorWindow(
        at, window, 0, number, node.container, f"h{node.container % 2}", began, began + seconds, seconds, 0.0,
        0.0, {"in0": draw.randrange(100)} if node.kind != "input" else {},
        {"out": draw.randrange(100)} if node.kind != "output" else {},
    )  # fmt: skip
    event.cpu_seconds = draw.choice([None, seconds / 2])
    event.queue, event.errors, event.late = draw.randrange(9), draw.randrange(2), draw.randrange(2)
    event.state_bytes, event.held_bytes = draw.randrange(1000), draw.randrange(3)
    event.error_tuples = tuple(f"{number} {one}" for one in range(draw.choice([0, 0, 0, 7])))
    event.finished = draw.random() < 0.02
    if draw.random() < 0.8:
        left = draw.choice([1_000_000 * window, -(2**63), 2**63 - 1])
        event.watermark = WatermarkReading(left, left, draw.random() < 0.2, draw.randrange(2))
    return event


def one_window(draw, window, topology, *, some_missing):
    yield WindowPlanned(window, window, 0, window)
    yield WindowStarted(window, window, 0)
    for container, operators in topology.containers.items():
        if some_missing and draw.random() < 0.1:
            continue
        began = window + 0.1 * topology.stage_of[container]
        times = [began, began, began, began + 0.06, began + 0.07, began + 0.08]
        host = f"h{container % 2}"
        yield ContainerWindow(
            window + 0.8, window, 0, container, host, container % 3, f"t{container}", *times
        )
        for number in operators:
            yield operator_window(draw, window, topology, number)
    if draw.random() < 0.2:
        text = "operator `o1` (partition 0) of application x"
        yield WindowRetried(window + 0.85, window, 0, text)
    at = float(window)
    yield WindowCommitted(window + 0.9, window, 1, at, at, at, at + 0.8, at + 0.8, at + 0.85, at + 0.9)


def heartbeats(draw, window, topology):
    yield WindowPlanned(window, window, 0, window)
    yield WindowStarted(window, window, 0)
    for container, operators in topology.containers.items():
        if draw.random() < 0.7:
            reports = [
                RunningOperator(
                    number, draw.choice(["running", "done", "waiting"]), draw.random(),
                    {"in0": draw.randrange(9)}, {"in0": draw.randrange(9)},
                    produced={"out": draw.randrange(9)},
                )
                for number in operators
            ]  # fmt: skip
            at, host = window + draw.choice([0.1, 0.3]), f"h{container % 2}"
            yield ContainerHeartbeat(at, container, host, container % 3, at, window, 0, 0.0, reports)


def run_of(draw):
    """A run with one or two plans, and windows under way at its end, or not."""
    measurement, window, first = Measurement("h0"), 0, 10
    for version in range(draw.randint(1, 2)):
        topology, first = random_plan(draw, first), first + 100
        measurement.apply(
            ApplicationPlanned(
                float(window), "app", "app-1", version, draw.choice([0.0, 1.0]), topology, {}, {}
            )
        )
        for _ in range(draw.choice([0, 1, 3, 13])):
            for event in one_window(draw, window, topology, some_missing=version == 0):
                measurement.apply(event)
            window += 1
    if draw.random() < 0.7:
        for event in heartbeats(draw, window, topology):
            measurement.apply(event)
    return measurement, window + draw.choice([0.5, 2.5, 60.0])


def by_label(rows, name="operator"):
    groups = defaultdict(list)
    for row in rows:
        groups[logical_name(row[name])].append(row)
    return groups


def present(rows, name, join):
    found = [row[name] for row in rows if row[name] is not None]
    return join(found) if found else None


JOINED = {
    "currentWindowId": min, "recoveryWindowId": min, "lastHeartbeat": min, "windowsBehind": max,
    "totalTuplesProcessed": sum, "totalTuplesEmitted": sum, "tuplesProcessedPSMA": sum,
    "tuplesEmittedPSMA": sum, "cpuPercentageMA": sum, "queueSizeMA": sum, "failureCount": sum,
    "stateBytes": sum, "heldBytes": sum, "errors": sum, "lateRecords": sum, "droppedWindows": sum,
    "latencyMs": max, "latencyMA": max,
}  # fmt: skip


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_rows_are_those_of_a_plain_loop(seed):
    measurement, now = run_of(random.Random(seed))
    rows, groups = measurement.overview(now)["operators"], by_label(measurement.operators(now))
    assert [row["operator"] for row in rows] == list(groups)
    for row in rows:
        several = groups[row["operator"]]
        expected = {name: present(several, name, join) for name, join in JOINED.items()}
        assert {name: row[name] for name in expected} == pytest.approx(expected), row["operator"]
        assert row["status"] == next(one for one in STATUSES if one in {each["status"] for each in several})
        assert row["errorTuples"] == [text for one in several for text in one["errorTuples"]][-10:]
        assert row["partitions"] == len(several)
        for name in ("host", "pid"):
            assert row[name] == (several[0][name] if len({one[name] for one in several}) == 1 else None)
        for port in row["ports"]:
            alike = [
                one for each in several for one in each["ports"]
                if (one["name"], one["type"]) == (port["name"], port["type"])
            ]  # fmt: skip
            for name in ("totalTuples", "tuplesPSMA"):
                assert port[name] == pytest.approx(sum(one[name] for one in alike))


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_the_rest_of_an_overview_is_that_of_all_operators(seed):
    measurement, now = run_of(random.Random(1_000 + seed))
    overview, info = measurement.overview(now), measurement.info(now)
    rates = ("tuplesProcessedPSMA", "tuplesEmittedPSMA")
    stats = [{**one["stats"], **dict.fromkeys(rates)} for one in (overview["info"], info)]
    assert stats[0] == stats[1]
    assert [overview["info"]["stats"][one] for one in rates] == pytest.approx(
        [info["stats"][one] for one in rates]
    )
    found, whole = overview["latency"], measurement.latency(now)
    groups = by_label(whole["operators"])
    for row in found["operators"]:
        several = groups[row["operator"]]
        assert row["latencyMs"] == present(several, "latencyMs", max)
        assert row["averageMs"] == present(several, "averageMs", max)
        assert row["estimated"] == any(one["estimated"] for one in several)
    for row, other in zip(found["logical"], whole["logical"], strict=True):
        assert row == pytest.approx(other), row["operator"]
    path, all_path = overview["criticalPath"], measurement.critical_path()
    assert [step["latencyMs"] for step in path["path"]] == [step["latencyMs"] for step in all_path["path"]]
    assert path["average"] == all_path["average"]
    on_path = {logical_name(step["operator"]) for step in all_path["path"]}
    least = {}
    for title, slack in all_path["slack"].items():
        if (label := logical_name(title)) not in on_path:
            least[label] = min(slack, least.get(label, slack))
    assert path["slack"] == pytest.approx(least)
    groups = by_label(measurement.progress(now)["operators"])
    for row in overview["progress"]["operators"]:
        several = groups[row["operator"]]
        for name in ("producedByPort", "consumedByPort"):
            summed = defaultdict(int)
            for one in several:
                for port, count in one[name].items():
                    summed[port] += count
            assert row[name] == summed
        oldest = defaultdict(list)
        for one in several:
            for port, at in one["oldestInFlight"].items():
                oldest[port].append(at)
        assert row["oldestInFlight"] == {port: min(times) for port, times in oldest.items()}


ORDER = ("finished", "idle", "running", "waiting")


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_watermarks_of_logical_operators_are_the_least(seed):
    measurement, now = run_of(random.Random(2_000 + seed))
    groups = by_label(measurement.watermarks(now)["operators"])
    rows = measurement.watermarks(now, together=True)["operators"]
    assert {row["operator"] for row in rows} == groups.keys()
    for row in rows:
        several = groups[row["operator"]]
        assert row["watermark"] == present(several, "watermark", min)
        assert row["lagSeconds"] == pytest.approx(present(several, "lagSeconds", max))
        assert row["state"] == max((one["state"] for one in several), key=ORDER.index)
        for name in ("lateRecords", "recordsAhead"):
            assert row[name] == sum(one[name] for one in several)
