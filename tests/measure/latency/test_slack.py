"""Slack, against a window that is played: containers begin when all that they read from are over."""

import numpy as np
import pytest

from ridgeline.measure.latency.critical_path import slack, slack_of_figures
from ridgeline.measure.topology import Topology
from support.measure.simulated_window import graph, ids, seed_graph

SEED = {"A": 0.0, "B": 0.005, "C": 0.1, "D": 0.03, "E": 0.02, "F": 0.002}


def test_it_is_how_much_slower_an_operator_may_become():
    topology = seed_graph()
    found = slack(topology, {node.id: SEED[node.title] for node in topology.operators})
    expected = {"A": 0, "B": 0.085, "C": 0, "D": 0.085, "E": 0, "F": 0.018}
    assert {node.title: found[node.id] for node in topology.operators} == pytest.approx(expected)


def test_no_operators_no_slack():
    assert slack(Topology((), ()), {}) == {}


def test_a_sibling_that_others_wait_for_has_none():
    places = {"feed": (0, 0), "light": (0, 0), "work": (1, 1)}
    topology = graph(places, [("feed", "light"), ("feed", "work")])
    number = ids(topology)
    found = slack(topology, {number["feed"]: 0.0, number["light"]: 0.01, number["work"]: 0.05})
    assert found == dict.fromkeys(topology.by_id, 0.0)


def test_the_way_to_a_container_counts_once_whoever_reads_there():
    topology = graph({"A": (0, 0), "B": (1, 1), "C": (1, 1), "D": (2, 1)}, ["AB", "AC", "AD"])
    number = ids(topology)
    own = {number["A"]: 1.0, number["B"]: 3.0, number["C"]: 4.0, number["D"]: 7.0}
    turns = {number["A"]: 1.0, number["B"]: 1.0, number["C"]: 2.0, number["D"]: 7.0}
    found = slack(topology, own, turns)  # B and C wait 2 s together, then run for 3 s
    assert found == {number["A"]: 0.0, number["B"]: 2.0, number["C"]: 2.0, number["D"]: 0.0}


def test_containers_of_one_stage_may_read_from_each_other():
    topology = graph({"A": (0, 0), "B": (1, 0), "C": (2, 0)}, ["AB", "BC"])
    figures = np.zeros((6, 3))
    figures[1] = figures[4] = [1.0, 2.0, 3.0]
    assert set(slack_of_figures(topology, figures).values()) == {0.0}
