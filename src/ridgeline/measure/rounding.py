"""How durations are rounded in answers."""

from __future__ import annotations


def as_ms(seconds: float) -> float:
    """Seconds as milliseconds, rounded to a nanosecond."""
    return round(1000 * seconds, 6)
