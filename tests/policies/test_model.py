"""What another number of partitions would bring."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ridgeline.measure.deciding.figures import Edge
from ridgeline.policies.model import busy_share, predicted_busy, predicted_latency, reachable_gain
from support.policies.model_application import Model, Step


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


def _shared(slots: int, processes: list[int], utilization: float = 0.4) -> Any:
    """An operator with a partition in each of these processes."""
    [step] = [Step("work", 0.001, partitions=len(processes))]
    one: Any = Model([step], lambda _: 100.0).figures(0).operators["work"]
    one.slots = slots
    one.by_partition = tuple(
        replace(part, process=process, utilization=utilization, tuples_in=10)
        for part, process in zip(one.by_partition, processes, strict=True)
    )
    one.utilization = utilization
    return one


def test_partitions_that_share_a_slot_are_one_processor() -> None:
    one = _shared(2, [7, 7, 8, 8])
    assert busy_share(one) == pytest.approx(0.8)
    assert predicted_busy(one, 5) == pytest.approx(0.8)  # there is no third slot
    assert predicted_busy(one, 1) == pytest.approx(1.6)
    more = _shared(4, [7, 7, 8, 8])  # slots that it does not have are not expected
    assert predicted_busy(more, 8) == pytest.approx(0.8)
    apart = _shared(8, [1, 2, 3, 4])
    assert (busy_share(apart), predicted_busy(apart, 8)) == (pytest.approx(0.4), pytest.approx(0.2))


def test_more_partitions_in_as_many_slots_are_not_faster() -> None:
    one = _shared(2, [7, 7, 8, 8])
    assert (predicted_latency(one, 6) or 0.0) >= one.latency.p50_seconds
