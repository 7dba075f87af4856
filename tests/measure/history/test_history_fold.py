"""The history over hours: figures beside those of numpy over the same windows, and what bounds it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from ridgeline.measure.events import AgeSample, WindowCommitted
from ridgeline.measure.history import fold as history_fold
from ridgeline.measure.history.fold import HistoryFold, application_history, operator_history
from ridgeline.measure.latency.operator_latency import SHOWN
from ridgeline.measure.latency.window import Windows, WindowTimes
from support.measure.latency_by_hand import logical_by_hand
from support.measure.reports import of_reports
from support.measure.simulated_window import BASE, graph, operator_ended

RELATIVE_ERROR = 1e-6
NEAR = pytest.approx
TOLERANCE = {"rel": 2 * RELATIVE_ERROR, "abs": 1e-3}


def chain_graph(partitions=1, sink="sink"):
    """read -> work (with a unifier, if it has several partitions) -> sink."""
    parts = [f"work[{number}]" for number in range(partitions)]
    titles = ["read", *parts, *(["unify"] if partitions > 1 else []), sink]
    last = "unify" if partitions > 1 else "work[0]"
    streams = [("read", one) for one in parts]
    streams += [(one, "unify") for one in parts] if partitions > 1 else []
    names = {**dict.fromkeys(parts, "work"), "unify": "work"}
    places = {title: (number, number) for number, title in enumerate(titles)}
    return graph(places, [*streams, (last, sink)], unifiers={"unify"}, names=names)


class Feed:
    """Windows of random figures, given to a fold and kept for comparison."""

    def __init__(self, seed=1, width=1.0):
        self.fold, self.random, self.width = HistoryFold(), np.random.default_rng(seed), width
        self.number, self.rows = 0, []

    def window(self, topology, at, tuples=10, age=None):
        """A window that was committed at a time; returns its latencies by logical operator."""
        size = len(topology.operators)
        parts = self.random.exponential(0.01, (3, size))
        figures = np.vstack([parts.sum(axis=0), parts, np.zeros((2, size))])
        events = {
            node.id: operator_ended(
                self.number,
                node.id,
                0.0,
                {"input": tuples},
                {"output": tuples},
                errors=1,
                late=2,
                state_bytes=100,
            )
            for node in topology.operators
        }
        latency = float(figures[0].max())
        began = at - latency
        clock = (began, began, began, began, at, at, at, at)
        reported = of_reports(*events.values())
        times = WindowTimes(WindowCommitted(at, self.number, 1, *clock[1:]), began, reported)
        chains = SimpleNamespace(sums=lambda *_: {})
        folded = SimpleNamespace(
            figures=figures[None],
            logical=topology.logical.latencies(figures[None, SHOWN]),
            counts=Windows(topology, [times]).counts,
            paths=np.zeros((1, 1), np.intp),
            windows=[SimpleNamespace(chains=chains, row=0, topology=topology, times=times)],
        )
        self.fold.add(folded, [()], self.width)
        if age is not None:
            self.fold.age("sink", AgeSample("commit", 2, 0, age, age, 2 * age, age), 0.5)
        self.number += 1
        by_id = {node.id: tuple(figures[:4, place]) for place, node in enumerate(topology.operators)}
        found = {name: one[0] for name, one in logical_by_hand(topology, by_id).items()}
        self.rows.append((at, latency, found))


def steps(feed, name="work", begin=0.0, step=None):
    now = feed.rows[-1][0]
    return operator_history(feed.fold, name, now, begin, step)["steps"]


def test_the_application_has_percentiles_and_the_ages_of_its_outputs():
    feed, topology = Feed(), chain_graph(2)
    for number in range(100):
        feed.window(topology, BASE + 0.5 * number, age=1.0 + number / 100)
    answer = application_history(feed.fold, feed.rows[-1][0], -3600.0, 60)
    assert (answer["step"], answer["keptSeconds"]) == (60, 86_400)
    taken = iter(feed.rows)
    for row in answer["steps"]:
        latencies = [1000 * next(taken)[1] for _ in range(row["windows"])]
        assert row["latencyMs"] == NEAR(np.median(latencies), rel=1e-5)
        assert row["p99Ms"] == NEAR(np.quantile(latencies, 0.99), rel=1e-5)
        assert row["greatestMs"] == NEAR(max(latencies), rel=1e-5)
        assert [one["operator"] for one in row["ages"]] == ["sink"]
    ages = [one for row in answer["steps"] for one in row["ages"]]
    assert max(one["greatestAgeMs"] for one in ages) == NEAR(2490.0, **TOLERANCE)
    assert sum(row["windows"] * one["ageMs"] for row, one in zip(answer["steps"], ages, strict=True)) == NEAR(
        sum(1500.0 + 10 * number for number in range(100)), **TOLERANCE
    )


def test_when_readers_see_records_counts_more_than_when_they_are_committed():
    feed, topology = Feed(), chain_graph()
    feed.window(topology, BASE, age=1.0)
    feed.fold.age("sink", AgeSample("publish", 1, 0, 7.0, 7.0, 7.0, 7.0), 0.0)
    feed.window(topology, BASE + 0.1, age=1.0)
    assert steps(feed, "sink", step=1)[-1]["ageMs"] == NEAR(7000.0, **TOLERANCE)
    feed.window(topology, BASE + 10, age=1.0)
    assert steps(feed, "sink", step=1)[-1]["ageMs"] is None  # nothing of it is published yet
    assert steps(feed, "work", step=1)[-1]["ageMs"] is None


def test_an_operator_that_is_removed_and_added_again_has_a_gap():
    feed, whole, less = Feed(), chain_graph(), graph({"read": (0, 0), "sink": (1, 1)}, [("read", "sink")])
    for number in range(90):
        feed.window(less if 30 <= number < 60 else whole, BASE + number)
    at = [row["at"] - BASE for row in steps(feed, step=1)]
    assert at == [*range(30), *range(60, 90)]
    assert len(steps(feed, "read", step=1)) == 90
    assert sum(row["windows"] for row in steps(feed, step=60)) == 60
    assert sum(row["windows"] for row in steps(feed, "read", step=60)) == 90


def test_what_leaves_the_application_is_counted_by_the_plan_of_each_window():
    feed, places = Feed(), {"a": (0, 0), "b": (1, 1), "c": (2, 2)}
    for number, streams in enumerate((["ab", "bc"], ["ab", "ac"])):
        feed.window(graph(places, streams), BASE + 1.5 * number)
    found = application_history(feed.fold, BASE + 2, 0.0, 10)["steps"]
    assert sum(row["tuplesOut"] * row["seconds"] for row in found) == NEAR(30)


def test_time_in_which_no_window_is_due_is_no_part_of_a_rate():
    feed, topology = Feed(), chain_graph()
    for at in (0, 1, 2, 3600, 3601):
        feed.window(topology, BASE + at)
    assert [row["tuplesIn"] for row in steps(feed, step=1)[1:]] == [NEAR(10.0, rel=0.2)] * 4


def test_a_clock_that_is_set_back_drops_what_is_later():
    feed, topology = Feed(), chain_graph()
    for number in range(100):
        feed.window(topology, BASE + number)
    for number in range(100):
        feed.window(topology, BASE + 50 + number / 100)  # within a second
    for step in (1, 10, 60):
        rows = steps(feed, step=step)
        assert [row["at"] for row in rows] == sorted(row["at"] for row in rows)
        assert all(row["at"] <= BASE + 51 for row in rows)
        assert all(row["tuplesIn"] < 100_000 for row in rows)
    assert sum(row["windows"] for row in steps(feed, step=1)) == 151


def test_a_window_that_comes_again_counts_once():
    feed, topology = Feed(), chain_graph()
    feed.window(topology, BASE)
    feed.number = 0
    feed.window(topology, BASE)
    assert [row["windows"] for row in steps(feed, step=1)] == [1]


def test_many_operators_have_longer_steps_in_the_same_memory(monkeypatch):
    monkeypatch.setattr(history_fold, "MOST_BYTES", 3 * history_fold._OPERATOR_BYTES / 4)
    feed, topology = Feed(), chain_graph()
    for number in range(3 * 60):
        feed.window(topology, BASE + number)
    answer = operator_history(feed.fold, "work", feed.rows[-1][0])
    assert (answer["step"], answer["keptSeconds"]) == (5, 900)
    assert {row["windows"] for row in answer["steps"][1:-1]} == {5}
    kept = sum(level.kept.maxlen for level in feed.fold._levels)
    assert kept * 3 * 60 <= history_fold.MOST_BYTES


@pytest.mark.parametrize("partitions", [1, 2, 3, 5])
def test_latencies_of_logical_operators_are_those_of_a_window(partitions):
    topology = chain_graph(partitions)
    random = np.random.default_rng(partitions)
    parts = random.exponential(1.0, (50, 3, len(topology.operators)))
    figures = np.concatenate([parts.sum(axis=1, keepdims=True), parts], axis=1)
    figures[random.random((50, 1, len(topology.operators))).repeat(4, axis=1) < 0.3] = np.nan
    found = topology.logical.latencies(figures)
    for window, row in zip(figures, found, strict=True):
        by_id = {
            node.id: tuple(window[:, place])
            for place, node in enumerate(topology.operators)
            if not np.isnan(window[0, place])
        }
        expected = logical_by_hand(topology, by_id)
        for name, number in topology.logical.index.items():
            if name in expected:
                assert row[:, number] == NEAR(expected[name])
            else:
                assert np.isnan(row[:, number]).all()
