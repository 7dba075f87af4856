"""The events of a run as lines of the logging channel, each once.

Subscribed to a `Watch`. Normal events are DEBUG or INFO, losses and repetitions are WARNING, the end of a
failed run is ERROR. All of it is counted too, by the metrics of `ridgeline.measure.metrics`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ridgeline.measure.changes import decision_row, decision_text, promise_text, row_of, text_of
from ridgeline.measure.events import (
    ApplicationChanged,
    ApplicationPlanned,
    MessagesRefused,
    OperatorMetrics,
    OperatorWindow,
    PolicyDecided,
    PromiseChanged,
    RunEvent,
    SourceAsked,
    StateCompacted,
    StateWarning,
    WindowCommitted,
)
from ridgeline.measure.notices import NOTICED, notice_of
from ridgeline.measure.slot_events import SlotJoined
from ridgeline.measure.topology import Topology
from ridgeline.measure.trace_ids import run_of, trace_text
from ridgeline.measure.wording.units import plural

_log = logging.getLogger(__name__)


class EventLines:
    """Logs the events of one run. Calls come one at a time; most events cost a look into a dictionary.

    `traced`: lines about a window have the id of its trace.
    """

    def __init__(self, *, traced: bool = False) -> None:
        self._traced = traced
        self._run = ""
        self._application = ""
        self._topology = Topology((), ())
        self._problems: dict[int, str] = {}
        self._metrics: dict[tuple[str, str], str] = {}
        """The last faults of metrics that operators declare."""
        self._kept: dict[str, bool | None] = {}
        """Which promises are kept."""
        self._lines: Mapping[type, Callable[[Any], None]] = {
            ApplicationPlanned: self._planned,
            ApplicationChanged: self._changed,
            PolicyDecided: self._decided,
            PromiseChanged: self._promised,
            **dict.fromkeys(NOTICED, self._notice),
            WindowCommitted: self._committed,
            OperatorWindow: self._operator,
            OperatorMetrics: self._measured,
            SourceAsked: self._asked,
            MessagesRefused: self._refused,
            SlotJoined: self._joined,
            StateCompacted: self._compacted,
            StateWarning: self._warned,
        }

    @property
    def kinds(self) -> Collection[type[RunEvent]]:
        """The events that it wants."""
        return self._lines.keys()

    def apply(self, event: RunEvent) -> None:
        """Log an event, if it is one of those that are logged."""
        line = self._lines.get(type(event))
        if line is not None:
            line(event)

    def _planned(self, event: ApplicationPlanned) -> None:
        begins = not self._topology.operators
        self._application, self._topology = event.application, event.topology
        self._run = run_of(event.application_id)
        plan = f"{len(event.topology.operators)} operators, plan {event.plan_version}"
        text = f"run {event.application_id} begins: {plan}" if begins else f"the plan has changed: {plan}"
        self._write(logging.INFO, text)

    def _changed(self, event: ApplicationChanged) -> None:
        level = logging.WARNING if event.state == "REFUSED" else logging.INFO
        self._write(level, text_of(row_of(event)), event.window_id)

    def _decided(self, event: PolicyDecided) -> None:
        level = logging.WARNING if event.state in {"FAILED", "REFUSED", "MISSED"} else logging.INFO
        trace = f"\n{event.found.rstrip()}" if event.state == "FAILED" else ""
        self._write(level, decision_text(decision_row(event)) + trace)

    def _promised(self, event: PromiseChanged) -> None:
        before, self._kept[event.promise] = self._kept.get(event.promise), event.kept
        if event.kept is not None and event.kept is not before:
            self._write(logging.INFO if event.kept else logging.WARNING, promise_text(event))

    def _notice(self, event: RunEvent) -> None:
        found = notice_of(event)
        if found is not None:
            self._write(found.level, found.text, found.window)

    def _committed(self, event: WindowCommitted) -> None:
        if event.tasks_retried:
            what = f"Spark repeated {event.tasks_retried} tasks in window {event.window_id}"
            text = f"{what}: their processes were lost"
            self._write(logging.WARNING, text, event.window_id)
        seconds = event.published - event.began
        self._write(logging.DEBUG, f"window {event.window_id} committed in {seconds:.3f} s", event.window_id)

    def _operator(self, event: OperatorWindow) -> None:
        if event.dropped:
            text = f"window {event.window_id} dropped: {event.dropped}"
            self._write(logging.WARNING, text, event.window_id, event.operator)
        if event.errors:
            first = f"; {event.error_tuples[0]}" if event.error_tuples else ""
            text = f"{plural(event.errors, 'tuple')} skipped or rejected in window {event.window_id}{first}"
            self._write(logging.WARNING, text, event.window_id, event.operator)

    def _measured(self, event: OperatorMetrics) -> None:
        for metric, fault in event.faults.items():
            if self._metrics.get((event.operator, metric)) != fault:
                text = (
                    f"metric `{event.operator}.{metric}` has no value for window {event.window_id}: {fault}"
                )
                self._write(logging.WARNING, text, event.window_id)
            self._metrics[event.operator, metric] = fault

    def _asked(self, event: SourceAsked) -> None:
        before = self._problems.get(event.operator, "")
        if event.problem == before:
            return
        self._problems[event.operator] = event.problem
        if event.problem:
            text = f"the source does not answer: {event.problem}"
            self._write(logging.WARNING, text, operator=event.operator)
        else:
            self._write(logging.INFO, "the source answers again", operator=event.operator)

    def _refused(self, event: MessagesRefused) -> None:
        last = f"; last from `{event.peer}`" if event.peer else ""
        text = f"{event.count} messages to the driver were refused: {event.reason}{last}"
        self._write(logging.WARNING, text)

    def _joined(self, event: SlotJoined) -> None:
        again = " again" if event.again else ""
        hosts = f"hosts {event.containers} containers"
        self._write(
            logging.INFO, f"slot {event.slot} is there{again}: process {event.pid} on `{event.host}` {hosts}"
        )

    def _compacted(self, event: StateCompacted) -> None:
        text = f"state compacted: {event.files} files into {event.size_bytes} bytes"
        self._write(logging.INFO, text, operator=event.operator)

    def _warned(self, event: StateWarning) -> None:
        self._write(logging.WARNING, event.text, operator=event.operator)

    def _write(self, level: int, text: str, window: int | None = None, operator: int = -1) -> None:
        """Log a line with the fields that are known of it."""
        if not _log.isEnabledFor(level):
            return
        extra: dict[str, Any] = {"application": self._application}
        node = self._topology.by_id.get(operator)
        if node is not None:
            extra |= {
                "operator": node.title.removesuffix(f"[{node.partition}]"),
                "partition": node.partition,
            }
        if window is not None:
            extra["window"] = window
            if self._traced:
                extra["trace_id"] = trace_text(self._run, window)
        _log.log(level, "%s", text, extra=extra)
