from dataclasses import replace
from typing import NamedTuple

import pytest

from ridgeline import Application
from ridgeline.engine.driver.run.reporter import Reporter
from ridgeline.measure.encoding import from_dict, to_dict
from ridgeline.measure.events import ContainerWindow, OperatorWindow, SourceProgress, StateWarning
from ridgeline.measure.topology import StreamEdge
from ridgeline.observe.plan_topology import planned_event, topology_of
from ridgeline.observe.reporting import ClockSteps, MetricAggregation, report_events, taken_events
from ridgeline.operators import ConsoleOutput, FileInput, SqlQuery
from ridgeline.plan.planner import plan_application
from ridgeline.plan.protocol import OperatorReport, WindowReport
from ridgeline.plan.spec.writer import specification_of
from ridgeline.plan.specification import edits_between
from ridgeline.plan.validation import validate
from ridgeline.testing import CollectorSink, SteppingClock, run_local
from support.measure.reports import container_windows, operator_windows
from support.stram.plans import ids, plan
from support.testing.diamond import diamond
from testing.test_run_local import balances


def test_partitions_containers_and_stages():
    planned = plan(partitions=2)

    topology = topology_of(planned)

    source, *steps = topology.operators
    assert (source.kind, source.title, source.inputs, source.outputs) == ("input", "source1", (), ("out",))
    assert [step.title for step in steps] == ["step1[0]", "step1[1]"]
    shapes = [(step.kind, step.partitions, step.stage, step.unifier) for step in steps]
    assert shapes == [("output", 2, 1, False)] * 2
    containers = {container.id for container in planned.execution.stages[1]}
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


# Window reports as events, and clocks that somebody sets ----------------------------------------------------


CONTAINER = ContainerWindow(0.0, 3, 1, 0, "host", 42, "t0", 9.0, 10.0, 10.25, 12.1, 12.2, 12.5, 99)
READ = OperatorWindow(0.0, 3, 1, 1, 0, "host", 10.5, 11.0, 0.3, 0.25, 0.2, {}, {"out": 5})
SUM = OperatorWindow(0.0, 3, 1, 2, 0, "host", 11.0, 12.0, 0.9, 0.75, 0.1, {"in": 5}, {}, 1, 5, True)
WORK = SourceProgress(0.0, 3, 1, 5.0, None, unit="units")


def test_a_report_holds_the_events_of_its_container_its_operators_and_their_sources():
    operators = [OperatorReport(replace(READ), WORK), OperatorReport(replace(SUM))]
    reports = [WindowReport(replace(CONTAINER), operators)]
    reported, *others = report_events(reports, 20.0, MetricAggregation(()))
    assert container_windows([reported]) == [replace(CONTAINER, at=20.0, attempt=0)]
    assert operator_windows([reported]) == [replace(one, at=20.0, attempt=0) for one in (READ, SUM)]
    assert others == [replace(WORK, at=20.0, asked=11.3)]


def test_a_report_that_waited_in_its_slot_says_how_far_its_source_was_before_that():
    held = WindowReport(replace(CONTAINER), [OperatorReport(replace(READ), WORK)], held_seconds=7.0)
    assert [event.asked for event in taken_events(held)] == [11.3 - 7.0]


def test_reports_come_by_container_whatever_their_order():
    reports = [WindowReport(replace(CONTAINER, container=number)) for number in (2, 1)]
    [event] = report_events(reports, 0.0, MetricAggregation(()))
    assert event.containers["container"].tolist() == [1, 2]


# A clock that somebody sets while a run goes on is told, once -----------------------------------------------


class SetClock(SteppingClock):
    """One whose wall clock can be set."""

    off = 0.0

    def wall(self):
        return super().wall() + self.off


@pytest.mark.parametrize(
    ("step", "what"), [(30.0, "set forward, or the host slept, by 30.0 s"), (-3600.0, "set back by 3600.0 s")]
)
def test_a_step_is_told_once(step, what):
    clock, events = SetClock(), []
    reporter = Reporter(plan_application(diamond()), clock, events.append)
    reporter.begin()
    for second in range(60):
        clock.advance(1.0)
        clock.off = step if second >= 30 else 0.0
        reporter.look_at_clock()
    (event,) = events
    assert isinstance(event, StateWarning)
    assert what in event.text


def test_a_clock_that_is_turned_slowly_is_no_step():
    steps = ClockSteps(1000.0, 0.0)
    assert not any(steps.look(1000.0 + second * 1.0005, second) for second in range(1, 100_000))
    assert not steps.look(1000.0 + 200_000 * 1.0005, 200_000)


def test_dead_letters_hide_no_output():
    app = balances([(1, 1)])
    app.dead_letters(CollectorSink())
    topology = topology_of(plan_application(app))
    kinds = {node.name: node.kind for node in topology.operators if not node.unifier}
    assert kinds == {
        "source": "input",
        "balances": "operator",
        "sink": "output",
        "dead_letters": "dead letters",
    }
    assert [topology.by_id[one].name for one in topology.leaves] == ["sink"]
    run = run_local(app)
    assert {row["operator"] for row in run.record_age().to_pylist()} <= {"source", "sink"}


class Row(NamedTuple):
    number: int


def test_what_only_looks_at_tuples_is_no_output_and_in_no_specification():
    def application(queried):
        app = Application("looked-at")
        rows = app.read("rows", FileInput("rows.csv", schema=Row, until="end"))
        rows.write("sink", ConsoleOutput())
        if queried:
            rows.process("query", SqlQuery("select count(*) from rows", ["rows"]), port="first")
        return app

    topology = topology_of(plan_application(application(queried=True)))
    assert {node.name: node.kind for node in topology.operators} == {
        "rows": "input", "sink": "output", "query": "observer"
    }  # fmt: skip
    assert [topology.by_id[one].name for one in topology.leaves] == ["sink"]
    assert list(specification_of(application(queried=True))["operators"]) == ["rows", "sink"]
    assert edits_between(validate(application(queried=True)), application(queried=False)) == ()
