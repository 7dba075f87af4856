"""Whether a run lacks cores of its cluster, by its events: a standby there gives its own back then."""

from __future__ import annotations

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.measure.events import RunEvent
from ridgeline.measure.slot_events import SlotJoined, SlotLost, SlotsReduced, SlotsSized

LOST_SECONDS = 8.0
"""How long a slot may be away before the run lacks a core: a process that died is replaced sooner."""


class Shortage:
    """Subscribes to the events of a run; called, it says whether the run lacks cores. From any thread."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._fewer = False
        self._lost: dict[int, float] = {}

    def apply(self, event: RunEvent) -> None:
        """Take an event."""
        match event:
            case SlotLost(slot=slot):
                self._lost = {slot: self._clock.monotonic(), **self._lost}
            case SlotJoined(slot=slot):
                self._lost = {one: at for one, at in self._lost.items() if one != slot}
            case SlotsReduced():
                self._fewer, self._lost = True, {}
            case SlotsSized(slots=slots, wanted=wanted):
                self._fewer, self._lost = slots < wanted, {}
            case _:
                pass

    def __call__(self) -> bool:
        """Whether slots are away for long, or there are fewer than are wanted."""
        now = self._clock.monotonic()
        return self._fewer or any(now - at >= LOST_SECONDS for at in self._lost.values())
