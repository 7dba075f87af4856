import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.measure.latency.critical_path import CriticalPath, PathHistory, critical_path
from ridgeline.measure.topology import Topology, chain
from support.depth import deep
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


def test_a_slower_operator_moves_the_path():
    topology = seed_graph()
    found = critical_path(topology, by_id(topology, {**SEED, "D": 0.18}))
    assert (titles(topology, found.path), found.latency_seconds) == ("ABD", pytest.approx(0.185))


def test_equal_paths_are_ordered_by_their_titles_whatever_the_error_of_sums():
    places = {"A": (0, 0), "Z": (1, 1), "M": (2, 1), "N": (3, 2), "Y": (4, 2)}
    topology = graph(places, ["AZ", "AM", "ZN", "MY"])
    own = {
        "A": 0.1,
        "Z": 0.2,
        "N": 0.3,
        "M": 0.3,
        "Y": 0.2,
    }  # 0.1 + (0.2 + 0.3) and 0.1 + (0.3 + 0.2) by other ways
    assert titles(topology, critical_path(topology, by_id(topology, own)).path) == "AMY"
    assert titles(topology, critical_path(topology, {}).path) == "AMY"


def test_unifiers_are_on_the_path():
    topology = graph(
        {"p": (0, 0), "q": (1, 0), "u": (2, 1), "S": (2, 1)},
        ["pu", "qu", "uS"],
        unifiers={"u"},
        names={"u": "p"},
    )
    assert (
        titles(
            topology, critical_path(topology, by_id(topology, {"p": 1.0, "q": 2.0, "u": 1.0, "S": 0.5})).path
        )
        == "quS"
    )


def test_an_operator_that_did_not_report_counts_nothing():
    topology = chain("A", "B", "C")
    assert critical_path(topology, {1: 1.0, 3: 2.0}) == CriticalPath(3.0, (1, 2, 3))


def test_no_operators_no_path():
    assert critical_path(Topology((), ()), {}) == CriticalPath(0.0, ())


@settings(deadline=None, max_examples=deep(30))
@given(graphs(), st.data())
def test_no_path_is_longer_for_any_durations(topology, data):
    own = {node.id: data.draw(st.floats(0.0, 1e5)) for node in topology.operators}
    longest = max(math.fsum(own[operator] for operator in path) for path in all_paths(topology))
    found = critical_path(topology, own)
    assert found.latency_seconds == pytest.approx(longest, rel=1e-9, abs=1e-9)
    assert found.latency_seconds == math.fsum(own[operator] for operator in found.path)


def test_the_share_is_over_the_last_windows():
    topology = seed_graph()
    number = ids(topology)
    history = PathHistory(windows=4)
    assert history.share(10) == {}
    for window_id, path in enumerate(["ABD", "ABD", "ACE", "ACE", "ACF"]):
        history.add(window_id, tuple(number[title] for title in path))
    assert history.share(1) == {number["A"]: 1.0, number["C"]: 1.0, number["F"]: 1.0}
    assert history.share(3) == {number["A"]: 1.0, number["C"]: 1.0, number["E"]: 2 / 3, number["F"]: 1 / 3}
    assert history.share(100)[number["B"]] == 0.25  # the first window is forgotten
    assert history.share(2, until=2) == {
        number["A"]: 1.0,
        number["B"]: 0.5,
        number["D"]: 0.5,
        number["C"]: 0.5,
        number["E"]: 0.5,
    }
