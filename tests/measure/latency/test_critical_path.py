import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.measure.latency.critical_path import CriticalPath, slack_of_figures
from support.depth import deep
from support.measure.latency_by_hand import critical_path, slack
from support.measure.partitioned import chain
from support.measure.simulated_window import graph, graphs, ids, seed_graph

SEED = {"A": 0.0, "B": 0.005, "C": 0.1, "D": 0.03, "E": 0.02, "F": 0.002}


def titles(topology, path):
    return "".join(topology.by_id[operator].title for operator in path)


def by_id(topology, own):
    return {node.id: own[node.title] for node in topology.operators}


def all_paths(topology):
    def onward(path):
        following = topology.downstream[path[-1]]
        if not following:
            yield tuple(path)
        for sink in following:
            yield from onward([*path, sink])

    return [path for operator in topology.inputs for path in onward([operator])]


def test_the_figure_of_the_latency_article():
    topology = seed_graph()
    found = critical_path(topology, by_id(topology, SEED))
    assert titles(topology, found.path) == "ACE"
    assert found.latency_seconds == pytest.approx(0.12)


def test_equal_paths_are_ordered_by_their_titles_whatever_the_error_of_sums():
    places = {"A": (0, 0), "Z": (1, 1), "M": (2, 1), "N": (3, 2), "Y": (4, 2)}
    topology = graph(places, ["AZ", "AM", "ZN", "MY"])
    # 0.1 + (0.2 + 0.3) and 0.1 + (0.3 + 0.2) by other ways
    own = {"A": 0.1, "Z": 0.2, "N": 0.3, "M": 0.3, "Y": 0.2}
    assert titles(topology, critical_path(topology, by_id(topology, own)).path) == "AMY"
    assert titles(topology, critical_path(topology, {}).path) == "AMY"


def test_unifiers_are_on_the_path():
    places = {"p": (0, 0), "q": (1, 0), "u": (2, 1), "S": (2, 1)}
    topology = graph(places, ["pu", "qu", "uS"], unifiers={"u"}, names={"u": "p"})
    found = critical_path(topology, by_id(topology, {"p": 1.0, "q": 2.0, "u": 1.0, "S": 0.5}))
    assert titles(topology, found.path) == "quS"


def test_an_operator_that_did_not_report_counts_nothing():
    topology = chain("A", "B", "C")
    assert critical_path(topology, {1: 1.0, 3: 2.0}) == CriticalPath(3.0, (1, 2, 3))


@settings(deadline=None, max_examples=deep(30))
@given(graphs(), st.data())
def test_no_path_is_longer_for_any_durations(topology, data):
    own = {node.id: data.draw(st.floats(0.0, 1e5)) for node in topology.operators}
    longest = max(math.fsum(own[operator] for operator in path) for path in all_paths(topology))
    found = critical_path(topology, own)
    assert found.latency_seconds == pytest.approx(longest, rel=1e-9, abs=1e-9)
    assert found.latency_seconds == math.fsum(own[operator] for operator in found.path)


# Slack, against a window that is played: containers begin when all that they read from are over -------------


def test_it_is_how_much_slower_an_operator_may_become():
    topology = seed_graph()
    found = slack(topology, {node.id: SEED[node.title] for node in topology.operators})
    expected = {"A": 0, "B": 0.085, "C": 0, "D": 0.085, "E": 0, "F": 0.018}
    assert {node.title: found[node.id] for node in topology.operators} == pytest.approx(expected)


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
