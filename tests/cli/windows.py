"""Windows by hand: a plan, and what its containers would report."""

from typing import NamedTuple

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, Unifier
from ridgeline.api.errors import Failure
from ridgeline.engine.run import WindowSummary
from ridgeline.plan.planner import plan_application
from ridgeline.plan.protocol import OperatorReport, WindowReport


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


def summary(plan, window_id=0, tuples=100, *, seconds=0.05, progress=None, errors=(), dropped=False, attempts=1):
    """A committed window: `tuples` from the source, half for each partition of `double`, whose second one takes 8 ms."""
    by_container = {}
    home = {operator: container for container in plan.execution.containers for operator in container.operators}
    for physical in plan.physical.operators:
        report = OperatorReport(physical.id, compute_seconds=0.001)
        if physical.name == "source":
            report.tuples_out, report.progress = {"output": tuples}, progress
        elif physical.unifier:
            report.tuples_in, report.tuples_out = {"input": tuples}, {"output": tuples}
        elif physical.name == "double":
            report.tuples_in, report.tuples_out = {"input": tuples // 2}, {"output": tuples // 2, "refused": len(errors)}
            report.compute_seconds = 0.004 * (1 + physical.partition)
            if physical.partition == 0:
                report.errors, report.error_tuples = len(errors), list(errors)
                if dropped:
                    report.dropped = Failure("numbers", "double", 0, window_id, "process of port input", "ValueError: 3", "Number(value=3)")
        else:
            report.tuples_in = {"input": tuples}
        by_container.setdefault(home[physical.id].id, []).append(report)
    reports = tuple(
        WindowReport(container, window_id, 0, "t", {}, operators, restore_seconds=0.001, run_seconds=0.005, write_seconds=0.002)
        for container, operators in by_container.items()
    )
    phases = {"run": seconds * 0.8, "stage": 0.0, "commit": seconds * 0.1, "publish": seconds * 0.1}
    return WindowSummary(window_id, attempts, reports, phases)
