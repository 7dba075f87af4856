"""Policies with bounds, for backlogs, and by the hour."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from ridgeline.policies import BacklogBounds, CatchUpTime, LatencyBounds, Schedule, ThroughputBounds
from support.policies.model_application import Model, Step


def _chain(cost: float = 0.001, partitions: int = 1) -> list[Step]:
    return [Step("source", 0.00001, is_input=True), Step("work", cost, partitions)]


def test_throughput_grows_at_once_and_does_not_go_to_and_fro() -> None:
    model = Model(_chain(0.0001), lambda _: 1000)
    model.run(ThroughputBounds(operator="work", at_most=300, at_least=260), 600)
    assert len(model.log) == 1
    assert model.plans[-1]["work"] == 4


def test_latency_gives_one_more_only_where_it_helps() -> None:
    model = Model(_chain(), lambda _: 900).run(LatencyBounds(operator="work", at_most="200ms"), 300)
    assert model.latencies[-1] < 0.25
    stuck = [Step("source", 0.00001, is_input=True), Step("work", 0.00001, fixed=0.4)]
    assert not Model(stuck, lambda _: 900).run(LatencyBounds(operator="work", at_most="200ms"), 300).log


def test_backlog_gives_more_until_it_gets_fewer() -> None:
    model = Model(_chain(), lambda _: 2500).run(BacklogBounds(operator="work", at_most=5000), 600)
    assert model.backlog < 5000


def test_catch_up_gives_as_many_as_it_takes() -> None:
    model = Model(_chain(), lambda _: 1800, backlog=60_000).run(
        CatchUpTime(operator="work", within="2m"), 400
    )
    assert len(model.log) <= 2
    assert model.backlog < 3600


def test_schedule_goes_by_the_hour_and_leaves_what_others_change_between() -> None:
    model = Model(_chain(), lambda _: 10).run(
        Schedule(operator="work", partitions={"00:10": 3, "00:20": 1}), 1500
    )
    assert [at for at, _ in model.log] == [600, 1200]


def test_bounds_that_cross_and_unknown_zones_are_refused() -> None:
    with pytest.raises(ValidationError, match="give a smaller `at_least`"):
        ThroughputBounds(operator="work", at_most=1, at_least=2)
    with pytest.raises(ValidationError, match="no time zone `Nowhere`"):
        Schedule(operator="work", partitions={"08:00": 1}, timezone="Nowhere")
