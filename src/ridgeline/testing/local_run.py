"""The result of `run_local`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ridgeline.api.clock import Clock
from ridgeline.api.errors import RidgelineError
from ridgeline.api.publisher import Publisher
from ridgeline.engine.driver.run.changes import Asked
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.measure.events import (
    ApplicationPlanned,
    RunEvent,
    WindowCommitted,
    WindowReported,
    WindowRetried,
)
from ridgeline.observe.event_lines import EventLines
from ridgeline.observe.identity import own_host
from ridgeline.observe.metric_tables import MetricTables
from ridgeline.observe.watch import Watch
from ridgeline.plan.execution import Plan
from ridgeline.testing.captured import Captured
from ridgeline.testing.sinks import Collector, ResultPublisher, collected, result_of


class LocalRun(MetricTables):
    """The result of `run_local`: collected tuples, `events`, and the metrics, as tables and in `watch`.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
        >>> class Number(NamedTuple):
        ...     value: int
        >>> app = Application("numbers")
        >>> numbers = app.add_operator("numbers", ListInput(Number, [(1,), (2,), END_WINDOW, (3,)]))
        >>> sink = app.add_operator("sink", CollectorSink(Number))
        >>> app.add_stream("numbers", numbers.output, sink.input)
        >>> run = run_local(app)
        >>> run.window_ids, run.tuples_out("numbers"), run.tuples_in("sink"), run.retries
        ([0, 1], 3, 3, [])
    """

    def __init__(self, plan: Plan, clock: Clock) -> None:
        self.plan = plan
        self.events: list[RunEvent] = []
        self.collectors: dict[str, Collector] = {}
        self.changes: list[Asked] = []
        """The changes that were requested, with their outcome."""
        self._captured: Captured | None = None
        self._sinks: dict[str, Publisher] = {}
        self._watch = Watch(clock.wall, own_host())
        self._watch.subscribe(self.events.append)
        self._watch.subscribe(EventLines().apply)

    @property
    def watch(self) -> Watch:
        """The metrics as plain data, as of the end of the run."""
        return self._watch

    @property
    def captured(self) -> Captured:
        """The tuples of each stream. Raises RidgelineError for a run without `capture=True`."""
        if self._captured is None:
            raise RidgelineError("this run has captured nothing; give `run_local(app, capture=True)`")
        return self._captured

    def take_over(self, publishers: Mapping[str, Publisher]) -> None:
        """Take the sinks of a driver, which continue those of the one before."""
        for name, publisher in publishers.items():
            before = self._sinks.get(name)
            if before is publisher:
                continue
            if isinstance(publisher, Collector):
                if name in self.collectors:
                    publisher.windows = self.collectors[name].windows
                self.collectors[name] = publisher
            elif isinstance(publisher, ResultPublisher) and isinstance(before, ResultPublisher):
                publisher.result = before.result
            self._sinks[name] = publisher

    def will_capture(self) -> None:
        """The plan has taps."""
        self._captured = Captured.of(self.plan)

    def keep(self, run: ApplicationRun) -> None:
        """Keep what a run has captured, at its end."""
        self.take_over(run.publishers)
        if self._captured is not None:
            self._captured.add(self.plan, run.publishers, self.window_ids)

    @property
    def windows_committed(self) -> int:
        """The number of windows committed in this run."""
        return len(self.window_ids)

    @property
    def window_ids(self) -> list[int]:
        """The windows committed in this run, in order."""
        return [event.window_id for event in self.events if isinstance(event, WindowCommitted)]

    @property
    def retries(self) -> list[tuple[int, int, str]]:
        """The failed attempts: window, number of the attempt that followed (from 1), reason."""
        retried = (event for event in self.events if isinstance(event, WindowRetried) and not event.final)
        return [(event.window_id, event.attempt, event.reason) for event in retried]

    def collected(self, operator: str, window: int | None = None) -> list[Any]:
        """The tuples that a CollectorSink kept, of one window or of all, in order.

        Raises KeyError with the names of the collectors.
        """
        return collected(self.collectors, operator, window)

    def result(self, operator: str) -> Any:
        """The result of a `CountSink`, `HashSink` or `FirstLastSink`. Raises KeyError with their names."""
        return result_of(self._sinks, operator)

    def tuples_in(self, operator: str) -> int:
        """Tuples that all partitions of a logical operator received."""
        return self._sum(operator, "tuples_in")

    def tuples_out(self, operator: str) -> int:
        """Tuples that all partitions of a logical operator emitted."""
        return self._sum(operator, "tuples_out")

    def errors(self, operator: str) -> int:
        """Tuples that all partitions of a logical operator emitted on error ports."""
        return self._sum(operator, "errors")

    def _sum(self, operator: str, column: str) -> int:
        """The sum over all partitions that an operator has had, in all plans of the run."""
        ids = {
            node.id
            for planned in self.events
            if isinstance(planned, ApplicationPlanned)
            for node in planned.topology.operators
            if node.name == operator and not node.unifier
        }
        return sum(
            int(event.operators[column][np.isin(event.operators["operator"], list(ids))].sum())
            for event in self.events
            if isinstance(event, WindowReported)
        )
