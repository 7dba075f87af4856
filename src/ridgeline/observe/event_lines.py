"""The events of a run as lines of the logging channel, each once.

Subscribed to a `Watch`. Normal events are DEBUG or INFO, losses and repetitions are WARNING, the end of a
failed run is ERROR. All of it is counted too, by the metrics of `ridgeline.measure.metrics`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from ridgeline.measure.events import ApplicationPlanned, RunEvent
from ridgeline.measure.notices import NOTICED, Notice, Notices
from ridgeline.measure.topology import Topology
from ridgeline.measure.trace_ids import run_of, trace_text

_log = logging.getLogger(__name__)


class EventLines:
    """Logs the events of one run. Calls come one at a time; most events cost a look into a set.

    `traced`: lines about a window have the id of its trace.
    """

    kinds: Collection[type[RunEvent]] = NOTICED
    """The events that it wants."""

    def __init__(self, *, traced: bool = False) -> None:
        self._traced = traced
        self._run = ""
        self._application = ""
        self._topology = Topology((), ())
        self._notices = Notices()

    def apply(self, event: RunEvent) -> None:
        """Log an event, if it is one of those that are logged."""
        if type(event) not in NOTICED:
            return
        if isinstance(event, ApplicationPlanned):
            self._application, self._topology = event.application, event.topology
            self._run = run_of(event.application_id)
        for one in self._notices.of(event):
            if one.level and _log.isEnabledFor(one.level):
                self._write(one)

    def _write(self, notice: Notice) -> None:
        """Log a line with the fields that are known of it."""
        extra: dict[str, Any] = {"application": self._application}
        operator = notice.operator
        node = self._topology.by_id.get(operator) if isinstance(operator, int) else None
        if node is not None:
            extra |= {"operator": node.label, "partition": node.partition}
        if notice.window is not None:
            extra["window"] = notice.window
            if self._traced:
                extra["trace_id"] = trace_text(self._run, notice.window)
        _log.log(notice.level, "%s", notice.text + notice.more, extra=extra)
