from typing import NamedTuple

import pytest

from ridgeline import Application, InputPort, Operator, OutputPort, PartitionKeys
from ridgeline.plan.container_spec import container_specs, overrides_committed
from ridgeline.plan.planner import plan_application
from ridgeline.testing import CollectorSink, ListInput
from support.rows import in_a_row


class Item(NamedTuple):
    key: int


class Step(Operator):
    data = InputPort(Item, key="key")
    out = OutputPort(Item)

    @data.process
    def take(self, item: Item) -> None:
        self.out.emit(item)


class Told(Step):
    def committed(self, window_id: int) -> None:
        """Nothing."""


def specs(step=Step, **attributes):
    app = in_a_row(
        Application("app"), source=ListInput(Item, []), step=(step(), attributes), sink=CollectorSink()
    )
    return container_specs(plan_application(app))


def test_one_container_has_all_routes_within_itself():
    (spec,) = specs()
    assert [operator.name for operator in spec.operators] == ["source", "step", "sink"]
    assert {route.container for route in spec.routes} == {0}
    assert (spec.consumers, spec.producers, spec.incoming) == (frozenset(), frozenset(), {})
    assert (spec.application, spec.wants_commit) == ("app", False)


def test_partitions_are_containers_that_know_who_sends_to_them():
    found = specs(partitions=2)
    source, *steps, sink = found
    assert [spec.id for spec in found] == list(range(len(found)))
    assert source.consumers == {step.id for step in steps}
    assert [step.producers for step in steps] == [{source.id}] * 2
    assert sink.producers == {step.id for step in steps}
    assert [route.route for route in source.routes] == [
        PartitionKeys(1, frozenset({0})),
        PartitionKeys(1, frozenset({1})),
    ]
    for spec in found:
        for (producer, number), stream in spec.incoming.items():
            route = found[producer].routes[number]
            assert (route.container, route.schema, route.encoding) == (
                spec.id,
                stream.schema,
                stream.encoding,
            )


@pytest.mark.parametrize(("step", "wants"), [(Step, False), (Told, True)])
def test_who_wants_to_hear_of_commits(step, wants):
    (spec,) = specs(step)
    assert spec.wants_commit is wants
    assert [operator.name for operator in spec.operators if overrides_committed(operator)] == (
        ["step"] if wants else []
    )
