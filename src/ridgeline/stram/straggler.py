"""Which container keeps a window from its end although no slot works: it has lost what it waits for.

A slot that works is not hung, however long it takes. No clock: times are given, seconds of one clock.
"""

from __future__ import annotations

from typing import NamedTuple

from ridgeline.plan.execution import Plan

LEAST_SECONDS = 60.0
"""No container is stuck before, however narrow its windows are."""


class Late(NamedTuple):
    """A container that has not ended a window, with no slot at work for `timeout_window_count` windows."""

    container: int
    window_id: int
    seconds: float
    limit_seconds: float


class Overdue:
    """The windows under way, by what each container has ended of them."""

    def __init__(self, plan: Plan) -> None:
        self._stages = {container.id: container.stage for container in plan.execution.containers}
        width = plan.logical.window_seconds
        counts = {
            operator.id: operator.attributes["timeout_window_count"] for operator in plan.physical.operators
        }
        self._limits = {
            container.id: max(LEAST_SECONDS, width * max(map(counts.__getitem__, container.operators)))
            for container in plan.execution.containers
        }
        self._awaited: dict[int, set[int]] = {}
        self._worked = 0.0
        """When a slot was last known to work, or got something to do."""

    def begin(self, window_id: int, now: float) -> None:
        """An attempt at a window is sent to slots."""
        self._awaited[window_id] = set(self._stages)
        self.works(now)

    def ended(self, window_id: int, container: int, now: float) -> None:
        """A container has ended a window."""
        if (awaited := self._awaited.get(window_id)) is not None:
            awaited.discard(container)
            self.works(now)

    def works(self, now: float) -> None:
        """A slot works."""
        self._worked = now

    def over(self, window_id: int | None = None) -> None:
        """The attempt at a window is over; None: all are."""
        if window_id is None:
            self._awaited.clear()
        else:
            self._awaited.pop(window_id, None)

    def look(self, now: float, since: float) -> Late | None:
        """The container that is to blame, None if none is. No time before `since` counts.

        It is one of the first stage that is not done, of the first window under way: others wait for it.
        """
        window_id = min(self._awaited, default=None)
        if window_id is None or not self._awaited[window_id]:
            return None
        awaited = self._awaited[window_id]
        container = min(awaited, key=lambda one: (self._stages[one], self._limits[one], one))
        seconds, limit = now - max(since, self._worked), self._limits[container]
        return Late(container, window_id, seconds, limit) if seconds >= limit else None
