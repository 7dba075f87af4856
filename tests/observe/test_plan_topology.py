from ridgeline.measure.encoding import from_dict, to_dict
from ridgeline.measure.topology import StreamEdge
from ridgeline.observe.plan_topology import planned_event, topology_of
from ridgeline.plan.planner import plan_application
from support.stram.plans import ids, plan
from testing.test_run_local import balances


def test_partitions_containers_and_stages():
    planned = plan(partitions=2)

    topology = topology_of(planned)

    source, *steps = topology.operators
    assert (source.kind, source.title, source.inputs, source.outputs) == ("input", "source1", (), ("out",))
    assert [step.title for step in steps] == ["step1[0]", "step1[1]"]
    shapes = [(step.kind, step.partitions, step.stage, step.unifier) for step in steps]
    assert shapes == [("output", 2, 1, False)] * 2
    containers = {container.id for container in planned.execution.stages[1].containers}
    assert {step.container for step in steps} == containers
    assert source.class_name == "support.stram.plans.Source"
    assert [step.id for step in steps] == ids(planned, "step1")
    streams = [StreamEdge("items1", source.id, "out", step.id, "data") for step in steps]
    assert list(topology.streams) == streams
    assert topology.upstream[steps[0].id] == (source.id,)


def test_state_errors_and_unifiers():
    topology = topology_of(plan_application(balances([(1, 1)])))

    kinds = {
        operator.title: (operator.kind, operator.stateful, operator.error_outputs)
        for operator in topology.operators
    }
    assert kinds["source"] == ("input", True, ())
    assert kinds["balances[0]"] == ("operator", True, ())  # its error port is not connected
    assert kinds["sink"][0] == "output"
    unifier = next(operator for operator in topology.operators if operator.unifier)
    assert (unifier.kind, unifier.container) == ("operator", topology.partitions_of("sink")[0].container)


def test_connected_error_ports_are_named():
    app = balances([(1, 1)])
    from ridgeline.testing import CollectorSink

    step = next(added.operator for added in app.operators if added.name == "balances")
    app.add_stream("rejected", step.rejected, app.add_operator("rejects", CollectorSink()).input)

    node = topology_of(plan_application(app)).partitions_of("balances")[0]

    assert node.error_outputs == ("rejected",)
    assert set(node.outputs) == {"balances", "rejected"}


def test_a_run_begins_with_its_plan_and_its_attributes():
    planned = plan_application(balances([(1, 1)]), {}, {"windows_kept": 7})

    event = planned_event(planned, at=5.0, application_id="a1", info={"user": "ann"})

    assert (event.application, event.application_id, event.window_seconds) == ("test", "a1", 0.1)
    assert event.attributes["windows_kept"] == 7
    assert event.info == {"user": "ann"}
    read = from_dict(to_dict(event))
    assert read == event
    assert read.topology.by_id == event.topology.by_id
