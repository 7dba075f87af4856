from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from ridgeline.measure.clocks import ClockOffsets
from ridgeline.measure.events import (
    ContainerWindow,
    OperatorWindow,
    SparkTrigger,
    WindowCommitted,
    WindowPlanned,
    WindowRetried,
)
from ridgeline.measure.latency.window import Windows, assemble
from support.measure.latency_by_hand import OperatorLatency, logical_by_hand
from support.measure.reports import container_windows, of_reports, operator_windows
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
        "D": (30, 30, 0, 0),  # it waits for B only
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


def test_sending_restoring_and_decoding_are_transfer_and_slots_are_wait():
    topology = seed_graph()
    durations = {"launch_ms": 1, "restore_ms": 3, "decode_ms": 4, "state_ms": 7}
    found = parts(topology, run(topology, SEED_MS, tasks={4: "t", 5: "t"}, transfer_ms=0.5, **durations))
    # what a container sends goes once its state is written
    assert found["C"] == (115.5, 100, 0, 15.5)
    assert found["E"] == (35.5, 20, 0, 15.5)
    # F's turn comes when E's container has restored (3), decoded (4), run (20.5) and written (7)
    assert found["F"] == (52, 2, 34.5, 15.5)


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
    found = operator_latencies(topology, without, window_seconds=0.5, behind=3)[2]
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
    seconds = {
        "p0": (5.0, 1.0),
        "p1": (4.0, 0.5),
        "u0": (1.0, 0.0),
        "u1": (3.0, 1.0),
        "v": (2.0, 0.5),
        "S": (9.0, 0.0),
    }
    figures = np.array([(sum(seconds[one.title]), *seconds[one.title], 0.0) for one in topology.operators])
    found = topology.logical.latencies(figures.T[None])[0].T
    assert topology.logical.names == ("P", "S")
    assert found.tolist() == [[11.0, 9.0, 2.0, 0.0], [9.0, 9.0, 0.0, 0.0]]  # p1, u1 and v; S
    by_id = {node.id: tuple(row) for node, row in zip(topology.operators, figures.tolist(), strict=True)}
    assert list(logical_by_hand(topology, by_id).values()) == [tuple(row) for row in found.tolist()]
    figures[topology.places[ids(topology)["S"]]] = np.nan
    assert np.isnan(topology.logical.latencies(figures.T[None])[0, :, 1]).all()


# Window -----------------------------------------------------------------------------------------------------


COMMITTED = WindowCommitted(9.0, 3, 2, 1.0, 1.1, 1.2, 8.0, 8.1, 8.5, 9.0)


def container(number, host="h", at=2.0, window_id=3):
    return ContainerWindow(
        9.0, window_id, 1, number, host, 7, f"t{number}", at, at + 0.1, at + 0.2, at + 0.9, at + 1.0, 8.0
    )


def operator(number, where, host="h", at=2.2, window_id=3):
    spent, counts = (at, at + 0.7, 0.5, 0.0, 0.2), ({"a": 4, "b": 3}, {"x": 2, "y": 1})
    return OperatorWindow(9.0, window_id, 1, number, where, host, *spent, *counts)


def two():
    return graph({"A": (0, 0), "B": (1, 1)}, ["AB"])


def test_the_events_of_a_window_become_its_times():
    reports = [container(0), operator(1, 0), container(1, at=4.0), operator(2, 1, at=4.2)]
    times = assemble(two(), [WindowPlanned(1.0, 3, 0, 0.6), of_reports(*reports), COMMITTED])
    commit = times.commit
    assert (commit.window_id, commit.attempts, times.due, commit.published) == (3, 2, 0.6, 9.0)
    assert times.late_seconds == pytest.approx(0.4)
    assert times.latency_seconds == pytest.approx(7.5)
    second = container_windows([times.reported])[1]
    assert (second.task, second.began, second.written) == ("t1", 4.1, 5.0)
    assert operator_windows([times.reported])[1].compute_seconds == 0.5
    assert Windows(two(), [times]).tuples() == [(3, 7)]


def test_a_window_that_spark_triggered_begins_at_the_trigger():
    times = assemble(two(), [COMMITTED, SparkTrigger(10.0, 3, 0.75, {})])
    assert times.triggered == 0.75
    assert times.latency_seconds == 7.75
    assert times.late_seconds == 0.0  # nothing said when it was due


def test_other_windows_and_those_of_other_plans_are_left_out():
    other = of_reports(container(0, window_id=2), operator(1, 0, window_id=2))
    unknown = of_reports(container(9), operator(9, 9))
    times = assemble(two(), [unknown, other, WindowRetried(1.0, 3, 1, "x"), COMMITTED])
    assert not len(times.reported.containers)
    assert not len(times.reported.operators)
    assert not times.reported.ports


def test_all_times_of_a_host_are_put_on_the_clock_of_stram():
    offsets = ClockOffsets(own_host="h")
    for second in range(3):
        offsets.add("far", second + 0.25, second)
    far = container(1, "far", 4.25), operator(2, 1, "far", 4.45)
    reports = [container(0), operator(1, 0), *far]
    windows = Windows(two(), [assemble(two(), [of_reports(*reports), COMMITTED], offsets.lines())])
    assert windows.turned[0] == pytest.approx([2.1, 4.1])
    assert windows.came[0] == pytest.approx([2.1, 4.1])
    assert windows.written[0] == pytest.approx([3.0, 5.0])
    assert windows.sent[0] == pytest.approx([3.0, 5.0])
    assert windows.ended[0] == pytest.approx([2.9, 4.9])
    assert windows.compute[0] == pytest.approx([0.5, 0.5])
