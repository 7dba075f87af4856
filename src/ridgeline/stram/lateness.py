"""Who is late: slots by their own past, and containers that no slot works for any more.

`Speculation`: which slot is late, so that a spare one should have its containers. A container's time for a
window begins once three things have happened. Slots were sent the window, it has ended the window before, and
earlier stages have ended this one.

`Overdue`: which container keeps a window from its end although no slot works. It has lost what it waits for.
A slot that works is not hung, however long it takes.

No clock: times are given, seconds of one. Each has a table of its own, as two threads look. The watchdog's
must see it when that of windows hangs.
"""

from __future__ import annotations

import bisect
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ridgeline.plan.execution import Plan

LEAST_SECONDS = 0.1
"""No container is late before, however short its windows are."""
LEAST_WINDOWS = 10
"""A container is late by its own past only once that has so many windows."""
_PAST_WINDOWS = 100
"""How many windows are the past."""
_RESTORING = 10.0
"""How much longer a window may take that is begun with states, as these may have to be read."""


class LateSlot(NamedTuple):
    """A slot with a container that is late: so long in a window, and so long it may be."""

    slot: int
    container: int
    window_id: int
    seconds: float
    limit_seconds: float


@dataclass(slots=True)
class _Past:
    """How long a container's last windows took, in their order and sorted."""

    taken: deque[float] = field(default_factory=deque)
    ordered: list[float] = field(default_factory=list)

    def add(self, seconds: float) -> None:
        if len(self.taken) == _PAST_WINDOWS:
            self.ordered.pop(bisect.bisect_left(self.ordered, self.taken.popleft()))
        self.taken.append(seconds)
        bisect.insort(self.ordered, seconds)

    def limit(self, quantile: float | None, multiplier: float) -> float:
        """How long a window may take; for ever as long as too little is known, and without a quantile."""
        if quantile is None or len(self.ordered) < LEAST_WINDOWS:
            return math.inf
        place = max(0, math.ceil(len(self.ordered) * quantile) - 1)
        return max(LEAST_SECONDS, multiplier * self.ordered[place])


@dataclass(slots=True)
class _Window:
    """A window under way: when it was sent to slots, who has not ended it, when each stage did.

    `times`: so many times as long as others it may take.
    """

    begun: float
    awaited: set[int]
    times: float
    stage_ended: dict[int, float] = field(default_factory=dict)


class Speculation:
    """The windows under way, and how long containers took for those before.

    Only the oldest window is looked at: a late slot keeps it from its end.
    """

    def __init__(self, plan: Plan, before: Speculation | None = None) -> None:
        """`before`: that of the plan before. Containers that stay keep their past."""
        self._quantiles = _quantiles(plan)
        self._multiplier = float(plan.logical.attributes["speculation_multiplier"])
        self._stages = {container.id: container.stage for container in plan.execution.containers}
        pasts: Mapping[int, _Past] = {} if before is None else before.pasts
        self.pasts: dict[int, _Past] = {one: pasts.get(one) or _Past() for one in self._stages}
        """The past of each container."""
        self.longest = math.inf
        """How long a container may take that has no past, since a change of the plan has made it."""
        if before is not None:
            limits = list(map(before.own_limit, pasts))
            known = [limit for limit in limits if limit < math.inf]
            self.longest = _RESTORING * max(known) if known else before.longest
        self._windows: dict[int, _Window] = {}
        self._ended: dict[int, float] = {}
        """When each container has ended its last window."""
        self._restored = False
        """The window before was begun with states."""
        self._times = _RESTORING
        self.due = math.inf
        """No slot is late before."""

    def begin(self, window_id: int, now: float, *, restores: bool) -> None:
        """An attempt is sent to slots. `restores`: the states are named, so all attempts before are void.

        Where each window names them, that is in their past.
        """
        if restores:
            self._windows.clear()
            self._ended.clear()
        times = self._times if restores and not self._restored else 1.0
        self._windows[window_id] = _Window(now, set(self._stages), times)
        self._restored = restores
        self.due = now

    def ended(self, window_id: int, container: int, now: float) -> None:
        """A container has ended a window."""
        window = self._windows.get(window_id)
        if window is None or container not in window.awaited:
            return
        window.awaited.discard(container)
        self.pasts[container].add(max(0.0, now - self._ready(window, container)))
        self._ended[container] = window.stage_ended[self._stages[container]] = now
        if not window.awaited:
            del self._windows[window_id]
            self._times = _RESTORING
        self.due = now

    def void(self) -> None:
        """All attempts are void."""
        self._windows.clear()
        self._ended.clear()
        self._restored = False
        self.due = math.inf

    def _ready(self, window: _Window, container: int) -> float:
        """When a container could begin a window."""
        stage = self._stages[container]
        earlier = (at for done, at in window.stage_ended.items() if done < stage)
        return max(window.begun, self._ended.get(container, window.begun), *earlier)

    def own_limit(self, container: int) -> float:
        """How long a container may take by its own past."""
        return self.pasts[container].limit(self._quantiles.get(container), self._multiplier)

    def _limit(self, container: int, window: _Window) -> float:
        """How long a container may take for a window."""
        limit = self.own_limit(container)
        if limit < math.inf or container not in self._quantiles:
            return limit * window.times
        return self.longest * max(1.0, window.times / _RESTORING)

    def look(self, now: float, home: Mapping[int, int]) -> Sequence[LateSlot]:
        """The slots that are late. `home`: the slot of each container. Sets `due`."""
        if now < self.due:
            return ()
        self.due = math.inf
        window_id = min(self._windows, default=None)
        if window_id is None:
            return ()
        window = self._windows[window_id]
        stage = min(map(self._stages.__getitem__, window.awaited))
        late: dict[int, LateSlot] = {}
        for container in window.awaited:
            if self._stages[container] != stage:
                continue
            limit = self._limit(container, window)
            seconds, slot = now - self._ready(window, container), home.get(container, -1)
            if seconds < limit:
                self.due = min(self.due, now + limit - seconds)
            elif slot not in late or seconds > late[slot].seconds:
                late[slot] = LateSlot(slot, container, window_id, seconds, limit)
        return list(late.values())

    def swapped(self, late: LateSlot) -> None:
        """The slot's containers run elsewhere: how long they took so far belongs to their past.

        So windows that take longer for good are late no more after some time. Where states take long to read,
        the next attempt may take longer.
        """
        self._times *= 2
        self.pasts[late.container].add(late.seconds)
        self.void()


def _quantiles(plan: Plan) -> Mapping[int, float]:
    """The least `speculation` of each container's operators; without it a container is never late."""
    of_name = {one.name: one.attributes["speculation"] for one in plan.logical.operators}
    of_operator = {one.id: of_name[one.name] for one in plan.physical.operators}
    found = {
        container.id: [of_operator[one] for one in container.operators if of_operator[one] is not None]
        for container in plan.execution.containers
    }
    return {container: float(min(some)) for container, some in found.items() if some}


STUCK_SECONDS = 60.0
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
            container.id: max(STUCK_SECONDS, width * max(map(counts.__getitem__, container.operators)))
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
