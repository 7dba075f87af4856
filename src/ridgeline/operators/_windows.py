"""Kinds of windows of record time: tumbling, sliding, session."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from ridgeline.api.duration import parse_duration

Duration = float | str | timedelta
"""Seconds, a text such as "30s", or a timedelta."""


def microseconds(value: Duration, what: str) -> int:
    """A duration in microseconds. Raises ValueError if it is none, or less than one."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else parse_duration(value)
    found = round(seconds * 1_000_000)
    if found < 1:
        msg = f"`{what}` of a window must be more than 0; got {value!r}"
        raise ValueError(msg)
    return found


@dataclass(frozen=True)
class Sliding:
    """Windows of `size` that begin every `slide`; both in microseconds, from 1970-01-01 UTC on.

    >>> sliding("1h", "15m").slide
    900000000
    """

    size: int
    slide: int


@dataclass(frozen=True)
class Session:
    """Windows of a key that end when no record has come for `gap` microseconds.

    >>> session("30s").gap
    30000000
    """

    gap: int


def tumbling(size: Duration) -> Sliding:
    """Windows of one size, one after the other: `tumbling("1m")`. Days begin at midnight UTC.

    Raises ValueError for what is no duration.

    >>> tumbling("1m")
    Sliding(size=60000000, slide=60000000)
    """
    found = microseconds(size, "size")
    return Sliding(found, found)


def sliding(size: Duration, slide: Duration) -> Sliding:
    """Windows of one size that begin every `slide`, so a record is in `size / slide` of them.

    Raises ValueError for what is no duration, and if `size` is not a multiple of `slide`.

    >>> sliding("1h", "15m")
    Sliding(size=3600000000, slide=900000000)
    """
    found = Sliding(microseconds(size, "size"), microseconds(slide, "slide"))
    if found.size % found.slide:
        msg = f"the `size` of sliding windows must be a multiple of `slide`; got {size!r} and {slide!r}"
        raise ValueError(msg)
    return found


def session(gap: Duration) -> Session:
    """Windows of records that are less than `gap` apart, for each key: `session(gap="30s")`.

    Raises ValueError for what is no duration.

    >>> session("30s")
    Session(gap=30000000)
    """
    return Session(microseconds(gap, "gap"))
