"""A threshold that does not flutter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ridgeline.api.support.results import names_call
from ridgeline.operators.patterns.pattern import Found, NumberPattern


@dataclass(frozen=True)
class Hysteresis(NumberPattern):
    """See `hysteresis`."""

    above: float
    below: float
    low: bool = False
    cleared: bool = False

    def step(self, memory: Any, time: int, item: Any, found: list[Found]) -> Any:
        """The memory is `(1,)` once the threshold was passed, until it is cleared."""
        high, low = item > self.above, item < self.below
        if not memory:
            if low if self.low else high:
                found.append(Found("below" if self.low else "above", time, item))
                return (1,)
        elif high if self.low else low:
            if self.cleared:
                found.append(Found("above" if self.low else "below", time, item))
            return None
        return memory


@names_call
def hysteresis(
    column: str, *, above: float, below: float, low: bool = False, cleared: bool = False
) -> Hysteresis:
    """A number goes above one threshold, and counts again only once it has been below the other.

    `low`: the other way round; it is found when the number goes below `below`, and counts again once it has
    been above `above`. `cleared`: the way back is reported too. Findings are "above" and "below", since the
    record that showed it. Raises ValueError if `above` is less than `below`.

    >>> hysteresis("celsius", above=80, below=70)
    Hysteresis(column='celsius', above=80, below=70, low=False, cleared=False)
    """
    if not above >= below:
        raise ValueError(f"`above` must not be less than `below`; got {above} and {below}")
    return Hysteresis(column, above, below, low, cleared)
