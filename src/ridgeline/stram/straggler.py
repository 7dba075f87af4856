"""Which container keeps a window from its end: its producers have ended it, and it does not.

It needs no heartbeats. No clock: times are given, seconds of one clock.
"""

from __future__ import annotations

from typing import NamedTuple

from ridgeline.plan.execution import Plan

LEAST_SECONDS = 60.0
"""No container is stuck before, however narrow its windows are."""


class Late(NamedTuple):
    """A container that has not ended a window for longer than `timeout_window_count` of its operators."""

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
            container.id: width * max(map(counts.__getitem__, container.operators))
            for container in plan.execution.containers
        }
        self._awaited: dict[int, set[int]] = {}
        self._begun: dict[int, float] = {}
        self._stage_ended: dict[int, dict[int, float]] = {}
        """By window and stage, when the last container of it that has ended the window did so."""
        self._moved: dict[int, float] = {}
        """When a container last made progress."""

    def begin(self, window_id: int, now: float) -> None:
        """An attempt at a window is sent to slots."""
        self._awaited[window_id] = set(self._stages)
        self._begun[window_id] = now
        self._stage_ended[window_id] = {}

    def ended(self, window_id: int, container: int, now: float) -> None:
        """A container has ended a window."""
        awaited = self._awaited.get(window_id)
        if awaited is not None:
            awaited.discard(container)
            self._moved[container] = self._stage_ended[window_id][self._stages[container]] = now

    def moved(self, container: int, now: float) -> None:
        """A container has taken in or emitted tuples."""
        self._moved[container] = now

    def over(self, window_id: int | None = None) -> None:
        """The attempt at a window is over; None: all are."""
        for kept in (self._awaited, self._begun, self._stage_ended):
            if window_id is None:
                kept.clear()
            else:
                kept.pop(window_id, None)

    def look(self, now: float, since: float) -> Late | None:
        """The container that is late for longest, None if none is.

        Of the first window under way those of the first stage that is not done are to blame: others wait for
        them. No time before `since` counts.
        """
        window_id = min(self._awaited, default=None)
        if window_id is None or not self._awaited[window_id]:
            return None
        awaited = self._awaited[window_id]
        stage = min(map(self._stages.__getitem__, awaited))
        earlier = (at for done, at in self._stage_ended[window_id].items() if done < stage)
        ready = max(since, self._begun[window_id], *earlier)
        late = [
            Late(container, window_id, seconds, limit)
            for container in awaited
            if self._stages[container] == stage
            and (seconds := now - max(ready, self._moved.get(container, ready)))
            >= (limit := max(LEAST_SECONDS, self._limits[container]))
        ]
        return max(late, key=lambda one: (one.seconds, -one.container), default=None)
