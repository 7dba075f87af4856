"""Who is late: slots by their own past, and containers that no slot works for any more.

`Speculation`: which slot is late, so that a spare one should have its containers. A container's time for a
window begins once three things have happened. Slots were sent the window, it has ended the window before, and
earlier stages have ended this one.

`Overdue`: which container keeps a window from its end although no slot works. It has lost what it waits for.
A slot that works is not hung, however long it takes.

No clock: times are given, seconds of one. What is under way, and who owes it, is told by `SlotAttempts`.
"""

from __future__ import annotations

import bisect
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ridgeline.plan.execution import Plan
from ridgeline.stram.slot_attempts import SlotAttempt, SlotAttempts

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

    def limit(self, quantile: float, multiplier: float) -> float:
        """How long a window may take; for ever as long as too little is known."""
        if len(self.ordered) < LEAST_WINDOWS:
            return math.inf
        place = max(0, math.ceil(len(self.ordered) * quantile) - 1)
        return max(LEAST_SECONDS, multiplier * self.ordered[place])


class Speculation:
    """How long containers took for the windows before, and who is late by it.

    Only the oldest window is looked at: a late slot keeps it from its end.
    """

    def __init__(self, plan: Plan, before: Speculation | None = None) -> None:
        """`before`: that of the plan before. Containers that stay keep their past."""
        self._quantiles = _quantiles(plan)
        self._multiplier = float(plan.logical.attributes["speculation_multiplier"])
        pasts: Mapping[int, _Past] = {} if before is None else before.pasts
        self.pasts: dict[int, _Past] = {one: pasts.get(one) or _Past() for one in self._quantiles}
        """The past of each container that may be late."""
        self.longest = math.inf
        """How long a container may take that has no past, since a change of the plan has made it."""
        if before is not None:
            limits = list(map(before.own_limit, pasts))
            known = [limit for limit in limits if limit < math.inf]
            self.longest = _RESTORING * max(known) if known else before.longest
        self._restored = False
        """The window before was begun with states."""
        self._times = _RESTORING
        self.due = math.inf
        """No slot is late before."""

    def sent(self, attempt: SlotAttempt, now: float) -> None:
        """An attempt is sent to slots; one that names the states has longer time, as these may be read.

        Where each window names them, that is in their past.
        """
        restores = attempt.request.states is not None
        if restores and not self._restored:
            attempt.times = self._times
        self._restored = restores
        self._look_at(now)

    def ended(self, container: int, took: float, now: float, *, over: bool) -> None:
        """A container has ended a window, which may be `over` with it."""
        if (past := self.pasts.get(container)) is not None:
            past.add(took)
        if over:
            self._times = _RESTORING
        self._look_at(now)

    def _look_at(self, now: float) -> None:
        self.due = now if self._quantiles else math.inf

    def void(self) -> None:
        """All attempts are void."""
        self._restored = False
        self.due = math.inf

    def own_limit(self, container: int) -> float:
        """How long a container may take by its own past."""
        return self.pasts[container].limit(self._quantiles[container], self._multiplier)

    def _limit(self, container: int, times: float) -> float:
        """How long a container may take for a window."""
        if container not in self._quantiles:
            return math.inf
        limit = self.own_limit(container)
        return limit * times if limit < math.inf else self.longest * max(1.0, times / _RESTORING)

    def look(self, now: float, home: Mapping[int, int], attempts: SlotAttempts) -> Sequence[LateSlot]:
        """The slots that are late. `home`: the slot of each container. Sets `due`."""
        if now < self.due:
            return ()
        self.due = math.inf
        oldest = attempts.oldest
        if oldest is None:
            return ()
        stage = min(attempts.stages[one] for one in oldest.owed)
        late: dict[int, LateSlot] = {}
        for container in oldest.owed:
            if attempts.stages[container] != stage:
                continue
            limit = self._limit(container, oldest.times)
            seconds, slot = now - attempts.ready(oldest, container), home.get(container, -1)
            if seconds < limit:
                self.due = min(self.due, now + limit - seconds)
            elif slot not in late or seconds > late[slot].seconds:
                late[slot] = LateSlot(slot, container, oldest.request.window_id, seconds, limit)
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
    """How long each container of a plan may keep a window from its end while no slot works."""

    def __init__(self, plan: Plan) -> None:
        width = plan.logical.window_seconds
        counts = {
            operator.id: operator.attributes["timeout_window_count"] for operator in plan.physical.operators
        }
        self._limits = {
            container.id: max(STUCK_SECONDS, width * max(map(counts.__getitem__, container.operators)))
            for container in plan.execution.containers
        }

    def look(self, attempts: SlotAttempts, now: float, since: float) -> Late | None:
        """The container that is to blame, None if none is. No time before `since` counts.

        It is one of the first stage that is not done, of the first window under way: others wait for it.
        """
        oldest = attempts.oldest
        owed = () if oldest is None else tuple(oldest.owed)
        if oldest is None or not owed:
            return None
        container = min(owed, key=lambda one: (attempts.stages[one], self._limits[one], one))
        seconds, limit = now - max(since, attempts.active_at), self._limits[container]
        return Late(container, oldest.request.window_id, seconds, limit) if seconds >= limit else None
