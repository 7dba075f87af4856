"""The windows of a run that are planned and not committed, and what containers have reported of them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ridgeline.measure.events import RunEvent, WindowCommitted, WindowPlanned, WindowStarted
from ridgeline.measure.status import OperatorStatus


class WindowsUnderWay:
    """Follows the windows of a run from trigger to commit. A window is over when the next one is due."""

    def __init__(self) -> None:
        self.first: WindowPlanned | None = None
        """The run's first window."""
        self.committed: int | None = None
        """The last window that is committed."""
        self.attempts: dict[int, WindowStarted] = {}
        """The attempts under way by window, the oldest first."""
        self._last: WindowPlanned | None = None
        self._events: list[RunEvent] = []
        """Those of windows that are not committed."""

    @property
    def current(self) -> int | None:
        """The oldest window that has an attempt under way, else the last one that is committed."""
        return next(iter(self.attempts), self.committed)

    def add(self, event: RunEvent) -> None:
        """Keep an event until its window is committed."""
        self._events.append(event)

    def planned(self, event: WindowPlanned) -> None:
        """A window's trigger has fired."""
        self.first = self.first or event
        self._last = event
        if not self.attempts:  # the run begins here, or all before is committed or void
            self.committed = event.window_id - 1 if event.window_id else None
            self._events.clear()
        self._events.append(event)

    def started(self, event: WindowStarted) -> bool:
        """An attempt begins. True if no other window is under way."""
        alone = self.attempts.keys() <= {event.window_id}
        self.attempts[event.window_id] = event
        return alone

    def events_of(self, event: WindowCommitted) -> list[RunEvent]:
        """The events of a window, its commit the last."""
        return [*(one for one in self._events if getattr(one, "window_id", None) == event.window_id), event]

    def commit(self, window_id: int) -> None:
        """A window is committed: forget the events up to it."""
        self.committed = window_id
        self.attempts.pop(window_id, None)
        self._events = [one for one in self._events if getattr(one, "window_id", -1) > window_id]

    def behind(self, statuses: Mapping[int, OperatorStatus], due: tuple[int, int] | None) -> dict[int, int]:
        """By operator, the windows that are over and that it has not completed. `due`: as `due`."""
        if due is None:
            return dict.fromkeys(statuses, 0)
        over, before = due
        return {
            operator: max(0, over - (before if (done := status.done) is None else done))
            for operator, status in statuses.items()
        }

    def due(self, now: float, width: float, forgiven: float) -> tuple[int, int] | None:
        """The last window that is over by the schedule, and the one before the run's first.

        `width`: of a window, seconds; without one there is no schedule: None. `forgiven`: lateness, in
        seconds, that the trigger has forgiven itself.
        """
        first, last = self.first, self._last
        if first is None or last is None or width <= 0:
            return None
        over = last.window_id + math.floor((now - last.due + forgiven) / width) - 1
        return over, first.window_id - 1
