"""CriticalPathPolicy: partitions for what bounds latency or throughput, and for nothing else."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ridgeline.measure.deciding.capacity import busy_share, predicted_busy
from ridgeline.measure.deciding.figures import Edge
from ridgeline.policies import CriticalPathPolicy
from ridgeline.policies.model import predicted_latency, reachable_gain
from support.policies.model_application import Model, Step


def _chain(**of_work: float) -> list[Step]:
    return [
        Step("source", 0.00001, is_input=True),
        Step("work", **{"cost": 0.001, **of_work}),  # type: ignore[arg-type]  # counts are whole here
        Step("sink", 0.00001),
    ]


def test_gives_nothing_that_an_input_cannot_feed() -> None:
    steps = [Step("source", 0.001, is_input=True), Step("work", 0.0007), Step("sink", 0.00001)]
    model = Model(steps, lambda _: 5000)
    model.run(CriticalPathPolicy(max_slots=8), 300)
    assert model.plans[-1]["source"] == 1
    assert model.plans[-1]["work"] <= 2, model.log


def test_takes_back_what_did_not_help_and_says_so() -> None:
    model = Model(_chain(cost=0.0015, unifier=0.3), lambda _: 300)
    model.run(CriticalPathPolicy(max_slots=4), 1000)
    assert any("back to 1 partitions" in note for _, note in model.log), model.log
    assert model.plans[-1]["work"] == 1, model.log
    assert len(model.log) <= 8


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_keeps_to_too_few_slots(slots: int) -> None:
    model = Model(_chain(), lambda _: 9000, slots=slots)
    model.run(CriticalPathPolicy(max_slots=16), 300)
    assert max(plan["work"] for plan in model.plans) <= slots


def test_what_helped_is_not_taken_back() -> None:
    model = Model(_chain(cost=0.0015, unifier=0.3), lambda _: 300)
    policy = CriticalPathPolicy(max_slots=4)
    for second in range(1000):
        answer = policy.decide(model.figures(second))
        if answer is not None:
            model.log.append((second, answer.note))
            model.version += model.apply(answer.edits)
            policy.told(answer, "HELPED")
    assert not any("back to" in note for _, note in model.log), model.log


def test_each_slot_must_bring_what_it_costs() -> None:
    # from 8 ms to 2 ms with four: 4 ms for the first slot more, below what one is worth
    model = Model(_chain(cost=0.00008, unifier=0.0), lambda _: 200)
    model.run(CriticalPathPolicy(max_slots=4, worth_seconds=0.005), 100)
    assert model.log == []


def test_nothing_is_given_where_all_processors_are_busy() -> None:
    steps = [
        Step("source", 0.00001, is_input=True),
        Step("one", 0.0009),
        Step("other", 0.00095),
        Step("sink", 0.00001),
    ]
    model = Model(steps, lambda _: 1000, slots=2)
    model.run(CriticalPathPolicy(), 100)
    assert model.log == []


# What another number of partitions would bring --------------------------------------------------------------


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
