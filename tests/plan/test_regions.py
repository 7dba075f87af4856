"""Decoupled streams divide an application into regions, each of which is planned by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from ridgeline import (
    AffinityRule,
    Application,
    InputPort,
    Module,
    Operator,
    OutputPort,
    sla,
)
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import RidgelineError, ValidationError
from ridgeline.operators import Filter, QueueInput, QueueOutput
from ridgeline.plan.execution import Plan
from ridgeline.plan.planner import plan_application
from ridgeline.plan.region import QueueEdge, Region
from ridgeline.plan.regional import QueueEnds, RegionPlans
from ridgeline.plan.validation import find_faults, validate
from ridgeline.policies import Bounds
from ridgeline.testing import CollectorSink, ListInput
from support.rows import in_a_row


class Number(NamedTuple):
    value: int


class Join(Operator):
    left = InputPort(Number)
    right = InputPort(Number)
    output = OutputPort(Number)

    @left.process
    def from_left(self, number: Number) -> None:
        self.output.emit(number)

    @right.process
    def from_right(self, number: Number) -> None:
        self.output.emit(number)


def positive(number: Number) -> bool:
    return number.value > 0


def writer(edges: Sequence[QueueEdge]) -> QueueOutput:
    return QueueOutput(path=f"/queues/{edges[0].stream}", keep=edges[0].keep)


def reader(edge: QueueEdge, schema: Schema) -> QueueInput[object]:
    return QueueInput(path=f"/queues/{edge.stream}", schema=schema.type)


def plans(app: Application) -> dict[str, Plan]:
    """The plan of each region."""
    whole = validate(app)
    made = RegionPlans(app, whole, QueueEnds(writer, reader))
    return {region.name: plan_application(made.application(region)) for region in whole.regions}


def streams(plan: Plan) -> list[str]:
    return [f"{one.source} -> {', '.join(map(str, one.sinks))}" for one in plan.logical.streams]


def fan(**options: object) -> tuple[Application, CollectorSink[Number], CollectorSink[Number]]:
    """A source with a fast and a slow sink."""
    app = Application("prices", window="100ms")
    source = app.add_operator("source", ListInput(Number, [(1,)]))
    fast = app.add_operator("fast", CollectorSink(Number))
    slow = app.add_operator("slow", CollectorSink(Number))
    chosen = options.pop("sink", None)
    decoupled = True if chosen is None else {slow.input}
    app.add_stream("prices", source.output, fast.input, slow.input, decoupled=decoupled, **options)  # type: ignore[arg-type]
    return app, fast, slow


def names(regions: Sequence[Region]) -> dict[str, tuple[str, ...]]:
    return {region.name: region.operators for region in regions}


def plain() -> Application:
    return in_a_row(Application("plain"), numbers=ListInput(Number, [(1,)]), sink=CollectorSink(Number))


def test_one_application_without_decoupled_streams() -> None:
    app = plain()
    assert validate(app).regions == ()
    app.set_region("all", app.operators[-1].operator)
    assert "but no stream is decoupled" in faults_of(app)


def test_one_sink_decoupled() -> None:
    app, _, slow = fan(sink="slow", keep="10m")
    app.set_region("slow", slow, window="2s", windows_in_flight=1)
    found = plans(app)
    widths = {name: plan.logical.window_seconds for name, plan in found.items()}
    assert widths == {"source": 0.1, "slow": 2.0}
    assert found["slow"].logical.attributes["windows_in_flight"] == 1
    assert streams(found["source"]) == ["source.output -> fast.input, prices_queue.input"]
    queue = found["source"].logical.operator("prices_queue").operator
    assert isinstance(queue, QueueOutput)
    assert queue.keep == "10m"
    assert found["slow"].logical.region == "slow"


def meeting(numbers: str, *, more: bool = False) -> Application:
    """Source -> join.left, source -> more -> join.right; `numbers`: where that stream is decoupled."""
    app = Application("meeting")
    source = app.add_operator("source", ListInput(Number, [(1,)]))
    join = app.add_operator("join", Join(), partitions=2)
    branch = app.add_operator("more", Filter(positive), partitions=3)
    ends: dict[str, Any] = {"all": True, "left": {join.left}, "more": {branch.data}}
    app.add_stream("numbers", source.output, join.left, branch.data, decoupled=ends[numbers])
    app.add_stream("more", branch.output, join.right, decoupled=more)
    app.add_stream("joined", join.output, app.add_operator("sink", CollectorSink(Number)).input)
    return app


def test_two_branches_that_meet_are_one_region() -> None:
    app = meeting("all")
    assert names(validate(app).regions) == {"source": ("source",), "more": ("more", "join", "sink")}
    assert "numbers_to_more.output -> join.left, more.data" in streams(plans(app)["more"])


def faults_of(app: Application) -> str:
    return "\n".join(map(str, find_faults(app)))


def test_ways_around_a_queue_and_cycles_of_regions_are_faults() -> None:
    around = faults_of(meeting("left"))
    assert "stream `numbers` is decoupled at `join.left`, but other streams" in around
    cycle = faults_of(meeting("more", more=True))
    assert "from region to region in a cycle: `source -> more -> source`" in cycle


def test_faults_of_what_is_decoupled() -> None:
    app, fast, slow = fan(locality="CONTAINER_LOCAL")
    app.set_region("both", fast, slow)
    text = faults_of(app)
    assert "has a locality at `fast.input`, where it is decoupled" in text
    assert "decoupled streams lie between them" in text


def test_how_long_a_queue_keeps_rows_is_a_duration() -> None:
    app = Application("shop")
    app.read("items", ListInput(int, [1])).decouple("queue", keep="10x").write("sink", CollectorSink(int))
    assert "decoupled with `keep='10x'`, which is no duration" in faults_of(app)


def test_rule_over_regions_is_a_fault() -> None:
    app, _, _ = fan()
    app.add_affinity(AffinityRule("AFFINITY", ["fast", "slow"]))
    with pytest.raises(ValidationError, match="which are in several regions"):
        validate(app)


class Steps(Module):
    """Two steps in one region, and a third in the next one; a rule for the first two."""

    numbers = InputPort(Number)
    kept = OutputPort(Number)

    def populate(self, app: Application) -> None:
        first, second, third = (
            app.add_operator(name, Filter(positive)) for name in ("first", "second", "third")
        )
        app.add_stream("one", first.output, second.data)
        app.add_stream("two", second.output, third.data, decoupled=True)
        app.add_affinity(AffinityRule("ANTI_AFFINITY", ["first", "second"], locality="CONTAINER_LOCAL"))
        self.numbers.connect(first.data)
        self.kept.connect(third.output)


def test_rules_are_kept_in_each_region_as_far_as_they_are_of_it() -> None:
    app = Application("steps")
    source = app.add_operator("source", ListInput(Number, [(1,)]))
    steps = app.add_module("steps", Steps())
    sink = app.add_operator("sink", CollectorSink(Number))
    app.add_stream("numbers", source.output, steps.numbers)
    app.add_stream("kept", steps.kept, sink.input)
    app.add_affinity(AffinityRule("AFFINITY", pattern="source|.*first", locality="CONTAINER_LOCAL"))
    app.add_affinity(AffinityRule("AFFINITY", ["steps", "sink"], relax=True))
    found = {
        name: [(rule.apart, rule.operators) for rule in plan.logical.affinity]
        for name, plan in plans(app).items()
    }
    assert sorted(map(str, found.pop("source"))) == [
        "(False, ('source', 'steps.first'))",
        "(False, ('steps.first', 'steps.second'))",
        "(True, ('steps.first', 'steps.second'))",
    ]
    assert found == {"steps-third": [(False, ("steps.third", "sink"))]}


def test_a_region_says_which_relaxed_rule_it_does_not_keep() -> None:
    app, _, _ = fan(sink="slow")
    app.add_affinity(AffinityRule("AFFINITY", ["fast", "source"], locality="CONTAINER_LOCAL", relax=True))
    app.add_affinity(AffinityRule("ANTI_AFFINITY", ["fast", "source"], relax=True))
    found = {name: [rule.name for rule, _ in plan.logical.given_up] for name, plan in plans(app).items()}
    assert found == {"source": ["affinity 2"], "slow": []}


def test_rule_about_hosts_may_be_of_operators_of_several_regions() -> None:
    app, _, _ = fan(sink="slow")
    app.add_affinity(AffinityRule("AFFINITY", pattern="fast|slow", hosts=["alpha"]))
    found = {name: [rule.operators for rule in plan.logical.affinity] for name, plan in plans(app).items()}
    assert found == {"source": [("fast",)], "slow": [("slow",)]}


def test_promises_and_policies_are_of_the_region_of_their_operator() -> None:
    app, _, _ = fan(sink="slow")
    app.promise(
        sla.latency("slow", p99="2s"), sla.throughput("fast", at_least=1), sla.window_latency(p90="1s")
    )
    app.add_policy(Bounds(operator="slow", figure="backlog", at_most=5))
    found = {name: plan.logical for name, plan in plans(app).items()}
    promised = {name: [one.operator for one in plan.promises] for name, plan in found.items()}
    assert promised == {"source": ["fast", ""], "slow": ["slow", ""]}
    assert {name: len(plan.policies) for name, plan in found.items()} == {"source": 0, "slow": 1}


def test_streams_as_values_are_decoupled() -> None:
    app = Application("values")
    numbers = app.read("numbers", ListInput(Number, [(1,)]))
    numbers.write("fast", CollectorSink(Number))
    queued = numbers.decouple("orders", keep="10m")
    queued.filter("kept", positive).write("slow", CollectorSink(Number))
    other = queued.write("other", CollectorSink(Number))
    found = plans(app)
    assert list(found) == ["numbers", "kept", "other"]
    assert streams(found["numbers"]) == ["numbers.output -> fast.input, orders.input"]
    assert found["other"].logical.operator("numbers_to_other").operator is not other
    with pytest.raises(RidgelineError, match="has the queue `orders` already"):
        numbers.decouple("again").write("more", CollectorSink(Number))
