"""Warnings about state files, told as events: those of before a run's first window with that window, when the run is known."""

from __future__ import annotations

from collections.abc import Callable

from ridgeline.api.clock import Clock
from ridgeline.measure.events import RunEvent, StateWarning


class StateWarnings:
    """Keeps warnings until `begin`, then passes them on as they come."""

    def __init__(self, observe: Callable[[RunEvent], None], clock: Clock) -> None:
        self._observe = observe
        self._clock = clock
        self._kept: list[StateWarning] | None = []

    def tell(self, operator: int, text: str) -> None:
        """Tell something of the state of an operator (physical id)."""
        warning = StateWarning(self._clock.wall(), operator, text)
        if self._kept is None:
            self._observe(warning)
        else:
            self._kept.append(warning)

    def begin(self) -> None:
        """The run is known: pass on what was kept."""
        kept, self._kept = self._kept, None
        for warning in kept or ():
            self._observe(warning)
