from dataclasses import replace

import pytest

from ridgeline.measure.events import SparkTrigger, WindowPlanned
from ridgeline.measure.latency.fold import LatencyFold
from ridgeline.measure.latency.window import Windows
from ridgeline.measure.topology import Topology
from support.measure.simulated_window import BASE, SEED_MS, SEED_PLACES, graph, run, seed_graph
from support.measure.story import TOPOLOGY, begin, burst, measured

TASKS = {2: "t", 3: "t", 5: "t"}
"""C, D and F share a slot: D waits for C, though it needs B only, and F for D."""


def close(value):
    return pytest.approx(value, abs=1e-3)


def fed(*windows, topology=None, **options):
    """A fold that took in windows with these compute times, one second apart."""
    fold, topology = LatencyFold(**options), topology or seed_graph()
    fold.planned(topology)
    times = [
        run(
            topology,
            {**SEED_MS, **compute},
            tasks=TASKS,
            window_id=number,
            began=BASE + number,
            due=BASE + number - 0.1,
        )
        for number, compute in enumerate(windows)
    ]
    for several in (times[:-3], times[-3:-1], times[-1:]):
        if several:
            fold.add(Windows(topology, several), [0] * len(several), [()] * len(several))
    return fold


def row(answer, title, key="operators"):
    return next(found for found in answer[key] if found["operator"] == title)


def test_before_the_first_window_there_is_nothing():
    fold = LatencyFold()
    assert fold.latency() == {"windowId": None, "operators": [], "logical": [], "clamps": 0}
    path = fold.critical_path()
    assert [path[name] for name in ("windowId", "latencyMs", "path", "blame")] == [None, None, [], []]
    assert fold.windows() == []
    with pytest.raises(KeyError, match="window 3 is not known; none is committed yet"):
        fold.window(3)


def test_the_critical_path_of_the_figure():
    found = fed({}).critical_path()
    times = ("latencyMs", "computeMs", "transferMs")
    assert [(step["operator"], step["id"], *(step[name] for name in times)) for step in found["path"]] == [
        ("A", 1, 0.0, 0.0, 0.0),
        ("C", 3, close(100), close(100), close(0)),
        ("E", 5, close(20), close(20), close(0)),
    ]
    assert (found["windowId"], found["latencyMs"], found["windowLatencyMs"]) == (0, close(120), close(132))
    assert found["slack"] == {"B": close(85), "D": close(85), "F": close(18)}
    assert [tuple(step.values()) for step in found["blame"]] == [
        ("compute", "C", close(100)),
        ("slot", "D", close(30)),
        ("compute", "F", close(2)),
    ]
    assert found["average"] == {"latencyMs": close(120), "path": ["A", "C", "E"]}
    assert found["share"] == found["logicalShare"] == {"A": 1.0, "C": 1.0, "E": 1.0}


def test_parts_of_the_path_add_up_to_it_though_operators_wait():
    fold = fed({"D": 180})
    path = fold.critical_path()
    waits = {found["operator"]: found["waitMs"] for found in fold.latency()["operators"]}
    assert any(waits[step["operator"]] > 0 for step in path["path"])
    wanted = {step["operator"]: step["latencyMs"] / path["latencyMs"] for step in path["path"]}
    assert fold.parts_of_path() == pytest.approx(wanted)
    assert sum(fold.parts_of_path().values()) == pytest.approx(1.0)
    assert LatencyFold().parts_of_path() == {}


def test_the_latency_of_an_operator_with_its_averages_and_percentiles():
    answer = fed(*({"B": 10 * number} for number in range(1, 21))).latency(behind={2: 4})
    assert answer["windowId"] == 19
    found = row(answer, "B")
    assert (found["id"], found["name"], found["cpuMs"], found["windowsBehind"]) == (2, "B", None, 4)
    assert (found["latencyMs"], found["computeMs"], found["waitMs"]) == (close(200), close(200), 0.0)
    assert found["averageMs"] == close(155)  # of the last ten: 110 to 200
    assert (found["p50Ms"], found["p99Ms"]) == pytest.approx((100, 200), rel=0.01)  # of all
    assert row(answer, "C")["windowsBehind"] == 0


def test_the_path_follows_the_operator_that_became_slow():
    answer = fed(*[{}] * 8, {"D": 180}, {"D": 180}).critical_path()
    assert [step["operator"] for step in answer["path"]] == ["A", "B", "D"]
    assert answer["average"] == {"latencyMs": close(120), "path": ["A", "C", "E"]}  # D is 60 on average
    assert answer["share"] == {"A": 1.0, "B": 0.2, "D": 0.2, "C": 0.8, "E": 0.8}


def test_a_window_of_the_past_is_shown_as_it_was():
    fold = fed({"D": 200}, {}, {})
    answer = fold.critical_path(0)
    assert (answer["windowId"], [step["operator"] for step in answer["path"]]) == (0, ["A", "B", "D"])
    assert answer["average"]["path"] == ["A", "B", "D"]
    assert answer["share"] == {"A": 1.0, "B": 1.0, "D": 1.0}
    assert row(fold.latency(1), "D")["averageMs"] == close(
        (200 + 95 + 30 + 95) / 2
    )  # the wait behind C is 95 each time


def test_windows_are_summed_up_newest_last():
    fold = fed({}, {"D": 180}, {})
    assert [found["windowId"] for found in fold.windows()] == [0, 1, 2]
    assert fold.windows(0) == []
    row = fold.windows(2)[0]
    assert (row["windowId"], row["attempts"], row["path"]) == (1, 1, ["A", "B", "D"])
    assert (row["latencyMs"], row["lateMs"], row["criticalPathMs"]) == (close(282), close(100), close(185))
    assert (row["tuplesIn"], row["tuplesOut"], row["committedAt"]) == (5, 30, close(BASE + 1.282))
    assert row["phases"] == {"compute": close(102), "slot": close(180)}
    whole = fold.window(1)
    assert whole["blame"] == fold.critical_path(1)["blame"]
    assert whole["operators"] == fold.latency(1)["operators"]
    assert {key: whole[key] for key in fold.windows(2)[0]} == fold.windows(2)[0]


def test_only_the_last_windows_are_kept():
    fold = fed(*[{}] * 30, history=12)
    assert [found["windowId"] for found in fold.windows()] == list(range(18, 30))
    with pytest.raises(KeyError, match="window 17 is not known; kept are 18 to 29"):
        fold.critical_path(17)


def test_sparks_account_that_comes_late_replaces_the_window():
    fold = fed({}, {})
    before, counted = fold.latency(), fold.critical_path()["share"]
    assert fold.add_trigger(SparkTrigger(BASE + 3, 1, BASE + 0.96, {"latestOffset": 0.03}))
    assert not fold.add_trigger(SparkTrigger(BASE + 3, 2, BASE + 0.96, {"latestOffset": 0.03}))
    assert fold.critical_path()["blame"][:2] == [
        {"what": "offsets", "operator": "", "ms": close(30)},
        {"what": "trigger", "operator": "", "ms": close(10)},
    ]
    assert fold.windows(1)[0]["latencyMs"] == close(172)
    assert [found["windowId"] for found in fold.windows()] == [0, 1]
    assert fold.latency() == before
    assert fold.critical_path()["share"] == counted


def test_partitions_with_their_unifiers_are_one_logical_operator():
    places = {"p[0]": (0, 0), "p[1]": (1, 0), "u": (2, 1), "S": (2, 1)}
    streams = [("p[0]", "u"), ("p[1]", "u"), ("u", "S")]
    topology = graph(places, streams, unifiers={"u"}, names={"p[0]": "p", "p[1]": "p", "u": "p"})
    fold = LatencyFold()
    fold.planned(topology)
    times = run(topology, {"p[0]": 10, "p[1]": 30, "u": 5, "S": 2})
    fold.add(Windows(topology, [times]), [0], [()])
    rows = fold.latency()["logical"]
    assert [found["operator"] for found in rows] == ["p", "S"]
    for found, ms in zip(rows, (35, 2), strict=True):
        assert [found[name] for name in ("latencyMs", "averageMs", "computeMs")] == [close(ms)] * 3
        assert [found[name] for name in ("p50Ms", "p99Ms")] == [pytest.approx(ms, rel=0.01)] * 2
        assert (found["waitMs"], found["transferMs"], found["estimated"]) == (0.0, close(0), False)


def test_a_new_plan_drops_the_operators_that_are_gone():
    fold = fed({"B": 40}, {"B": 60})
    larger = graph({**SEED_PLACES, "X": (9, 1)}, ["AB", "AX"])
    smaller = Topology(tuple(node for node in larger.operators if node.title in "ABX"), larger.streams)
    fold.planned(smaller)
    fold.add(Windows(smaller, [run(smaller, {"A": 1, "B": 80, "X": 3}, window_id=2)]), [0], [()])
    answer = fold.latency()
    assert [found["operator"] for found in answer["operators"]] == ["A", "B", "X"]
    assert row(answer, "B")["averageMs"] == close(60)
    assert row(answer, "B")["p50Ms"] == pytest.approx(60, rel=0.01)
    assert row(answer, "X")["averageMs"] == close(3)
    assert row(answer, "X")["p99Ms"] == pytest.approx(3, rel=0.01)
    old = row(fold.latency(1), "C")
    assert (old["latencyMs"], old["p50Ms"]) == (close(100), None)
    assert fold.critical_path()["share"]["A"] == 1.0


def test_clocks_that_disagree_are_counted():
    topology = graph({"A": (0, 0), "B": (1, 1)}, ["AB"])
    times = run(topology, {"A": 10, "B": 20})
    early = replace(times.operators[2], began=BASE - 1, ended=BASE - 0.9)
    fold = LatencyFold()
    fold.planned(topology)
    times = replace(times, operators={1: times.operators[1], 2: early})
    fold.add(Windows(topology, [times]), [0], [()])
    assert (fold.clamps, fold.latency()["clamps"]) == (1, 1)


# Operators that have fallen out of the last windows ---------------------------------------------------------


@pytest.mark.parametrize(("behind", "estimated"), [(5, False), (40, True)])
def test_an_operator_further_behind_than_windows_are_kept_is_as_late_as_that(behind, estimated):
    """Windows of a second; 20 are kept. The window ends `behind` windows after the schedule says."""
    first, *rest = begin(0)
    planned = WindowPlanned(first.at, 0, 0, first.at - behind - 1.0)
    measurement = measured(planned, *rest, *burst(0), stats_max_allowable_windows_lag=20)
    rows = {row["operator"]: row for row in measurement.latency(1.0)["operators"]}
    assert not rows["read"]["estimated"]
    for name in ("sum", "write"):
        assert rows[name]["estimated"] == estimated
        assert (rows[name]["latencyMs"] >= 1000.0 * (behind - 1)) == estimated
    assert len(rows) == len(TOPOLOGY.operators)
