"""In slots a container waits for its producers only, and for its slot: a queue before it is wait."""

from dataclasses import replace

import pytest

from ridgeline.measure.latency.blame import blame_chain
from ridgeline.measure.latency.critical_path import critical_path
from ridgeline.measure.latency.operator_latency import operator_latencies
from ridgeline.measure.latency.phases import window_phases
from support.measure.simulated_window import BASE, SEED_MS, ids, run, seed_graph

MOVED = {**SEED_MS, "D": 150}


def in_slots(topology, times, queued=None):
    """As if each container ran once its producers had ended, and those `queued` so many ms later."""
    containers, operators = dict(times.containers), dict(times.operators)
    written = {}
    for operator in topology.operators:
        number, title = operator.container, operator.title
        ready = max((written[source] for source in topology.upstream[operator.id]), default=BASE)
        seconds = operators[operator.id].compute_seconds
        began = ready + (queued or {}).get(title, 0) / 1000
        ended = written[operator.id] = began + seconds
        operators[operator.id] = replace(operators[operator.id], began=began, ended=ended)
        containers[number] = replace(
            containers[number], task_began=began, began=began, restored=began, ran=ended, written=ended,
            received=ended, ready=ready,
        )  # fmt: skip
    over = max(written.values())
    ends = dict.fromkeys(("returned", "staged", "committed", "published"), over)
    return replace(times, containers=containers, operators=operators, **ends)


def steps(topology, times):
    return [(step.what, step.operator, round(1000 * step.seconds)) for step in blame_chain(topology, times)]


def test_a_queue_of_earlier_windows_is_wait_and_not_the_operators_own():
    topology = seed_graph()
    times = in_slots(topology, run(topology, MOVED), {"C": 800})
    found = operator_latencies(topology, times)
    own = {operator: one.own for operator, one in found.items()}
    c = found[ids(topology)["C"]]

    assert (c.wait, c.compute, c.transfer) == pytest.approx((0.8, 0.1, 0.0), abs=1e-6)
    path = "".join(topology.by_id[operator].title for operator in critical_path(topology, own).path)
    assert path == "ABD"
    assert steps(topology, times) == [("slot", "C", 800), ("compute", "C", 100), ("compute", "E", 20)]
    assert window_phases(topology, times) == pytest.approx({"queue": 0.8, "user code": 0.12}, abs=1e-6)


def test_nobody_waits_for_a_stage():
    topology = seed_graph()
    times = in_slots(topology, run(topology, MOVED))

    assert steps(topology, times) == [("compute", "B", 5), ("compute", "D", 150)]
    assert operator_latencies(topology, times)[ids(topology)["D"]].wait == 0
