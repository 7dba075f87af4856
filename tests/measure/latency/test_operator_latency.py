from dataclasses import replace
from functools import partial

import pytest

from ridgeline.measure.latency.operator_latency import OperatorLatency, logical_latencies
from support.measure.simulated_window import SEED_MS, graph, ids, operator_latencies, run, seed_graph

close = partial(pytest.approx, abs=1e-6)  # the resolution of times since 1970


def parts(topology, times):
    """Latency, compute, wait, transfer in milliseconds by title."""
    return {
        topology.by_id[operator].title: tuple(
            round(1000 * part, 3) for part in (found.latency, found.compute, found.wait, found.transfer)
        )
        for operator, found in operator_latencies(topology, times).items()
    }


def moved(times, operator, seconds):
    """One operator's clock is off."""
    own = times.operators[operator]
    shifted = replace(own, began=own.began + seconds, ended=own.ended + seconds)
    return replace(times, operators={**times.operators, operator: shifted})


def test_operators_in_containers_of_their_own():
    topology = seed_graph()
    assert parts(topology, run(topology, {**SEED_MS, "A": 7})) == {
        "A": (7, 7, 0, 0),
        "B": (5, 5, 0, 0),
        "C": (100, 100, 0, 0),
        "D": (125, 30, 95, 0),  # behind the barrier, though B had ended
        "E": (20, 20, 0, 0),
        "F": (2, 2, 0, 0),
    }


def test_fused_operators_wait_for_their_siblings():
    topology = seed_graph(fused=True)
    assert parts(topology, run(topology, SEED_MS)) == {
        "A": (0, 0, 0, 0),
        "B": (5, 5, 0, 0),
        "C": (105, 100, 5, 0),
        "D": (130, 30, 100, 0),
        "E": (50, 20, 30, 0),
        "F": (52, 2, 50, 0),
    }


def test_launch_reading_restoring_and_decoding_are_transfer_and_slots_are_wait():
    topology = seed_graph()
    durations = {"launch_ms": 1, "read_ms": 2, "restore_ms": 3, "decode_ms": 4, "state_ms": 7}
    found = parts(topology, run(topology, SEED_MS, tasks={3: "t", 5: "t"}, transfer_ms=0.5, **durations))
    # the state file of the stage before is waited for: its task ends with it
    assert found["C"] == (117.5, 100, 7, 10.5)
    assert found["E"] == (37.5, 20, 7, 10.5)
    # F's turn comes when D's container has restored (3), decoded (4), run (30.5) and written (7)
    assert found["F"] == (64, 2, 7 + 44.5, 10.5)


def test_the_slowest_upstream_counts_and_those_without_a_report_are_left_out():
    topology = graph({"A": (0, 0), "B": (1, 0), "C": (2, 1)}, ["AC", "BC"])
    times = run(topology, {"A": 10, "B": 50, "C": 20})
    found = operator_latencies(topology, times)[3]
    assert (found.upstream, found.latency) == (2, close(0.02))
    without = replace(
        times, operators={operator: own for operator, own in times.operators.items() if operator != 2}
    )
    found = operator_latencies(topology, without)[3]
    assert (found.upstream, found.latency, found.compute) == (1, close(0.06), close(0.02))
    assert 2 not in operator_latencies(topology, without)


def test_without_any_upstream_it_is_the_windows_behind():
    topology = graph({"A": (0, 0), "B": (1, 1)}, ["AB"])
    times = run(topology, {"A": 10, "B": 200})
    without = replace(times, operators={2: times.operators[2]})
    found = operator_latencies(topology, without, window_seconds=0.5, behind={2: 3})[2]
    assert (found.latency, found.compute, found.wait, found.estimated) == (1.5, close(0.2), close(1.3), True)
    assert operator_latencies(topology, without)[2] == OperatorLatency(2, 0.0, 0.0, 0.0, 0.0, estimated=True)


def test_an_operator_that_ends_before_its_upstream_has_no_latency_and_is_marked():
    topology = graph({"A": (0, 0), "B": (1, 1)}, ["AB"])
    times = run(topology, {"A": 10, "B": 20})
    found = operator_latencies(topology, moved(times, 2, -0.25))[2]
    assert (found.latency, found.own, found.clamped) == (0.0, 0.0, True)
    found = operator_latencies(topology, moved(times, 2, -0.005))[2]
    assert (found.latency, found.compute) == (close(0.015), close(0.015))
    assert (found.wait, found.clamped) == (0.0, False)


def test_a_logical_operator_is_its_slowest_partition_with_its_slowest_unifiers():
    places = {"p0": (0, 0), "p1": (1, 0), "u0": (2, 1), "u1": (3, 1), "v": (3, 1), "S": (3, 1)}
    streams = [("p0", "u0"), ("p1", "u1"), ("u0", "v"), ("u1", "v"), ("v", "S")]
    topology = graph(
        places, streams, unifiers={"u0", "u1", "v"}, names=dict.fromkeys(["p0", "p1", "u0", "u1", "v"], "P")
    )
    number = ids(topology)
    seconds = {
        "p0": (5.0, 1.0),
        "p1": (4.0, 0.5),
        "u0": (1.0, 0.0),
        "u1": (3.0, 1.0),
        "v": (2.0, 0.5),
        "S": (9.0, 0.0),
    }
    latencies = {
        number[title]: OperatorLatency(number[title], sum(both), both[0], both[1], 0.0)
        for title, both in seconds.items()
    }
    found = logical_latencies(topology, latencies)
    assert list(found) == ["P", "S"]
    assert found["P"].chain == (number["p1"], number["u1"], number["v"])
    assert (found["P"].latency, found["P"].compute, found["P"].wait) == (11.0, 9.0, 2.0)
    assert found["S"].latency == 9.0
    assert list(logical_latencies(topology, {number["S"]: latencies[number["S"]]})) == ["S"]
