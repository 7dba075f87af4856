"""How many windows are over by the schedule and not done: `windowsBehind`."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ridgeline.measure.events import WindowPlanned
from ridgeline.measure.status import OperatorStatus


class Schedule:
    """Follows the triggers of windows. A window is over when the next one is due."""

    def __init__(self) -> None:
        self.first: WindowPlanned | None = None
        self._last: WindowPlanned | None = None

    def add(self, event: WindowPlanned) -> None:
        """A window's trigger has fired."""
        self.first = self.first or event
        self._last = event

    def behind(
        self, statuses: Mapping[int, OperatorStatus], now: float, width: float, forgiven: float
    ) -> dict[int, int]:
        """By operator, the windows that are over and that it has not completed.

        `width`: of a window; without one there is no schedule, and nobody is behind. `forgiven`: lateness, in
        seconds, that the trigger has forgiven itself.
        """
        first, last = self.first, self._last
        if first is None or last is None or width <= 0:
            return dict.fromkeys(statuses, 0)
        over = last.window_id + math.floor((now - last.due + forgiven) / width) - 1
        before = first.window_id - 1
        return {
            operator: max(0, over - (before if (done := status.done) is None else done))
            for operator, status in statuses.items()
        }
