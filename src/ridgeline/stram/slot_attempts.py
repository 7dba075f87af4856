"""The attempts that slots run: which are sent, which wait for a slot, and which are void.

Containers in slots keep their state from window to window. A slot that is lost loses it. Then all attempts in
flight are void, and so is what the other slots hold: the next request must have states. No I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ridgeline.api.errors import Failure
from ridgeline.plan.protocol import WindowRequest
from ridgeline.stram.control import AttemptFailed


class SlotAttempts:
    """The attempts that were begun, by window. `containers`: those that report each."""

    def __init__(self, containers: Collection[int]) -> None:
        self._containers = frozenset(containers)
        self._requests: dict[int, WindowRequest] = {}
        self._awaited: dict[int, set[int]] = {}
        self._waiting: list[WindowRequest] | None = None
        self._void = False
        """True from a loss on until a request has states: nothing runs."""
        self._unreported: Failure | None = None
        """Why, until it is reported: one loss is one failure, however many windows begin meanwhile."""

    def begin(self, request: WindowRequest, *, complete: bool) -> Sequence[WindowRequest | AttemptFailed]:
        """The requests to send now; or that the attempt has failed, since containers have lost their state.

        Nothing follows for attempts after that one: STRAM finds them void, too, and has states in its next.
        `complete`: all slots are there. One with states waits for that, and so do those after it.
        """
        if request.states is not None:
            self._requests.clear()
            self._awaited.clear()
            self._void, self._unreported = False, None
            self._waiting = None if complete else []
        elif self._void:
            failure, self._unreported = self._unreported, None
            if failure is None:
                return ()
            failure = replace(failure, window_id=request.window_id)
            return (AttemptFailed(request.window_id, request.attempt, failure),)
        self._requests[request.window_id] = request
        self._awaited[request.window_id] = set(self._containers)
        if self._waiting is None:
            return (request,)
        self._waiting.append(request)
        return ()

    def all_there(self) -> Sequence[WindowRequest]:
        """All slots are there again: the requests to send now."""
        waiting, self._waiting = self._waiting or (), None
        return waiting

    def runs(self, window_id: int, attempt: int) -> bool:
        """True if this attempt is in flight."""
        request = self._requests.get(window_id)
        return request is not None and request.attempt == attempt

    @property
    def oldest(self) -> int:
        """The first window in flight, -1 if there is none."""
        return min(self._requests, default=-1)

    def reported(self, window_id: int, attempt: int, container: int) -> bool:
        """A container has reported; True if it was the last one of the attempt, which is over then."""
        if not self.runs(window_id, attempt):
            return False
        awaited = self._awaited[window_id]
        awaited.discard(container)
        if awaited:
            return False
        del self._requests[window_id], self._awaited[window_id]
        return True

    def moved(self) -> None:
        """Containers live in another slot, without their states. STRAM gets a report; nothing has failed."""
        self._void, self._unreported = True, None
        self._requests.clear()
        self._awaited.clear()

    @property
    def waits(self) -> bool:
        """True if no attempt was sent yet, and the first one will have states."""
        return self._waiting is not None

    def failed(self, failure: Failure) -> AttemptFailed | None:
        """Containers have lost their state. Returns the attempt that has failed, None if none was sent.

        It is the failure's window if that is in flight, else the oldest.
        """
        if self._waiting is not None:
            return None  # nothing was told yet, and the first request has states
        if not self._requests:
            if not self._void or self._unreported is not None:
                self._void, self._unreported = True, failure
            return None
        self._void, self._unreported = True, None
        window = failure.window_id if failure.window_id in self._requests else min(self._requests)
        attempt = self._requests[window].attempt
        self._requests.clear()
        self._awaited.clear()
        return AttemptFailed(window, attempt, replace(failure, window_id=window))
