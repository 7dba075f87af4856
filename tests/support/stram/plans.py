"""Tiny plans, and reports as their containers would give them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.measure.events import ContainerWindow
from ridgeline.plan.execution import Plan
from ridgeline.plan.planner import plan_application
from ridgeline.plan.protocol import OperatorReport, WindowReport, WindowRequest


class Item(NamedTuple):
    key: int


class Source(InputOperator):
    out = OutputPort(Item)

    def emit_tuples(self) -> None:
        self.finish()


class Step(Operator):
    data = InputPort(Item, key="key")
    out = OutputPort(Item, optional=True)

    @data.process
    def take(self, item: Item) -> None:
        self.out.emit(item)


class Counter(Step):
    """A step whose state grows by a delta in each window that changes it."""

    counts = KeyedState(int)


class Last(Step):
    """A step whose state is one value."""

    last = State(0)


def plan(
    inputs: int = 1,
    windows_seen_as_one: int = 1,
    partitions: int = 2,
    step: type[Operator] = Counter,
    snapshot_interval: int | None = 100,
    **attributes: Any,
) -> Plan:
    """`inputs` sources (`source1`, ...), each to its own `step` in a second stage, with these attributes."""
    app = Application("app", snapshot_interval=snapshot_interval)
    for number in range(1, inputs + 1):
        source = app.add_operator(f"source{number}", Source(), recovery_attempts=1)
        given = {"partitions": partitions, "application_window_count": windows_seen_as_one, **attributes}
        added = app.add_operator(f"step{number}", step(), **given)
        app.add_stream(f"items{number}", source.out, added.data)
    return plan_application(app)


def ids(plan: Plan, name: str) -> list[int]:
    """The physical ids of an operator's partitions."""
    return [
        operator.id for operator in plan.physical.operators if operator.name == name and not operator.unifier
    ]


def container_window(request: WindowRequest, container: int, task: str) -> ContainerWindow:
    """What a container reports that read no clock."""
    times = dict.fromkeys(("task_began", "began", "restored", "ran", "written", "received"), 0.0)
    return ContainerWindow(0.0, request.window_id, request.attempt, container, "", 0, task, **times)


def reports(
    plan: Plan,
    request: WindowRequest,
    *,
    finished: Collection[str] = (),
    changes: Mapping[int, str] | None = None,
    replaced: Collection[int] = (),
    state_bytes: int = 10,
) -> list[WindowReport]:
    """What all containers report of an attempt.

    `finished` names inputs, `changes` the states that the window changed, each by a delta of `state_bytes`.
    It replaces all of those in `replaced`.
    """
    tags = {container.id: f"t{container.id}.{request.attempt}" for container in plan.execution.containers}
    found = []
    for container in plan.execution.containers:
        operators = []
        for operator in container.operators:
            report = OperatorReport.begun(request, operator)
            report.window.finished = plan.physical.operator(operator).name in finished
            report.window.state_bytes = state_bytes if report.change else 0
            report.change = (changes or {}).get(operator, "")
            report.window.state_bytes = state_bytes if report.change else 0
            report.replaces = operator in replaced
            operators.append(report)
        found.append(WindowReport(container_window(request, container.id, tags[container.id]), operators))
    return found
