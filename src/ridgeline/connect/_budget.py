"""How much a window of an input reads at most: little at first, more while windows are full and quick."""

from __future__ import annotations

from ridgeline.api.clock import Clock

_FIRST, _LEAST = 1 / 64, 1 / 4096
_QUICK_SECONDS, _VERY_QUICK_SECONDS = 0.5, 0.1
"""Full windows that are committed in less time are followed by larger ones: twice, or four times as large."""
_SLOW_SECONDS = 2.0


class Budget:
    """The part of the greatest window that the next one may take.

    A window that takes all that is there is never larger for it: so windows are short while the input is up
    to date. While it catches up they grow until one takes half a second, so that what each window costs by
    itself does not matter.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.share = _FIRST
        self._full: dict[int, float] = {}
        """When the full windows began that are under way."""
        self._last = 0.0

    def began(self, window_id: int, *, full: bool) -> None:
        """A window has begun; `full`: it left records for the next one."""
        self._full = {window: at for window, at in self._full.items() if window < window_id}
        if full:
            self._full[window_id] = self._clock.monotonic()

    def committed(self, window_id: int) -> None:
        """All windows up to this one are committed."""
        now = self._clock.monotonic()
        begun = [at for window, at in self._full.items() if window <= window_id]
        self._full = {window: at for window, at in self._full.items() if window > window_id}
        if begun:
            taken = (now - max(self._last, min(begun))) / len(begun)
            if taken < _QUICK_SECONDS:
                factor = 4 if taken < _VERY_QUICK_SECONDS else 2
                self.share = min(1.0, factor * self.share)
            elif taken > _SLOW_SECONDS:
                self.share = max(_LEAST, self.share / 2)
        self._last = now
