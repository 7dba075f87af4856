"""Latencies since the start, against sums by hand."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from ridgeline.measure.events import LineTime
from ridgeline.measure.latency.line_times import LineTimes
from ridgeline.measure.latency.since_start import LatencyTotals, Spreads, WindowTotals
from ridgeline.measure.metric import LATENCY_BOUNDS_SECONDS
from ridgeline.measure.topology import OperatorNode, Topology

NAN = float("nan")


def figures(*columns):
    """One column (latency, compute, wait, transfer, cpu) for each operator; cpu is half of the compute."""
    return np.array([(*column, column[1] / 2) for column in columns]).T[None]


def test_sums_and_counts_by_operator():
    totals = LatencyTotals()
    totals.planned("ab")
    totals.add(figures((0.001, 0.001, 0.0, 0.0), (0.3, 0.1, 0.15, 0.05)))
    totals.add(figures((0.002, 0.002, 0.0, 0.0), (700.0, 600.0, 60.0, 40.0)))
    a, b = totals.totals()
    assert (a.latency.total, a.compute, a.wait, a.transfer) == pytest.approx((0.003, 0.003, 0.0, 0.0))
    assert a.latency.counts[:3] == (1, 2, 2)  # a bound is inclusive: 0.001 is up to 0.001
    assert (b.latency.total, b.compute, b.wait, b.transfer) == pytest.approx((700.3, 600.1, 60.15, 40.05))
    assert b.latency.counts[LATENCY_BOUNDS_SECONDS.index(0.25)] == 0
    assert b.latency.counts[LATENCY_BOUNDS_SECONDS.index(0.5)] == 1
    assert b.latency.counts[-2:] == (1, 2)  # beyond the last bound
    assert (a.cpu, b.cpu) == pytest.approx((0.0015, 300.05))


def test_who_did_not_report_is_not_counted():
    totals = LatencyTotals()
    totals.planned("ab")
    totals.add(figures((0.1, 0.1, 0.0, 0.0), (NAN, NAN, NAN, NAN)))
    a, b = totals.totals()
    assert (a.latency.counts[-1], b.latency.counts[-1], b.latency.total) == (1, 0, 0.0)


def test_a_new_plan_keeps_those_that_it_still_has_and_a_plan_that_is_tried_loses_none():
    totals = LatencyTotals()
    totals.planned("ab")
    totals.add(figures((0.1, 0.1, 0.0, 0.0), (0.2, 0.2, 0.0, 0.0)))
    totals.planned("acd")
    totals.planned("ca")
    totals.add(figures((0.4, 0.4, 0.0, 0.0), (0.1, 0.1, 0.0, 0.0)))
    c, a = totals.totals()
    assert (a.latency.counts[-1], a.compute) == (2, pytest.approx(0.2))
    assert (c.latency.counts[-1], c.compute) == (1, pytest.approx(0.4))
    totals.planned("b")
    assert totals.totals()[0].compute == pytest.approx(0.2)


def test_a_thousand_keys_that_are_gone_are_kept():
    spreads = Spreads()
    spreads.planned(range(1_010))
    spreads.add(np.ones((1, 1_010)))
    spreads.planned("a")
    spreads.add(np.ones((1, 1)))
    spreads.planned([9, 10])
    assert [spreads.quantiles(one, (0.5,)) for one in (9, 10)] == [
        (None,),
        (pytest.approx(1, rel=0.0079),),
    ]


@pytest.mark.parametrize("windows", [1, 256, 775])
def test_percentiles_are_of_all_windows_in_which_an_operator_reported(windows):
    latencies = np.random.default_rng(1).lognormal(-3, 3, (windows, 3))
    latencies[::5, 1] = np.nan
    spreads = Spreads()
    spreads.planned("abc")
    for several in np.array_split(latencies, 3):
        spreads.add(several)
    for name, column in zip("abc", latencies.T, strict=True):
        values = np.sort(column[~np.isnan(column)])
        expected = [values[max(0, -(-len(values) * one // 100) - 1)] for one in (50, 99, 100) if len(values)]
        found = spreads.quantiles(name, (0.5, 0.99, 1.0))
        assert found == (pytest.approx(expected, rel=0.0079, abs=1e-4) if expected else (None, None, None))


def test_windows_and_their_blame():
    totals = WindowTotals()
    totals.add([0.25, 0.3], {("compute", "a"): 0.5, ("commit", ""): 0.05})
    totals.add([0.5], {("compute", "a"): 0.5})
    window = totals.total()
    assert window.latency.total == pytest.approx(1.05)
    assert window.latency.counts[LATENCY_BOUNDS_SECONDS.index(0.25)] == 1
    assert window.latency.counts[-1] == 3
    assert window.blame == pytest.approx({("compute", "a"): 1.0, ("commit", ""): 0.05})


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
