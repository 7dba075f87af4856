"""The attempts that slots run: which are sent, which wait for a slot, who owes a report, and which are void.

Containers in slots keep their state from window to window. A slot that is lost loses it. Then all attempts in
flight are void, and so is what the other slots hold: the next request must have states. No I/O, no clock:
times are given, seconds of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ridgeline.api.errors import Failure
from ridgeline.plan.protocol import WindowRequest
from ridgeline.stram.control import AttemptFailed


@dataclass(slots=True)
class SlotAttempt:
    """An attempt in flight: `sent` to slots when, None while it waits for one; `owed`: who has not reported.

    `source`: what it reads from Spark. `stage_ended`: when the last container so far of each stage has ended
    it. `times`: so many times as long as others it may take.
    """

    request: WindowRequest
    owed: set[int]
    source: object = None
    sent: float | None = None
    stage_ended: dict[int, float] = field(default_factory=dict)
    times: float = 1.0


class SlotAttempts:
    """The attempts that were begun, by window: what lateness, hangs and speculation are told from.

    `stages`: of the containers that report each.
    """

    def __init__(self, stages: Mapping[int, int]) -> None:
        self.stages = stages
        self.busy_since = 0.0
        """When an attempt was last sent while no other one was under way."""
        self.active_at = 0.0
        """When an attempt was last sent, or a container has last ended a window."""
        self._flight: dict[int, SlotAttempt] = {}
        self._ended: dict[int, float] = {}
        """When each container has ended its last window."""
        self._waiting: list[WindowRequest] | None = None
        self._void = False
        """True from a loss on until a request has states: nothing runs."""

    def begin(
        self, request: WindowRequest, source: object = None, *, complete: bool
    ) -> Sequence[WindowRequest]:
        """The requests to send now.

        None once containers have lost their state: STRAM hears of it, and has states in its next request.
        `complete`: all slots are there. One with states waits for that, and so do those after it.
        """
        if request.states is not None:
            self._clear()
            self._void = False
            self._waiting = None if complete else []
        elif self._void:
            return ()
        self._flight[request.window_id] = SlotAttempt(request, set(self.stages), source)
        if self._waiting is None:
            return (request,)
        self._waiting.append(request)
        return ()

    def _clear(self) -> None:
        """No attempt begun so far counts."""
        self._flight.clear()
        self._ended.clear()

    def all_there(self) -> Sequence[WindowRequest]:
        """All slots are there again: the requests to send now."""
        waiting, self._waiting = self._waiting or (), None
        return waiting

    def sent(self, request: WindowRequest, now: float) -> SlotAttempt | None:
        """An attempt is about to be sent to slots; None if it is void."""
        attempt = self._flight.get(request.window_id)
        if attempt is None or attempt.request is not request:
            return None
        if self.oldest is None:
            self.busy_since = now
        attempt.sent = self.active_at = now
        return attempt

    def runs(self, window_id: int, attempt: int) -> bool:
        """True if this attempt is in flight."""
        known = self._flight.get(window_id)
        return known is not None and known.request.attempt == attempt

    @property
    def oldest(self) -> SlotAttempt | None:
        """The attempt at the first window under way, None if none was sent."""
        sent = [one for one in self._flight.values() if one.sent is not None]
        return min(sent, key=lambda one: one.request.window_id, default=None)

    @property
    def first_window(self) -> int:
        """The first window that was begun, sent or not; -1 if there is none."""
        return min(self._flight, default=-1)

    def reported(self, window_id: int, attempt: int, container: int, now: float) -> float | None:
        """A container has reported: how long it took, None if it owes nothing. The last one ends the attempt.

        `now`: when that was heard.
        """
        if not self.runs(window_id, attempt) or container not in self._flight[window_id].owed:
            return None
        known = self._flight[window_id]
        took = max(0.0, now - self.ready(known, container))
        known.owed.discard(container)
        self._ended[container] = known.stage_ended[self.stages[container]] = self.active_at = now
        if not known.owed:
            del self._flight[window_id]
        return took

    def ready(self, attempt: SlotAttempt, container: int) -> float:
        """When a container could begin its part of an attempt that was sent."""
        stage, sent = self.stages[container], attempt.sent or 0.0
        earlier = (at for done, at in attempt.stage_ended.items() if done < stage)
        return max(sent, self._ended.get(container, sent), *earlier)

    def moved(self) -> None:
        """Containers live in another slot, without their states. STRAM gets a report; nothing has failed."""
        self._void = True
        self._clear()

    @property
    def waits(self) -> bool:
        """True if no attempt was sent yet, and the first one will have states."""
        return self._waiting is not None

    def failed(self, failure: Failure) -> AttemptFailed | None:
        """Containers have lost their state. Returns what STRAM is to hear, None if it knows already.

        The attempt is that at the failure's window if that is in flight, else at the oldest. Without one in
        flight no attempt has failed (-1): the next request needs states, and that is all.
        """
        if self._waiting is not None or self._void:
            return None  # the next request, or the first that waits, has states
        window = failure.window_id if failure.window_id in self._flight else self.first_window
        attempt = self._flight[window].request.attempt if self._flight else -1
        self._void = True
        self._clear()
        return AttemptFailed(window, attempt, replace(failure, window_id=window))
