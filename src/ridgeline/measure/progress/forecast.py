"""Forecasts of when a source will have caught up, and how wrong they were."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from ridgeline.measure.progress.backlog import BacklogState, Verdict

_EVERY_SECONDS = 1.0
_KEPT = 600
_FEWEST = 3
_CAUGHT_UP = frozenset({Verdict.KEEPING_UP, Verdict.PACED})
_LOST = frozenset({Verdict.FALLING_BEHIND, Verdict.HOLDING, Verdict.STUCK})


@dataclass(slots=True)
class Forecasts:
    """The forecasts that were given while a source caught up, at most one a second, and their error.

    While it catches up, the error is how far earlier forecasts are from the newest one. Afterwards it is how
    far all were from the moment when it had caught up. Both are means of absolute differences.
    """

    error_seconds: float | None = None
    """None: there were too few forecasts, or it never caught up."""
    _made: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    _at: float = float("-inf")

    def is_due(self, at: float) -> bool:
        """True if the last look was long enough ago."""
        return at - self._at >= _EVERY_SECONDS

    def look(self, at: float, state: BacklogState) -> None:
        """Take in how the source is at a moment."""
        self._at = at
        if state.caught_up_at is not None and state.verdict is Verdict.CATCHING_UP:
            self._made.append(state.caught_up_at)
            self._judge(state.caught_up_at)
        elif state.verdict in _CAUGHT_UP and self._made:
            self._judge(at)
            self._made.clear()
        elif state.verdict in _LOST:
            self._made.clear()
            self.error_seconds = None

    def _judge(self, truth: float) -> None:
        """Compare the forecasts with what is known best."""
        if len(self._made) >= _FEWEST:
            self.error_seconds = sum(abs(one - truth) for one in self._made) / len(self._made)
