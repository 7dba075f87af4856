"""What another number of partitions would bring."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ridgeline.measure.deciding.figures import Edge
from ridgeline.policies.model import reachable_gain


def test_a_gain_is_bounded_by_paths_beside_the_operator_and_not_by_those_through_it() -> None:
    """The latency article's operators: A to C takes 100 ms, then E 20 and F 2; by B it is 35 ms to D."""
    slack = {"A": 0.0, "B": 0.085, "C": 0.0, "D": 0.085, "E": 0.0, "F": 0.018}
    operators = {
        name: SimpleNamespace(slack_seconds=seconds, critical_path_share=float(not seconds))
        for name, seconds in slack.items()
    }
    edges = [Edge(one + other, one, other, 1) for one, other in ("AB", "AC", "BD", "CE", "CF")]
    figures: Any = SimpleNamespace(operators=operators, edges=edges)
    assert reachable_gain(figures, "C", 0.05) == 0.05
    assert reachable_gain(figures, "C", 0.095) == 0.085
    assert reachable_gain(figures, "E", 0.02) == 0.018
