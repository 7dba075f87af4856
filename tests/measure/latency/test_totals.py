"""Latencies since the start, against sums by hand."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from ridgeline.measure.events import LineTime
from ridgeline.measure.latency.line_times import LineTimes
from ridgeline.measure.latency.totals import LatencyTotals
from ridgeline.measure.metric import LATENCY_BOUNDS_SECONDS
from ridgeline.measure.topology import OperatorNode, Topology
from support.measure.partitioned import chain

NAN = float("nan")


def figures(*columns):
    """One column (latency, compute, wait, transfer, cpu) for each operator; cpu is half of the compute."""
    return np.array([(*column, column[1] / 2) for column in columns]).T


def test_sums_and_counts_by_operator():
    totals, topology = LatencyTotals(), chain("a", "b")
    totals.add(topology, figures((0.001, 0.001, 0.0, 0.0), (0.3, 0.1, 0.15, 0.05)))
    totals.add(topology, figures((0.002, 0.002, 0.0, 0.0), (700.0, 600.0, 60.0, 40.0)))
    (first, a), (second, b) = totals.rows()
    assert (first.title, second.title) == ("a", "b")
    assert (a.latency, a.compute, a.wait, a.transfer) == pytest.approx((0.003, 0.003, 0.0, 0.0))
    assert a.counts[:3] == (1, 2, 2)  # a bound is inclusive: 0.001 is up to 0.001
    assert (b.latency, b.compute, b.wait, b.transfer) == pytest.approx((700.3, 600.1, 60.15, 40.05))
    assert b.counts[LATENCY_BOUNDS_SECONDS.index(0.25)] == 0
    assert b.counts[LATENCY_BOUNDS_SECONDS.index(0.5)] == 1
    assert b.counts[-2:] == (1, 2)  # beyond the last bound
    assert (a.cpu, b.cpu) == pytest.approx((0.0015, 300.05))


def test_who_did_not_report_is_not_counted():
    totals = LatencyTotals()
    totals.add(chain("a", "b"), figures((0.1, 0.1, 0.0, 0.0), (NAN, NAN, NAN, NAN)))
    (_, a), (_, b) = totals.rows()
    assert (a.counts[-1], b.counts[-1], b.latency) == (1, 0, 0.0)


def test_a_new_plan_keeps_those_that_it_still_has():
    totals = LatencyTotals()
    totals.add(chain("a", "b"), figures((0.1, 0.1, 0.0, 0.0), (0.2, 0.2, 0.0, 0.0)))
    totals.add(chain("a", "c"), figures((0.1, 0.1, 0.0, 0.0), (0.4, 0.4, 0.0, 0.0)))
    (_, a), (other, c) = totals.rows()
    assert (a.counts[-1], a.compute) == (2, pytest.approx(0.2))
    assert (other.title, c.counts[-1], c.compute) == ("c", 1, pytest.approx(0.4))


def test_windows_and_their_blame():
    totals = LatencyTotals()
    totals.add_window(0.25, [(("compute", "a"), 0.2), (("commit", ""), 0.05)])
    totals.add_window(0.5, [(("compute", "a"), 0.5)])
    window = totals.window()
    assert window.latency == pytest.approx(0.75)
    assert window.counts[LATENCY_BOUNDS_SECONDS.index(0.25)] == 1
    assert window.counts[-1] == 2
    assert window.blame == pytest.approx({("compute", "a"): 0.7, ("commit", ""): 0.05})


# The fold of time by line: what it keeps, and what its shares add up to -------------------------------------


def node(number: int, name: str) -> OperatorNode:
    return OperatorNode(number, name, f"{name}[{number}]", "C", number, 2, False, "operator", False, 0, 0)


TOPOLOGY = Topology((node(0, "parse"), node(1, "parse"), node(2, "book")), ())


def test_partitions_are_added_and_old_messages_left_out() -> None:
    random.seed(7)
    times, wanted = LineTimes(), Counter()
    for second in range(200):
        operator, line = random.randrange(4), random.randrange(3)
        times.add(float(second), [LineTime(operator, "f.py", line, "f", "text", 0.5)], TOPOLOGY)
        if second >= 139 and operator < 3:  # 3 is in no plan
            wanted["book" if operator == 2 else "parse", line] += 0.5
    answer = times.answer(199.0, {"parse": 0.8})
    found = {
        (one["operator"], row["line"]): row["seconds"] for one in answer["operators"] for row in one["lines"]
    }
    assert found == pytest.approx(dict(wanted))
    for one in answer["operators"]:
        assert sum(row["share"] for row in one["lines"]) == pytest.approx(1)
        of_path = 0.8 if one["operator"] == "parse" else 0.0
        assert sum(row["ofPath"] for row in one["lines"]) == pytest.approx(of_path)
    assert [one["operator"] for one in times.answer(199.0, {}, "book")["operators"]] == ["book"]
