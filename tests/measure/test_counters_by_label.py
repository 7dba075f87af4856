"""Counters of large plans, by label, are what a plain loop counts in all reports: they never fall."""

import random
from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import replace

import pytest

from ridgeline.measure import topology as topologies
from ridgeline.measure.age.record_age import AGE_BOUNDS_SECONDS
from ridgeline.measure.events import (
    AgeSample,
    ApplicationPlanned,
    ContainerWindow,
    OperatorWindow,
    WatermarkReading,
    WindowCommitted,
    WindowPlanned,
    WindowRetried,
    WindowStarted,
)
from ridgeline.measure.registry.labels import LATENCY_BOUNDS_SECONDS
from ridgeline.observe.watch import Watch
from ridgeline.service.export.readings import Readings
from support.depth import DEPTH
from support.measure.partitioned import Plan

ROUNDS = int(20 * DEPTH)
TIMES = ("latency", "compute", "cpu", "wait", "transfer")


class Changing:
    """Plans of one run: an operator whose partitions change gets other ids, as its unifiers do."""

    def __init__(self):
        self._ids = {}
        self._next = 10

    def topology(self, partitions):
        """The plan in which operators have so many partitions, one operator after the other."""
        plan, before = Plan(), []
        for number, count in enumerate(partitions):
            last = number == len(partitions) - 1
            kind = "input" if not number else "output" if last else "operator"
            plan.operator(f"o{number}", count, before, kind)
            before = [(f"o{number}", False)]
        found = plan.topology
        ids = {node.id: self._id(node, partitions) for node in found.operators}
        nodes = tuple(
            replace(node, id=ids[node.id], partitions=len(plan.partitions[node.name]))
            for node in found.operators
        )
        streams = tuple(replace(one, source=ids[one.source], sink=ids[one.sink]) for one in found.streams)
        return replace(found, operators=nodes, streams=streams)

    def _id(self, node, partitions):
        number = int(node.name[1:])
        key = (node.title, node.partition, tuple(partitions[number : number + 1 + node.unifier]))
        if key not in self._ids:
            self._ids[key], self._next = self._next, self._next + 1
        return self._ids[key]


class Loop:
    """Counts by label, a report at a time."""

    def __init__(self):
        self.counts = defaultdict(Counter)
        self.ages = defaultdict(list)

    def add(self, node, event):
        """A report of a window that counts."""
        own = self.counts[node.label]
        for port, tuples in event.tuples_in.items():
            own["in", port] += tuples
        for port, tuples in event.tuples_out.items():
            own["out", port] += tuples
        own["errors"] += event.errors
        own["dropped"] += bool(event.dropped)
        own["late"] += event.late
        own["ahead"] += event.watermark.ahead
        for sample in event.ages:
            self.ages[node.label, sample.place].append(sample)

    def add_times(self, rows):
        """The latencies of all operators in a window, as the run's own small answer has them."""
        for row in rows:
            if row["latencyMs"] is None:
                continue
            own = self.counts[row["operator"].partition("[")[0]]
            own["bucket", bisect_left(LATENCY_BOUNDS_SECONDS, row["latencyMs"] / 1000)] += 1
            for name in TIMES:
                own[name] += row[f"{name}Ms"] / 1000


def report(draw, window, node):
    began, seconds = window + 0.1 * node.stage, draw.uniform(0.0, 0.05)
    event = OperatorWindow(
        window + 0.8, window, 0, node.id, node.container, "h0", began, began + seconds, seconds, 0.0, 0.0,
        {"in0": draw.randrange(100)} if node.kind != "input" else {},
        {"out": draw.randrange(100)} if node.kind != "output" else {},
    )  # fmt: skip
    event.cpu_seconds = seconds / 2
    event.queue, event.state_bytes = draw.randrange(9), draw.randrange(100)
    event.errors, event.late = draw.randrange(3), draw.randrange(3)
    event.dropped = draw.choice(["", "", "it raised"])
    event.watermark = WatermarkReading(1, 1, draw.random() < 0.2, draw.randrange(3))
    if not node.unifier and draw.random() < 0.8:
        age = draw.uniform(0.01, 400.0)
        several = draw.randrange(1, 9)
        event.ages = (
            AgeSample("state", "INFO", several, 0, age, age, several * age, age, ((0, several),), base=age),
        )
    return event


def committed_window(draw, window, topology, loop):
    at = float(window)
    yield WindowPlanned(at, window, 0, at)
    yield WindowStarted(at, window, 0)
    for container, operators in topology.containers.items():
        began = window + 0.1 * topology.stage_of[container]
        times = [began, began, began, began + 0.06, began + 0.07, began + 0.08]
        yield ContainerWindow(at + 0.8, window, 0, container, "h0", 1, f"t{container}", *times)
        for number in operators:
            node = topology.by_id[number]
            event = report(draw, window, node)
            loop.add(node, event)
            yield event
    yield WindowCommitted(at + 0.9, window, 1, at, at, at, at + 0.8, at + 0.8, at + 0.85, at + 0.9)
    for label, place in list(loop.ages):
        if label not in topology.labels:  # the ages of an operator go with it: it has no series any more
            del loop.ages[label, place]


def failed_window(draw, window, topology, loop):
    """A window of a plan that is taken back: an operator has failed."""
    node = draw.choice([node for node in topology.operators if not node.unifier])
    yield WindowPlanned(window, window, 0, window)
    yield WindowStarted(window, window, 0)
    loop.counts[node.label]["failures"] += 1
    text = f"operator `{node.name}` (partition {node.partition}) of application x"
    yield WindowRetried(window + 0.85, window, 0, text)


def run(draw, loop, small):
    """Groups of events; between two of them metrics may be read. `small`: answers by operator."""
    plans, window, version = Changing(), 0, 0
    partitions = [draw.randint(1, 4) for _ in range(draw.randint(2, 4))]

    def planned(counts):
        return ApplicationPlanned(float(window), "app", "app-1", version, 1.0, plans.topology(counts), {}, {})

    yield [planned(partitions)]
    for _ in range(draw.randint(2, 5)):
        for _ in range(draw.randint(1, 3)):
            yield list(committed_window(draw, window, plans.topology(partitions), loop))
            loop.add_times(small.latency(window)["operators"])
            window += 1
        other, version = list(partitions), version + 1
        other[draw.randrange(len(other))] = draw.randint(1, 4)
        if draw.random() < 0.3:
            other = other[:-1] if len(other) > 2 else [*other, 2]
        yield [planned(other)]
        if draw.random() < 0.4:
            yield list(failed_window(draw, window, plans.topology(other), loop))
            version += 1
            yield [planned(partitions)]
        else:
            partitions = other
    yield list(committed_window(draw, window, plans.topology(partitions), loop))
    loop.add_times(small.latency(window)["operators"])


def counters(readings):
    """Counters and histograms by metric and labels without the application's."""
    return {
        (metric.name, labels[1:]): value
        for metric, samples in readings.read()[1]
        for labels, value in samples
        if metric.name.endswith("_total") or metric.bounds
    }


def expected(loop, label):
    """What the loop has counted of one label, by metric and what follows the label `partition`."""
    own = loop.counts[label]
    found = {("operator_records_rejected_total",): own["errors"]}
    found["operator_windows_dropped_total",] = own["dropped"]
    found["operator_failures_total",] = own["failures"]
    found["records_late_total",] = own["late"]
    found["records_ahead_total",] = own["ahead"]
    for name in TIMES[1:]:
        found[f"operator_{name}_seconds_total",] = own[name]
    return found


def check(samples, loop, topology):
    """All counters by label are what the loop has counted."""
    for label in topology.labels:
        for (name, *rest), value in expected(loop, label).items():
            if (name, (label, "", *rest)) in samples:  # without a mark there is no row
                found = samples[name, (label, "", *rest)]
                assert found == pytest.approx(value, abs=1e-6), (name, label)  # rows are rounded
        own = loop.counts[label]
        for node in (one for one in topology.operators if one.label == label):
            for port in node.outputs:
                found = samples["operator_records_out_total", (label, "", port)]
                assert found == own["out", port], (label, port)
        distribution = samples["operator_window_latency_seconds", (label, "")]
        counts = [own["bucket", number] for number in range(len(LATENCY_BOUNDS_SECONDS) + 1)]
        assert distribution.counts == tuple(sum(counts[: one + 1]) for one in range(len(counts))), label
        assert distribution.total == pytest.approx(own["latency"], abs=1e-6)
        ages = loop.ages[label, "state"]
        if ages:
            found = samples["record_latency_seconds", (label, "", "state")]
            assert found.counts[-1] == sum(one.count for one in ages), label
            assert found.total == pytest.approx(sum(one.total for one in ages))
            below = sum(one.count for one in ages if one.maximum < 0.9 * AGE_BOUNDS_SECONDS[-3])
            assert found.counts[-3] >= below


@pytest.fixture
def sums(monkeypatch):
    """Plans of a few operators are summed."""
    monkeypatch.setattr(topologies, "MOST_ROWS", 1)


def values_of(value):
    return (value,) if isinstance(value, int | float) else (*value.counts, value.total)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_counters_have_all_partitions_that_there_ever_were(sums, seed):
    draw, loop, clock = random.Random(seed), Loop(), [0.0]
    watch = Watch(lambda: clock[0], "h0")
    seldom, reading, before = Readings(watch), Readings(watch), {}
    for events in run(draw, loop, watch):
        for event in events:
            clock[0] = max(clock[0], event.at)
            watch.observe(event)
        if draw.random() < 0.3:  # what happens between two readings counts as well
            continue
        samples = counters(reading)
        for key, value in before.items():
            for was, now in zip(values_of(value), values_of(samples.get(key, value)), strict=True):
                assert now >= was, key
        before = samples
    assert watch.windows()
    check(counters(reading), loop, watch.topology)
    assert counters(seldom) == counters(reading)
    averages = defaultdict(Counter)
    for row in watch.operators():
        for name in ("queueSizeMA", "cpuPercentageMA", "stateBytes"):
            averages[row["operator"].partition("[")[0]][name] += row[name] or 0
    for row in watch.overview()["operators"]:
        for name, value in averages[row["operator"]].items():
            assert (row[name] or 0) == pytest.approx(value), (name, row["operator"])
