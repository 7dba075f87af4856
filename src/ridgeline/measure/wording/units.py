"""Numbers as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

_MINUTE = 60
_HOUR = 3600
_DAY = 86_400
_KILO = 1024
UNKNOWN = "-"
_WHOLE_PERCENT = 10
_LONGEST = 1e15
"""From here on numbers are shown by their power of ten."""
_BASES = {"estimated": "about ", "schedule": "about ", "lower bound": "at least "}
"""The prefixes of numbers that are not exact, by their basis."""


def count(number: float | None) -> str:
    """A whole number with separators; a very large one by its power of ten.

    >>> count(1234567), count(1e308), count(None)
    ('1,234,567', '1.00e+308', '-')
    """
    if number is None:
        return UNKNOWN
    return f"{number:.2e}" if abs(number) >= _LONGEST else f"{number:,.0f}"


def rate(number: float | None) -> str:
    """A number per second: a decimal where it matters.

    >>> [rate(number) for number in (None, 0, 0.25, 12.6, 4000)]
    ['-', '0', '0.2', '13', '4,000']
    """
    if number is None:
        return UNKNOWN
    return f"{number:.1f}" if 0 < number < 10 else count(number)  # noqa: PLR2004  two digits do


def percent(number: float | None) -> str:
    """A share that is given in percent.

    >>> percent(42.4), percent(None)
    ('42%', '-')
    """
    return UNKNOWN if number is None else f"{number:.0f}%"


def size(value: float | None) -> str:
    """Bytes as people read them.

    >>> size(None), size(900), size(4_000_000)
    ('-', '900 B', '3.8 MiB')
    """
    if value is None:
        return UNKNOWN
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < _KILO:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= _KILO
    return f"{value:,.1f} TiB"


def duration(seconds: float) -> str:
    """A time with three digits or so.

    >>> [duration(seconds) for seconds in (0, 0.00042, 0.0424, 1.234, 75.2, 119.7, 7384)]
    ['0 ms', '0.4 ms', '42 ms', '1.23 s', '1 min 15 s', '2 min 0 s', '2 h 3 min']
    """
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 1:
        ms = seconds * 1000
        digits = 0 if ms >= 10 or not ms else 1 if ms >= 0.1 else 2  # noqa: PLR2004  two digits do
        return f"{ms:.{digits}f} ms"
    if seconds < _MINUTE:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"  # noqa: PLR2004  three digits do
    if seconds < _HOUR:
        minutes, rest = divmod(round(seconds), _MINUTE)
        return f"{minutes} min {rest} s"
    if seconds < _DAY:
        return f"{seconds // _HOUR:.0f} h {seconds % _HOUR // _MINUTE:.0f} min"
    days = seconds / _DAY
    return f"{days:.2e} d" if seconds >= _LONGEST else f"{days // 1:,.0f} d {seconds % _DAY // _HOUR:.0f} h"


def milliseconds(value: float | None) -> str:
    """A time that is given in milliseconds.

    >>> milliseconds(41.3), milliseconds(-250), milliseconds(None)
    ('41 ms', '-250 ms', '-')
    """
    return UNKNOWN if value is None else duration(value / 1000)


def about(text: str, estimated: object) -> str:
    """A figure as text; one that is estimated is marked, one that is not known is not.

    >>> about("41 ms", True), about("41 ms", False), about(UNKNOWN, True)
    ('about 41 ms', '41 ms', '-')
    """
    return f"about {text}" if estimated and text != UNKNOWN else text


def known_as(basis: str) -> str:
    """The prefix of a number that is not exact: `about `, `at least `."""
    return _BASES.get(basis, "")


def percentile(value: float | None) -> str:
    """A percentile in milliseconds, from a histogram, which does not distinguish times below 0.1 ms.

    >>> percentile(0.0), percentile(41.3)
    ('<0.1 ms', '41 ms')
    """
    return "<0.1 ms" if value == 0 else milliseconds(value)


def soon(seconds: float) -> str:
    """A time to wait, in whole seconds.

    >>> soon(0.3), soon(39.6), soon(100)
    ('1 s', '40 s', '1 min 40 s')
    """
    whole = max(1, round(seconds))
    return f"{whole} s" if whole < _MINUTE else duration(whole)


def time_of_day(at: float, now: float | None = None) -> str:
    """A time where the user is: `14:03:12`, or `2026-11-21 14:03:12` if `now` is another day."""
    moment = datetime.fromtimestamp(at, tz=UTC).astimezone()
    today = now is None or datetime.fromtimestamp(now, tz=UTC).astimezone().date() == moment.date()
    return moment.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S")


def plural(number: int, noun: str) -> str:
    """A number and its noun.

    >>> plural(1, "window"), plural(2000, "window")
    ('1 window', '2,000 windows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def amount(value: float, unit: str) -> str:
    """A figure of a promise with its unit; of a share the percent.

    >>> amount(1.2, "s"), amount(0.125, "share"), amount(0.004, "share"), amount(4000, "tuples/s")
    ('1.20 s', '12%', '0.4%', '4,000 tuples/s')
    """
    if unit == "s":
        return duration(value)
    if unit != "share":
        return f"{count(value)} {unit}"
    percent = 100 * value
    return f"{percent:,.0f}%" if percent >= _WHOLE_PERCENT or percent == int(percent) else f"{percent:.1f}%"
