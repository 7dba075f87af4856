"""Who holds whose results: of windows whose times are chosen."""

import pytest

from ridgeline.measure.latency.critical_path import held_results
from support.measure.simulated_window import graph, ids, run, seed_graph


def held(topology, compute_ms, **more):
    found = held_results(topology, run(topology, compute_ms, **more))
    return [(one.output, one.by, round(1000 * one.seconds)) for one in found]


def test_a_fast_reader_waits_for_a_slow_one_of_the_same_stream():
    places = {"source": (0, 0), "fast": (1, 1), "slow": (2, 1)}
    topology = graph(places, [("source", "fast"), ("source", "slow")])
    assert held(topology, {"source": 3, "fast": 2, "slow": 1000}) == [("fast", "slow", 998)]
    assert held(topology, {"source": 3, "fast": 5, "slow": 5}) == []


def test_what_an_output_reads_itself_holds_it_not():
    topology = graph({"A": (0, 0), "B": (1, 1)}, ["AB"])
    assert held(topology, {"A": 500, "B": 1}) == []


def test_the_longest_wait_comes_first_and_names_who_took_most():
    topology = seed_graph()  # C and E take 120 ms; D and F begin with E, and are done before it
    assert held(topology, {"A": 0, "B": 5, "C": 100, "D": 4, "E": 20, "F": 2}) == [
        ("F", "E", 18),
        ("D", "E", 16),
    ]


def test_an_output_is_done_once_all_its_partitions_are():
    places = {"A": (0, 0), "x": (1, 1), "y": (2, 1), "slow": (3, 1)}
    topology = graph(places, ["Ax", "Ay", ("A", "slow")], names={"x": "out", "y": "out"})
    assert held(topology, {"A": 1, "x": 2, "y": 40, "slow": 100}) == [("out", "slow", 60)]


def test_who_did_not_report_holds_nobody():
    topology = seed_graph()
    times = run(topology, {"A": 0, "B": 5, "C": 100, "D": 4, "E": 20, "F": 2})
    del times.containers[topology.by_id[ids(topology)["D"]].container]
    assert [one.output for one in held_results(topology, times)] == ["F"]
    assert held_results(topology, times)[0].seconds == pytest.approx(0.018, abs=1e-6)
