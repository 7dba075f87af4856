"""How many slots there are: fewer while Spark has too few places, more once it has cores for all wanted."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

from ridgeline.api.clock import Clock
from ridgeline.engine.driver.slots.spark_slots import SparkSlots
from ridgeline.engine.driver.slots.start import describe_missing, named_all
from ridgeline.stram.patience import back_off
from ridgeline.stram.slot_resources import Need
from ridgeline.stram.slots import SlotInstruction, Slots

_LOOKS_AT_THE_START = 3
"""How many times its patience the run waits for slots that have never been there."""
_SPREAD_SECONDS = 2.0
_SPREAD_REST_SECONDS = 60.0


class Shortage:
    """Whether Spark has places for all slots, looked at from time to time. One thread."""

    def __init__(self, platform: SparkSlots, clock: Clock, warn: Callable[[str], None]) -> None:
        self._platform = platform
        self._clock = clock
        self._warn = warn
        self._at = math.inf
        """When to look again."""
        self._looks_left = _LOOKS_AT_THE_START
        self._warned = False
        self._short = False
        """Spark had too few places the last time, whether or not all slots were there."""

    def wait(self) -> None:
        """Slots are started: look once the patience is over."""
        self._at = self._clock.monotonic() + self._platform.patience_seconds

    def over(self) -> None:
        """All slots are there."""
        self._looks_left = 1
        self._warned = False

    @property
    def due(self) -> bool:
        """True if it is time to look."""
        return self._clock.monotonic() >= self._at

    def look(
        self, slots: Slots, needs: Mapping[int, Need], cut: Collection[str]
    ) -> tuple[int, Sequence[SlotInstruction]]:
        """How many slots there are places for, and what follows: fewer slots, or slots on other hosts.

        If nothing follows, a warning names once the slots that are awaited. `cut`: hosts that do not answer.
        """
        self._looks_left -= 1
        taken = {slot: needs[slot].vcores for slot in slots.active}
        cores = self._platform.present(cut)
        places = len(taken) if cores >= sum(taken.values()) else cores // max(taken.values())
        instructions: Sequence[SlotInstruction] = ()
        was_short, self._short = self._short, places < len(taken)
        if self._looks_left <= 0 and places and (was_short or slots.missing):
            capacities = {host: one for host, one in self._platform.capacities().items() if host not in cut}
            if cut:
                slots.without(capacities)
            instructions = slots.shrink_to(places)
            if not instructions and cut and slots.missing:
                missing = named_all(list(map(str, slots.missing)))
                what = f"{', '.join(f'`{host}`' for host in sorted(cut))} does not answer"
                self._warn(f"Spark is asked for slots elsewhere (missing: {missing}): {what}")
                instructions = slots.elsewhere(capacities)
        if not instructions and slots.missing and not self._warned:
            self._warned = True
            self._warn(describe_missing(slots.missing))
        return places, instructions


class Spreading:
    """When to look for cores for the slots that are wanted beside those there are. One thread."""

    def __init__(self, clock: Clock) -> None:
        self.wanted = 0
        """How many slots the containers would have if Spark had all cores that its settings allow."""
        self._clock = clock
        self._at = math.inf
        self._failures = 0

    def size(self, slots: int, wanted: int) -> None:
        """There are so many slots, and so many are wanted."""
        self.wanted = max(slots, wanted)
        self._failures = 0
        self._at = self._clock.monotonic() + _SPREAD_SECONDS if slots < self.wanted else math.inf

    @property
    def due(self) -> bool:
        """True if it is time to look."""
        return self._clock.monotonic() >= self._at

    def looked(self, *, begun: bool) -> None:
        """Spark was asked. `begun`: it had cores; counts as a failure until the containers are spread."""
        self._failures += begun
        self._at = self._clock.monotonic() + max(_SPREAD_SECONDS, back_off(self._failures))

    def rest(self) -> None:
        """The containers cannot be spread: look again much later."""
        self._at = self._clock.monotonic() + _SPREAD_REST_SECONDS
