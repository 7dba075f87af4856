import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.measure.events import SparkTrigger, WindowCommitted
from ridgeline.measure.latency.window import NOTHING
from support.depth import deep
from support.measure.simulated_window import (
    BASE,
    SEED_MS,
    SimulatedTimes,
    blame_chain,
    graph,
    run,
    runs,
    seed_graph,
    wild_windows,
)

OVERHEAD = {"launch_ms": 1, "restore_ms": 3, "decode_ms": 4, "transfer_ms": 0.5, "state_ms": 7}
PHASES = {
    "latestOffset": 0.004,
    "walCommit": 0.003,
    "getBatch": 0.001,
    "queryPlanning": 0.001,
    "addBatch": 9.0,
    "triggerExecution": 9.0,
}


def chain_of(topology, times):
    """(what, operator, milliseconds) of every step."""
    return [
        (step.what, step.operator, round(1000 * step.seconds, 3)) for step in blame_chain(topology, times)
    ]


def test_the_last_container_decides_and_who_it_reads_from():
    topology = seed_graph()
    times = run(topology, {**SEED_MS, "E": 40})
    assert chain_of(topology, times) == [("compute", "C", 100), ("compute", "E", 40)]


def test_each_millisecond_between_commit_and_tick_has_a_name():
    topology = graph({"A": (0, 0), "B": (1, 1)}, ["AB"])
    times = run(topology, {"A": 10, "B": 20}, driver_ms=[11, 12, 13, 14, 15, 16], **OVERHEAD)
    container = [("launch", "", 1), ("restore", "", 3)]
    assert chain_of(topology, times) == [
        ("retries", "", 11),
        ("planning", "", 12),
        *container,
        ("transfer", "A", 4),
        ("compute", "A", 10),
        ("transfer", "A", 0.5),
        ("state", "", 7),
        *container,
        ("transfer", "B", 4),
        ("compute", "B", 20),
        ("transfer", "B", 0.5),
        ("state", "", 7),
        ("results", "", 13),
        ("stage", "", 14),
        ("commit", "", 15),
    ]


def test_siblings_that_nobody_waited_for_are_named_so():
    topology = seed_graph(fused=True)
    # in the order A B C D E F: F waited for its turn behind E and D, which it does not read; then for C, and
    # C behind B
    assert chain_of(topology, run(topology, {**SEED_MS, "A": 1})) == [
        ("compute", "A", 1),
        ("sibling", "B", 5),
        ("compute", "C", 100),
        ("sibling", "D", 30),
        ("sibling", "E", 20),
        ("compute", "F", 2),
    ]


def test_what_ran_before_in_the_same_slot_took_it():
    topology = graph({"A": (0, 0), "B": (1, 1), "C": (2, 1)}, ["AB", "AC"])
    times = run(topology, {"A": 10, "B": 20, "C": 30}, tasks={1: "t", 2: "t"}, restore_ms=3, state_ms=7)
    assert chain_of(topology, times) == [
        ("restore", "", 3),
        ("compute", "A", 10),
        ("state", "", 7),
        ("slot", "B", 30),  # with its state: 3 + 20 + 7
        ("restore", "", 3),
        ("compute", "C", 30),
        ("state", "", 7),
    ]


def test_what_runs_after_a_producer_in_its_slot_holds_nobody_up():
    topology = graph({"A": (0, 0), "B": (1, 0), "C": (2, 1)}, ["AC"])
    times = run(topology, {"A": 10, "B": 20, "C": 30}, tasks={0: "t", 1: "t"})
    assert chain_of(topology, times) == [("compute", "A", 10), ("compute", "C", 30)]


def test_gaps_in_a_container_are_other():
    topology = graph({"A": (0, 0), "B": (0, 0)}, ["AB"])
    times = run(topology, {"A": 10, "B": 20})
    late = replace(times.operators[2], began=times.operators[2].began + 0.004)
    times = replace(times, operators={1: times.operators[1], 2: replace(late, compute_seconds=0.016)})
    assert chain_of(topology, times) == [("compute", "A", 10), ("other", "", 4), ("compute", "B", 16)]


def test_spark_is_named_before_the_tick():
    topology = graph({"A": (0, 0)}, [])
    times = run(topology, {"A": 10}, trigger=SparkTrigger(BASE + 1, 0, BASE - 0.02, PHASES))
    head = [("offsets", "", 4), ("log", "", 3), ("planning", "", 2), ("trigger", "", 11)]
    assert chain_of(topology, times) == [*head, ("compute", "A", 10)]
    # phases that take longer than there was time are cut off
    times = replace(times, trigger=replace(times.trigger, triggered=BASE - 0.005))
    assert chain_of(topology, times) == [("offsets", "", 4), ("log", "", 1), ("compute", "A", 10)]


def test_a_window_that_ran_again_only_to_be_closed_had_no_attempt_that_failed():
    topology = graph({"A": (0, 0)}, [])
    times = run(topology, {"A": 10}, driver_ms=[11, 0, 0, 0, 0, 0])
    assert chain_of(topology, times) == [("retries", "", 11), ("compute", "A", 10)]
    times = replace(times, commit=replace(times.commit, closing=True))
    assert chain_of(topology, times) == [("ending", "", 11), ("compute", "A", 10)]


def test_a_window_of_which_no_container_is_known_is_other():
    topology = graph({"A": (0, 0)}, [])
    times = replace(run(topology, {"A": 10}, driver_ms=[0, 5, 0, 0, 7, 0]), containers={}, operators={})
    assert chain_of(topology, times) == [("planning", "", 5), ("other", "", 10), ("commit", "", 7)]


def test_steps_shorter_than_a_microsecond_go_into_their_neighbour():
    topology = graph({"A": (0, 0)}, [])
    commit = WindowCommitted(4.0, 0, 1, 0.0, 5e-7, 1.0, 3.0, 3.0 + 9e-7, 4.0, 4.0)
    steps = blame_chain(topology, SimulatedTimes(commit, 0.0, NOTHING))
    assert [step.what for step in steps] == ["planning", "other", "commit"]
    assert steps[0].seconds == 1.0


@settings(deadline=None, max_examples=deep(30))
@given(wild_windows(), st.none() | st.floats(-3.0, 3.0))
def test_the_steps_add_up_whatever_the_clocks_say(case, triggered):
    topology, times = case
    if triggered is not None:
        times = replace(times, trigger=SparkTrigger(BASE, 0, BASE + triggered, PHASES))
    steps = blame_chain(topology, times)
    assert all(step.seconds > 0.0 for step in steps)
    assert math.fsum(step.seconds for step in steps) == pytest.approx(times.latency_seconds, abs=1e-9)
    assert all(step.seconds >= 1e-6 for step in steps[1:])
    assert all((one.what, one.operator) != (two.what, two.operator) for one, two in itertools.pairwise(steps))


@settings(deadline=None, max_examples=deep(30))
@given(runs())
def test_of_a_window_that_ran_in_order_nothing_is_unexplained(case):
    topology, times, compute = case
    steps = blame_chain(topology, times)
    assert math.fsum(step.seconds for step in steps) == pytest.approx(times.latency_seconds, abs=1e-9)
    assert not any(step.what == "other" for step in steps)
    named = {step.operator for step in steps if step.what == "compute"}
    assert all(compute[title] for title in named)
