"""Policies with bounds, for backlogs, and by the hour."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest
from pydantic import ValidationError

from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort, stable_hash
from ridgeline.policies import Bounds, SkewPolicy
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.policies.model_application import Model, Step


def _chain(cost: float = 0.001, partitions: int = 1) -> list[Step]:
    return [Step("source", 0.00001, is_input=True), Step("work", cost, partitions)]


def test_throughput_grows_at_once_and_does_not_go_to_and_fro() -> None:
    model = Model(_chain(0.0001), lambda _: 1000)
    model.run(Bounds(operator="work", figure="tuples_per_partition", at_most=300, at_least=260), 600)
    assert len(model.log) == 1
    assert model.plans[-1]["work"] == 4


def test_latency_gives_one_more_only_where_it_helps() -> None:
    bounds = Bounds(operator="work", figure="latency_p99_seconds", at_most="200ms")
    model = Model(_chain(), lambda _: 900).run(bounds, 300)
    assert model.latencies[-1] < 0.25
    stuck = [Step("source", 0.00001, is_input=True), Step("work", 0.00001, fixed=0.4)]
    assert not Model(stuck, lambda _: 900).run(bounds.model_copy(), 300).log


def test_backlog_gives_more_until_it_gets_fewer() -> None:
    bounds = Bounds(operator="work", figure="backlog", at_most=5000)
    assert Model(_chain(), lambda _: 2500).run(bounds, 600).backlog < 5000


def test_bounds_that_cross_are_refused() -> None:
    with pytest.raises(ValidationError, match="give a smaller `at_least`"):
        Bounds(operator="work", figure="backlog", at_most=1, at_least=2)
    with pytest.raises(ValidationError, match="did you mean `backlog`"):
        Bounds(operator="work", figure="backlogs", at_most=1)


# SkewPolicy: keys move away from a partition that has too many, once that matters, and not to and fro -------


class Visit(NamedTuple):
    page: str
    seen: int


class Seen(Operator):
    """How often each page was seen so far: a state that outlives windows."""

    data = InputPort(Visit, key="page")
    output = OutputPort(Visit)
    counts = KeyedState(int)

    @data.process
    def count(self, visit):
        self.context.clock.wait(0.001)  # what a tuple costs, by the clock of the test
        self.counts[visit.page] = self.counts.get(visit.page, 0) + 1
        self.output.emit(Visit(visit.page, self.counts[visit.page]))


def windows(pages, size=400):
    for begin in range(0, len(pages), size):
        yield from ((page, 0) for page in pages[begin : begin + size])
        yield END_WINDOW


def on_one_partition(many):
    """Pages of which the first partition of two gets nine of ten."""
    random, known = np.random.default_rng(5), [f"page {number}" for number in range(400)]
    sides = [[page for page in known if stable_hash(page) % 2 == side] for side in (0, 1)]
    return [sides[int(one > 0.9)][number % 50] for number, one in enumerate(random.random(many))]


def seen(pages, policy, partitions=2):
    app = Application("skewed")
    visits = app.add_operator("visits", ListInput(Visit, list(windows(pages))))
    count = app.add_operator("count", Seen(), partitions=partitions)
    sink = app.add_operator("sink", CollectorSink(Visit))
    app.add_stream("visits", visits.output, count.data)
    app.add_stream("counts", count.output, sink.input)
    app.add_policy(policy)
    run = run_local(app)
    most = Counter()
    for visit in run.collected("sink"):
        most[visit.page] = max(most[visit.page], visit.seen)
    assert most == Counter(pages)
    return [row for row in run.decisions().to_pylist() if "SkewPolicy" in row["by"]]


def eager(**properties):
    return SkewPolicy(cooldown=0, min_windows=2, busy=1e-6, **properties)


@pytest.mark.guide("002", "Skew Balancing Partition")
def test_moves_keys_once_and_results_are_exact():
    (decision,) = seen(on_one_partition(12_000), eager())
    assert decision["state"] in {"APPLIED", "HELPED"}, decision
    assert "a partition of count has 1.8" in decision["note"]
    assert "BalancedPartitioner" in decision["what"]
    assert "imbalance of `count` from 1.8" in decision["expected"]


def test_what_cannot_be_evened_out_is_not_tried():
    pages = ["home" if number % 10 else f"page {number}" for number in range(8_000)]
    assert not seen(pages, eager(may_share=False))


@pytest.mark.parametrize("properties", [{"ratio": 1.0}, {"busy": 0}, {"operators": "x"}])
def test_refuses_what_it_cannot_do(properties):
    with pytest.raises(ValueError, match=next(iter(properties))):
        SkewPolicy(**properties)
