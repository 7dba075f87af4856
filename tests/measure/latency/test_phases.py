import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.measure.events import SparkTrigger
from ridgeline.measure.latency.blame import blame_chain
from ridgeline.measure.latency.window_phases import PHASES, window_phases
from support.depth import deep
from support.measure.simulated_window import BASE, graph, run, runs, wild_windows

OVERHEAD = {"launch_ms": 1, "read_ms": 2, "restore_ms": 3, "decode_ms": 4, "transfer_ms": 5, "state_ms": 7}
OF_SPARK = {
    "latestOffset": 0.004,
    "walCommit": 0.003,
    "getBatch": 0.001,
    "queryPlanning": 0.001,
    "commitOffsets": 0.006,
}
TWO_STAGES = graph({"A": (0, 0), "B": (1, 1)}, ["AB"])


def phases(topology, times):
    """Milliseconds by phase."""
    return {phase: round(1000 * seconds, 3) for phase, seconds in window_phases(topology, times).items()}


def test_each_millisecond_has_a_name():
    times = run(TWO_STAGES, {"A": 10, "B": 20}, driver_ms=[11, 12, 13, 14, 15, 16], **OVERHEAD)
    assert phases(TWO_STAGES, times) == {
        "planning": 12,
        "earlier attempts": 11,
        "job launch": 3,
        "shuffle": 3,
        "restore": 6,
        "decode": 18,  # what is reported as neither encoding nor state counts as decoding
        "user code": 30,
        "state write": 14,
        "reports": 13,
        "staging": 14,
        "manifest": 15,
        "publish": 16,
    }


def test_encoding_and_state_are_distinguished_from_the_rest_around_callbacks():
    times = run(TWO_STAGES, {"A": 10, "B": 20}, **OVERHEAD)
    operators = {
        number: replace(operator, encode_seconds=0.002, state_seconds=0.001)
        for number, operator in times.operators.items()
    }
    first = replace(times.containers[0], sent=times.containers[0].written + 0.0005)
    found = phases(TWO_STAGES, replace(times, operators=operators, containers={**times.containers, 0: first}))
    assert (found["decode"], found["state write"], found["encode"], found["shuffle"]) == (12, 16, 4.5, 2.5)


def test_what_follows_an_operators_end_are_the_ages_of_its_records():
    topology = graph({"A": (0, 0), "B": (0, 0)}, ["AB"])
    times = run(topology, {"A": 10, "B": 20})
    late = replace(times.operators[2], began=times.operators[2].began + 0.004, compute_seconds=0.016)
    times = replace(times, operators={1: times.operators[1], 2: late})
    assert phases(topology, times) == {"user code": 26, "record ages": 4}


def test_what_ran_in_the_same_task_is_named_by_what_was_done():
    topology = graph({"A": (0, 0), "B": (1, 1), "C": (2, 1)}, ["AB", "AC"])
    times = run(topology, {"A": 10, "B": 20, "C": 30}, tasks={1: "t", 2: "t"}, restore_ms=3, state_ms=7)
    assert phases(topology, times) == {"restore": 9, "user code": 60, "state write": 21}


def test_a_new_process_is_worker_start_from_its_fork_or_from_its_daemons_begin():
    times = run(TWO_STAGES, {"A": 10, "B": 20}, launch_ms=50)
    first, second = times.containers[0], times.containers[1]
    at_once = replace(first, worker_began=first.began - 0.01, daemon_began=first.began - 0.04)
    forked = replace(second, worker_began=second.began - 0.02, daemon_began=BASE - 100)
    found = phases(TWO_STAGES, replace(times, containers={0: at_once, 1: forked}))
    assert found == {"job launch": 10, "worker start": 60, "shuffle": 30, "user code": 30}


def test_a_process_that_was_there_before_is_no_worker_start():
    times = run(TWO_STAGES, {"A": 10, "B": 20}, launch_ms=50)
    containers = {
        number: replace(container, worker_began=BASE - 5, daemon_began=BASE - 6)
        for number, container in times.containers.items()
    }
    found = phases(TWO_STAGES, replace(times, containers=containers))
    assert found == {"job launch": 50, "shuffle": 50, "user code": 30}


def test_spark_is_named_before_our_turn_and_after_it():
    times = run(TWO_STAGES, {"A": 10, "B": 20})
    before, ours = 0.02, times.published - times.began
    trigger = SparkTrigger(BASE + 1, 0, BASE - before, {**OF_SPARK, "triggerExecution": before + ours + 0.01})
    found = phases(TWO_STAGES, replace(times, trigger=trigger))
    assert found == {"trigger": 19, "offset log": 3, "planning": 2, "user code": 30, "commit log": 6}


def test_a_window_of_which_no_container_is_known_is_unexplained():
    times = replace(
        run(TWO_STAGES, {"A": 10, "B": 20}, driver_ms=[0, 5, 0, 0, 7, 0]), containers={}, operators={}
    )
    assert phases(TWO_STAGES, times) == {"planning": 5, "manifest": 7, "unexplained": 30}


@settings(deadline=None, max_examples=deep(30))
@given(wild_windows(), st.none() | st.floats(-3.0, 3.0), st.floats(0.0, 3.0))
def test_the_phases_add_up_whatever_the_clocks_say(case, triggered, took):
    topology, times = case
    if triggered is not None:
        times = replace(
            times, trigger=SparkTrigger(BASE, 0, BASE + triggered, {**OF_SPARK, "triggerExecution": took})
        )
    over = max(times.published, times.committed)
    end = over if times.trigger is None else max(over, times.trigger.triggered + took)
    found = window_phases(topology, times)
    assert list(found) == [phase for phase in PHASES if phase in found]
    assert all(seconds > 0.0 for seconds in found.values())
    assert math.fsum(found.values()) == pytest.approx(max(end - min(times.triggered, over), 0.0), abs=1e-6)


@settings(deadline=None, max_examples=deep(30))
@given(runs())
def test_of_a_window_that_ran_in_order_nothing_is_unexplained_and_it_is_the_blame_chains_time(case):
    topology, times, _ = case
    found = window_phases(topology, times)
    assert "unexplained" not in found
    chain = math.fsum(step.seconds for step in blame_chain(topology, times))
    assert math.fsum(found.values()) - found.get("publish", 0.0) == pytest.approx(chain, abs=1e-6)
