"""Runs the containers of a small application by hand, attempt by attempt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ridgeline import Application, Operator
from ridgeline.engine.container.container import Container
from ridgeline.engine.exchange.block import Message
from ridgeline.engine.files.storage import MemoryStorage, Storage
from ridgeline.engine.state import state_files
from ridgeline.engine.state.compaction import CompactionTask, StateCompactor
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.plan.container_spec import container_specs
from ridgeline.plan.planner import plan_application
from ridgeline.plan.protocol import Budget, OperatorReport, StateVersion, WindowReport, WindowRequest
from ridgeline.testing import CollectorSink, ListInput, SteppingClock
from ridgeline.testing.sinks import Collector


class CountingStorage(MemoryStorage):
    """Counts reads of state files and of the journal."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def read(self, name: str) -> bytes:
        if name.startswith(("state/", "journal/")):
            self.reads.append(name)
        return super().read(name)


def application(schema: Any, items: Sequence[Any], operator: Operator, **attributes: Any) -> Application:
    """A list into `step` and what it emits into a collector; all in one container."""
    given = {name: value for name, value in attributes.items() if name == "processing_mode"}
    app = Application("app")
    source = app.add_operator("source", ListInput(schema, items))
    step = app.add_operator("step", operator, **attributes)
    sink = app.add_operator("sink", CollectorSink(), **given)
    app.add_stream("in", source.output, step.data)
    app.add_stream("out", step.out, sink.input)
    return app


class ByHand:
    """The containers of an application, which live until `die`; states are those of the last window kept."""

    def __init__(self, app: Application, storage: Storage | None = None) -> None:
        self.plan = plan_application(app)
        self.specs = container_specs(self.plan)
        self.storage = storage or CountingStorage()
        self.clock = SteppingClock()
        self.states: dict[int, StateVersion] = {}
        self.finished: frozenset[int] = frozenset()
        self.window_id = 0
        self.budgets: dict[str, Budget] = {}
        self._merges = 0
        self.containers: list[Container] = []
        self.die()

    def die(self) -> None:
        """Other containers: nothing in memory."""
        self.containers = [Container(spec, self.storage, self.clock, "run") for spec in self.specs]

    def attempt(self, attempt: int = 0, *, final: bool = False, tag: str = "") -> list[WindowReport]:
        """One attempt at the window that is next, in all containers. Nothing of it is kept."""
        request = WindowRequest(
            self.window_id, attempt, 1, final, self.finished, dict(self.states), budgets=self.budgets
        )
        inboxes: dict[int, list[Message]] = {spec.id: [] for spec in self.specs}
        reports = []
        for container in self.containers:
            outgoing, report = container.run(request, inboxes[container.spec.id], (), tag or f"t{attempt}")
            for consumer, message in outgoing.items():
                inboxes[consumer].append(message.copied())
            reports.append(report)
        return reports

    def keep(self, reports: Sequence[WindowReport]) -> None:
        """The window is committed: small changes go to a file of the journal."""
        names, data, segment = {}, b"", self.window_id + 1
        for name, change in filter(None, (report.small_change for report in reports)):
            names[name] = state_files.slice_name(name, segment, len(data), len(change))
            data += change
        self.storage.write(state_files.segment_file(segment), data)
        for report in self.operators(reports):
            if report.change:
                before = () if report.replaces else self.states.get(report.window.operator, ())
                change = names.get(report.change, report.change)
                self.states[report.window.operator] = (*before, change)
        self.finished |= {
            report.window.operator for report in self.operators(reports) if report.window.finished
        }
        self.window_id += 1

    def window(self, attempt: int = 0, *, final: bool = False) -> list[Any]:
        """A window that is kept; what the collector got."""
        reports = self.attempt(attempt, final=final)
        self.keep(reports)
        return self.collected(reports)

    def merge(self, name: str) -> None:
        """Merge the state of an operator's first partition."""
        operator = next(operator.id for operator in self.plan.physical.operators if operator.name == name)
        version = self.states[operator]
        self._merges += 1
        compactor = StateCompactor(SegmentFiles(self.storage, "run"), self.plan.physical.operators)
        stem = state_files.compacted_stem(version, operator, 1, self._merges)
        self.states[operator] = compactor.compact(CompactionTask(operator, version, stem)).names

    def files(self, names: Sequence[str]) -> set[str]:
        """Where the deltas of these names lie."""
        places = {name: state_files.slice_place(name) for name in names}
        return {
            state_files.segment_file(place[0]) if place else f"state/{name}" for name, place in places.items()
        }

    def operators(self, reports: Sequence[WindowReport]) -> list[OperatorReport]:
        """The reports of all operators."""
        return [operator for report in reports for operator in report.operators]

    def report(self, reports: Sequence[WindowReport], name: str) -> OperatorReport:
        """The report of an operator's first partition."""
        return next(
            report
            for report in self.operators(reports)
            if self.plan.physical.operator(report.window.operator).name == name
        )

    def collected(self, reports: Sequence[WindowReport]) -> list[Any]:
        """The tuples that the collector handed over."""
        collector = Collector(None)
        collector.stage(0, self.report(reports, "sink").handed_over)
        collector.publish(0)
        return collector.tuples(None)

    def operator(self, name: str) -> Any:
        """The running operator."""
        return next(
            runtime
            for container in self.containers
            for runtime in container._operators.values()
            if runtime.spec.name == name
        ).operator
