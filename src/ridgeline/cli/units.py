"""Numbers as people read them."""

from __future__ import annotations

_MINUTE = 60
_HOUR = 3600


def count(number: float) -> str:
    """A whole number with separators.

    >>> count(1234567)
    '1,234,567'
    """
    return f"{number:,.0f}"


def duration(seconds: float) -> str:
    """A time with three digits or so.

    >>> [duration(seconds) for seconds in (0, 0.00042, 0.0424, 1.234, 75.2, 7384)]
    ['0 ms', '0.4 ms', '42 ms', '1.23 s', '1 min 15 s', '2 h 3 min']
    """
    if seconds < 1:
        milliseconds = seconds * 1000
        digits = 0 if milliseconds >= 10 or not milliseconds else 1 if milliseconds >= 0.1 else 2  # noqa: PLR2004  two digits do
        return f"{milliseconds:.{digits}f} ms"
    if seconds < _MINUTE:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"  # noqa: PLR2004  three digits do
    if seconds < _HOUR:
        return f"{seconds // _MINUTE:.0f} min {seconds % _MINUTE:.0f} s"
    return f"{seconds // _HOUR:.0f} h {seconds % _HOUR // _MINUTE:.0f} min"


def plural(number: int, noun: str) -> str:
    """A number and its noun.

    >>> plural(1, "window"), plural(2000, "window")
    ('1 window', '2,000 windows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
