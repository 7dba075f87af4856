"""Windows by hand: a plan, and the events that a committed window of it gives."""

from dataclasses import replace
from typing import NamedTuple

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, Unifier
from ridgeline.api.errors import Failure
from ridgeline.measure.events import (
    ContainerWindow,
    OperatorWindow,
    SourceProgress,
    WindowCommitted,
    WindowPlanned,
    WindowStarted,
)
from ridgeline.observe.plan_topology import planned_event
from ridgeline.observe.watch import Watch
from ridgeline.plan.planner import plan_application
from support.measure.reports import of_reports


class Number(NamedTuple):
    value: int


class Source(InputOperator):
    output = OutputPort(Number)


class Merge(Unifier):
    input = InputPort(Number)
    output = OutputPort(Number)

    @input.process
    def merge(self, number):
        pass


class Double(Operator):
    input = InputPort(Number, key="value")
    output = OutputPort(Number, unifier=Merge())
    refused = OutputPort(Number, error=True, optional=True)

    @input.process
    def double(self, number):
        pass


class Sink(Operator):
    input = InputPort(Number)

    @input.process
    def take(self, number):
        pass


def make_plan():
    """source -> double (2 partitions, a unifier) -> sink."""
    app = Application("numbers", window="500ms")
    source = app.add_operator("source", Source())
    double = app.add_operator("double", Double(), partitions=2)
    sink = app.add_operator("sink", Sink())
    app.add_stream("numbers", source.output, double.input)
    app.add_stream("doubled", double.output, sink.input)
    return plan_application(app)


def window(plan, window_id=0, tuples=100, *, at=0.0, seconds=0.05, progress=None, errors=(), dropped=False):
    """A committed window: `tuples` from the source, half to each partition of `double`; one takes 8 ms.

    It began at second `at`: 90 % is its job's time, 10 % the commit; nothing is published after it.
    """
    returned, published = at + 0.9 * seconds, at + seconds
    yield WindowPlanned(at, window_id, plan.version, at)
    yield WindowStarted(at, window_id, 0)
    operators = {operator.id: operator for operator in plan.physical.operators}
    reports, sources = [], []
    for container in plan.execution.containers:
        times = (at, at + 0.001, at + 0.012, at + 0.014, returned)
        reports.append(
            ContainerWindow(published, window_id, 0, container.id, "host", 1, f"t{container.id}", at, *times)
        )
        for operator_id in container.operators:
            operator = operators[operator_id]
            reports.append(_operator(operator, container.id, window_id, at, tuples, errors, dropped))
            if operator.name == "source" and progress:
                sources.append(SourceProgress(published, window_id, operator_id, *progress, unit="work"))
    yield of_reports(*reports, at=at)
    yield from sources
    yield WindowCommitted(published, window_id, 1, at, at, at, returned, returned, published, published)


def _operator(operator, container, window_id, at, tuples, errors, dropped):
    compute, more = 0.001, {}
    if operator.name == "source":
        tuples_in, tuples_out = {}, {"output": tuples}
    elif operator.unifier:
        tuples_in, tuples_out = {"input": tuples}, {"output": tuples}
    elif operator.name == "double":
        tuples_in, tuples_out = {"input": tuples // 2}, {"output": tuples // 2, "refused": len(errors)}
        compute = 0.004 * (1 + operator.partition)
        if operator.partition == 0:
            more = {"errors": len(errors), "error_tuples": tuple(errors)}
            if dropped:
                where = "numbers", "double", 0, window_id, "process of port input"
                more["dropped"] = str(Failure(*where, "ValueError: 3", "Number(value=3)"))
    else:
        tuples_in, tuples_out = {"input": tuples}, {}
    began = at + 0.001
    times = (began, began + compute, compute, 0.0, 0.0)
    return OperatorWindow(
        at, window_id, 0, operator.id, container, "host", *times, tuples_in, tuples_out, **more
    )


def run_window(watch, plan, window_id=0, tuples=100, **what):
    """Give a watch (or a measurement) the events of one window; what it then says of that window."""
    apply = getattr(watch, "observe", None) or watch.apply
    for event in window(plan, window_id, tuples, **what):
        apply(event)
    return watch.run()["last"]


def planned(plan, **attributes):
    """How a run of the plan begins; with other attributes than the plan's, if given."""
    info = {"user": "ann", "master": "local[2]", "host": "host"}
    event = planned_event(plan, at=0.0, application_id="numbers-1", info=info)
    return replace(event, attributes={**event.attributes, **attributes})


def watch_of(plan, events, now=10.0, **attributes):
    """A watch that has seen a run of the plan."""
    watch = Watch(lambda: now)
    for event in (planned(plan, **attributes), *events):
        watch.observe(event)
    return watch
