"""A run whose plan changes: `read` to `count` to `write`, `count` from 1 partition to 3 and to 2.

With the second plan `audit` comes, which reads what `read` emits; the third has it no more, and its stream
`counts` has another name. In every window `read` emits 12 tuples, on which `count` spends `BUSY` by version.
Stages follow each other at once, so nothing is transferred. All times are seconds.
"""

import itertools
from dataclasses import replace

import numpy as np

from ridgeline.measure.age.record_age import sample
from ridgeline.measure.events import (
    ApplicationChanged,
    ContainerWindow,
    OperatorMetrics,
    OperatorWindow,
    OutputPublished,
    SourceProgress,
    WatermarkReading,
    WindowCommitted,
    WindowPlanned,
    WindowStarted,
)
from ridgeline.measure.topology import MetricNode, OperatorNode, StreamEdge, Topology
from support.measure.reports import of_reports
from support.measure.story import planned

TUPLES = 12
READ, UNIFY, WRITE, AUDIT = 0.010, 0.005, 0.004, 0.002
COUNT = {1: (0.060,), 2: (0.020, 0.030, 0.025), 3: (0.035, 0.030)}
"""By the plan's version, what each partition of `count` takes."""
WINDOWS = 4
"""Of each plan."""
GAP = 0.25
"""So long no window runs for a change."""

IDS = {
    1: {"read": 1, "count": 2, "write": 3},
    # Neither dense nor in topological order.
    2: {
        "read": 1,
        "count[0]": 14,
        "count[1]": 9,
        "count[2]": 12,
        "count.output#unifier": 7,
        "write": 3,
        "audit": 11,
    },
    3: {"read": 1, "count[0]": 20, "count[1]": 17, "count.output#unifier": 25, "write": 3},
}
_STAGES = {"read": 0, "count": 1, "count.output#unifier": 2, "write": 3, "audit": 1}


def topology(version, *, partitions=None):
    """The plan of a version."""
    nodes, streams = [], []
    ids = IDS[version]
    counts = [title for title in ids if title.startswith("count") and "#" not in title]
    unifier = "count.output#unifier"
    for title, number in ids.items():
        label = title.partition("[")[0]
        partition = int(title[title.index("[") + 1 : -1]) if "[" in title else 0
        name = "count" if label == unifier else label
        nodes.append(
            OperatorNode(
                number,
                name,
                title,
                f"shop.{name.title()}" if label != unifier else "ridgeline.Unifier",
                partition,
                len(counts) if label == "count" else 1,
                unifier=label == unifier,
                kind={"read": "input", "write": "output", "audit": "output"}.get(name, "operator"),
                stateful=name == "count",
                container=number + 100,
                stage=_STAGES[label],
                inputs=() if name == "read" else ("input",),
                outputs=() if name in {"write", "audit"} else ("output",),
            )
        )
    stream = "counts" if version < 3 else "totals"
    for title in counts:
        streams.append(StreamEdge("quotes", 1, "output", ids[title], "input"))
        streams.append(StreamEdge(stream, ids[title], "output", ids.get(unifier, 3), "input"))
    if unifier in ids:
        streams.append(StreamEdge(stream, ids[unifier], "output", 3, "input"))
    if "audit" in ids:
        streams.append(StreamEdge("quotes", 1, "output", ids["audit"], "input"))
    metrics = (
        MetricNode("count", "hits", "counter", "sum", by_partition=True),
        MetricNode("count", "keys", "counter", "sum", cumulative=True, by_partition=True),
    )
    if version == 2:
        metrics = (*metrics, MetricNode("audit", "seen", "gauge", "sum"))
    return Topology(tuple(nodes), tuple(streams), metrics)


def plan(version, at):
    return planned(topology(version), at=at, version=version)


def busy(version):
    """By title, what an operator takes in a window."""
    found = {"read": READ, "write": WRITE, "audit": AUDIT, "count.output#unifier": UNIFY}
    for partition, seconds in enumerate(COUNT[version]):
        found[f"count[{partition}]" if len(COUNT[version]) > 1 else "count"] = seconds
    return {title: found[title] for title in IDS[version]}


def window(number, version, start):
    """A window under a plan, from its trigger to its commit, and when it is over."""
    plan = topology(version)
    seconds = busy(version)
    share = TUPLES // len(COUNT[version])
    events = [WindowPlanned(start, number, version, start), WindowStarted(start, number, 0)]
    reports, begin = [], start + 0.010
    stages = itertools.groupby(sorted(plan.operators, key=lambda node: node.stage), lambda node: node.stage)
    for _, members in stages:
        over = begin
        for node in members:
            end = begin + seconds[node.title]
            over = max(over, end)
            tuples, wrong = (share, 1) if node.label == "count" else (TUPLES, 0)
            times, spent = (begin, begin, begin, end, end, end), (begin, end, seconds[node.title], 0.0, 0.0)
            reports += [
                ContainerWindow(0.0, number, 0, node.container, "driver", 7, f"t{node.id}", *times),
                OperatorWindow(
                    *(0.0, number, 0, node.id, node.container, "driver", *spent),
                    {"input": tuples} if node.inputs else {},
                    {"output": tuples} if node.outputs else {},
                    errors=wrong,
                    ages=_ages(node, end),
                    watermark=WatermarkReading(round(start * 1e6), round(start * 1e6)),
                    late=wrong,
                ),
            ]
        begin = over
    at = begin + 0.001
    reports = [of_reports(*reports, at=at)]
    reports.append(SourceProgress(at, number, 1, 12.0 * (number + 1), 1200.0 - 12.0 * (number + 1)))
    parts = len(COUNT[version])
    keys = tuple({"hits": float(share), "keys": 100.0 * (number + 1) / parts} for _ in range(parts))
    reports.append(
        OperatorMetrics(at, number, "count", {"hits": float(TUPLES), "keys": 100.0 * (number + 1)}, keys)
    )
    if version == 2:
        reports.append(OperatorMetrics(at, number, "audit", {"seen": 12.0}, ({"seen": 12.0},)))
    commit = WindowCommitted(at, number, 1, start, start, start + 0.010, begin, begin, begin, at)
    return [*events, *reports, OutputPublished(at, "write", number), commit]


def _ages(node, end):
    """One record of each partition of `count`, one second old for each partition; of sinks, two seconds."""
    if node.label == "count":
        return (sample("state", [np.array([round((end - 1 - node.partition) * 1e6)])], None, end),)
    if node.kind == "output":
        return (sample("commit", [np.array([round((end - 2) * 1e6)])], None, end),)
    return ()


def change(number, version, at, window_id, what, **more):
    """A change of the plan that is applied with a window, as STRAM reports it."""
    asked = ApplicationChanged(at, number, "ann", "more load", what, "QUEUED", **more)
    applied = replace(
        asked, state="APPLIED", window_id=window_id, plan_version=version, held_seconds=GAP, at=at + GAP
    )
    return asked, applied


EDITS = {
    2: ("repartition count to 3; add audit", ({"do": "repartition", "operator": "count", "partitions": 3},)),
    3: ("repartition count to 2; remove audit", ({"do": "remove-operator", "name": "audit"},)),
}


def run(until=3):
    """All events, window by window a second apart."""
    events, number = [], 0
    for version in range(1, until + 1):
        begun = float(number)
        asked = applied = None
        if version > 1:
            what, edits = EDITS[version]
            asked, applied = change(version - 1, version, begun - 0.3, number, what, edits=edits)
            events.append(asked)
        events.append(plan(version, begun - 0.05 if number else 0.0))
        for _ in range(WINDOWS):
            events += window(number, version, float(number))
            if applied is not None:
                events.append(replace(applied, at=events[-1].at))
                applied = None
            number += 1
    return events
