"""In slots a container waits for its producers only, and for its slot: a queue before it is wait."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.measure.latency.blame import blame_chain
from ridgeline.measure.latency.critical_path import critical_path
from ridgeline.measure.latency.phases import window_phases
from support.measure.simulated_window import (
    BASE,
    SEED_MS,
    graph,
    graphs,
    ids,
    operator_latencies,
    run,
    seed_graph,
)

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


def two_paths():
    """Two chains whose ends share a slot: A ends early and feeds C, B ends late and feeds D."""
    topology = graph({"A": (0, 0), "B": (1, 0), "C": (2, 1), "D": (3, 1)}, ["AC", "BD"])
    times = in_slots(topology, run(topology, {"A": 10, "B": 100, "C": 5, "D": 20}, tasks={2: "s", 3: "s"}))
    return topology, times


def test_who_ran_before_in_the_slot_is_left_out_where_nobody_waited_for_it():
    topology, times = two_paths()

    assert steps(topology, times) == [("compute", "B", 100), ("compute", "D", 20)]
    assert window_phases(topology, times) == pytest.approx({"user code": 0.12}, abs=1e-6)


def test_the_slowest_of_a_stage_is_left_out_where_nobody_waited_for_it():
    topology = graph({"A": (0, 0), "B": (1, 0), "C": (2, 1), "D": (3, 1)}, ["AC", "BD"])
    times = in_slots(topology, run(topology, {"A": 10, "B": 100, "C": 200, "D": 5}))

    assert steps(topology, times) == [("compute", "A", 10), ("compute", "C", 200)]
    assert window_phases(topology, times) == pytest.approx({"user code": 0.21}, abs=1e-6)


def test_a_wait_for_the_slot_is_of_those_that_ran_meanwhile():
    topology = graph({"A": (0, 0), "B": (1, 0), "C": (2, 1), "D": (3, 1)}, ["AC", "BD"])
    tasks = {2: "s", 3: "s"}
    times = in_slots(topology, run(topology, {"A": 10, "B": 10, "C": 50, "D": 20}, tasks=tasks), {"D": 55})

    found = steps(topology, times)
    assert found == [("compute", "B", 10), ("slot", "C", 50), ("slot", "D", 5), ("compute", "D", 20)]


@settings(deadline=None)
@given(graphs(), st.data())
def test_in_slots_the_steps_add_up_and_name_one_path(drawn, data):
    titles = {node.id: node.title for node in drawn.operators}
    places = {
        title: (number, drawn.by_id[operator].stage)
        for number, (operator, title) in enumerate(titles.items())
    }
    topology = graph(places, [(titles[stream.source], titles[stream.sink]) for stream in drawn.streams])
    milliseconds = st.integers(1, 50)
    compute = {node.title: data.draw(milliseconds) for node in topology.operators}
    tasks = {container: data.draw(st.sampled_from(["s0", "s1"])) for container in topology.containers}
    queued = {node.title: data.draw(st.integers(0, 50)) for node in topology.operators}
    times = in_slots(topology, run(topology, compute, tasks=tasks), queued)
    found = blame_chain(topology, times)

    assert sum(step.seconds for step in found) == pytest.approx(times.latency_seconds, abs=1e-9)
    assert sum(window_phases(topology, times).values()) == pytest.approx(times.latency_seconds, abs=1e-6)
    by_title = {node.title: node.id for node in topology.operators}
    ran = [by_title[step.operator] for step in found if step.what == "compute"]
    assert all(one in topology.upstream[other] for one, other in pairwise(ran))
