"""CriticalPathPolicy: partitions for what bounds latency or throughput, and for nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.policies import CriticalPathPolicy
from support.policies.model_application import Model, Step


def _chain(**of_work: float) -> list[Step]:
    return [
        Step("source", 0.00001, is_input=True),
        Step("work", **{"cost": 0.001, **of_work}),  # type: ignore[arg-type]  # counts are whole here
        Step("sink", 0.00001),
    ]


def test_settles_in_three_steps_after_a_step_of_load_and_works_the_backlog_off() -> None:
    model = Model(_chain(), lambda second: 200 if second < 100 else 3000)
    model.run(CriticalPathPolicy(max_slots=8), 900)
    assert len([at for at, note in model.log if at >= 100 and "slack" not in note]) <= 3, model.log
    assert model.capacity() > 3000
    assert model.backlog < 3000


def test_takes_back_when_the_load_is_gone_but_not_while_a_backlog_is_worked_off() -> None:
    model = Model(_chain(), lambda second: 3000 if second < 200 else 4)
    model.run(CriticalPathPolicy(max_slots=8), 1500)
    assert model.plans[150]["work"] >= 4
    assert model.plans[-1]["work"] < 4
    assert all("slack" not in note for at, note in model.log if at < 200)


def test_does_not_divide_what_is_hot() -> None:
    model = Model(_chain(hot=0.97, partitions=2), lambda _: 900)
    model.run(CriticalPathPolicy(max_slots=8), 300)
    assert model.plans[-1]["work"] == 2, model.log


def test_does_not_divide_a_wait_or_transfer() -> None:
    model = Model(_chain(cost=0.00001, fixed=0.2), lambda _: 100)
    model.run(CriticalPathPolicy(max_slots=8), 300)
    assert model.plans[-1]["work"] == 1, model.log


def test_gives_nothing_that_an_input_cannot_feed() -> None:
    steps = [Step("source", 0.001, is_input=True), Step("work", 0.0007), Step("sink", 0.00001)]
    model = Model(steps, lambda _: 5000)
    model.run(CriticalPathPolicy(max_slots=8), 300)
    assert model.plans[-1]["source"] == 1
    assert model.plans[-1]["work"] <= 2, model.log


def test_remembers_what_is_refused() -> None:
    model = Model(_chain(refuses=True), lambda _: 900)
    model.run(CriticalPathPolicy(max_slots=8), 2000)
    assert len(model.log) <= 8, model.log


def test_takes_back_what_did_not_help_and_says_so() -> None:
    model = Model(_chain(cost=0.0015, unifier=0.3), lambda _: 300)
    model.run(CriticalPathPolicy(max_slots=4), 1000)
    assert any("back to 1 partitions" in note for _, note in model.log), model.log
    assert model.plans[-1]["work"] == 1, model.log
    assert len(model.log) <= 8


def test_takes_nothing_back_in_a_pause() -> None:
    model = Model(_chain(), lambda second: 0 if second // 100 % 2 else 2000)
    model.run(CriticalPathPolicy(max_slots=8), 1800)
    assert not [note for _, note in model.log if "slack" in note]
    assert len(model.log) <= 4, model.log


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_keeps_to_too_few_slots(slots: int) -> None:
    model = Model(_chain(), lambda _: 9000, slots=slots)
    model.run(CriticalPathPolicy(max_slots=16), 300)
    assert max(plan["work"] for plan in model.plans) <= slots


@settings(max_examples=15, deadline=None)
@given(
    load=st.floats(1, 6000),
    cost=st.floats(0.0001, 0.002),
    hot=st.floats(0, 0.9),
    unifier=st.floats(0, 0.05),
    noise=st.floats(0, 0.1),
)
def test_never_oscillates_under_constant_load(
    load: float, cost: float, hot: float, unifier: float, noise: float
) -> None:
    model = Model(
        _chain(cost=cost, hot=hot, unifier=unifier),
        lambda second: load * (1 + noise * (second * 7 % 11 - 5) / 5),
    )
    model.run(CriticalPathPolicy(max_slots=8), 1500)
    late = [entry for entry in model.log if entry[0] > 1000]
    assert not late, model.log
