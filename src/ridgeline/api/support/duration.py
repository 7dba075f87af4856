"""Durations: `0.5` (seconds), `"200ms"`, `"1s"`, `"5m"`, `"1h"`, `"1d"`, `"1w"`; in answers milliseconds."""

from __future__ import annotations

import math
import re

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*(ms|s|m|h|d|w)?\s*")
FORMS = 'a number of seconds, or a text such as "200ms", "1s", "5m" or "1h"'


def parse_duration(value: object) -> float:
    """Convert a duration to seconds. A number without a unit is seconds. Raises ValueError for anything else.

    >>> parse_duration("200ms"), parse_duration("5m"), parse_duration(0)
    (0.2, 300.0, 0.0)
    >>> parse_duration("1d") * 7 == parse_duration("1w")
    True
    """
    seconds = math.nan
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str):
        match = _TEXT.fullmatch(value)
        if match:
            number, unit = match.groups()
            seconds = float(number) / 1000 if unit == "ms" else float(number) * _SECONDS[unit or "s"]
    if not math.isfinite(seconds):
        raise ValueError(f"{value!r} is not a duration; give {FORMS}")
    if seconds < 0:
        raise ValueError(f"{value!r} is less than 0; give {FORMS}")
    return seconds


def duration_faults(holder: object, *names: str) -> list[tuple[str, object, str]]:
    """The faults of those of its attributes `names` that are neither a duration nor None, as properties have.

    >>> from types import SimpleNamespace
    >>> duration_faults(SimpleNamespace(gap="soon", lateness=None), "gap", "lateness")
    [('gap', 'soon', 'must be a number of seconds, or a text such as "200ms", "1s", "5m" or "1h"')]
    """
    faults: list[tuple[str, object, str]] = []
    for name in names:
        value = getattr(holder, name)
        try:
            _ = value is None or parse_duration(value)
        except ValueError:
            faults.append((name, value, f"must be {FORMS}"))
    return faults


def positive_duration_faults(holder: object, *names: str) -> list[tuple[str, object, str]]:
    """As `duration_faults`, and of those that are no more than 0 when rounded to a microsecond.

    >>> from types import SimpleNamespace
    >>> positive_duration_faults(SimpleNamespace(gap=0, lateness=None), "gap", "lateness")[0][:2]
    ('gap', 0)
    """
    faults = duration_faults(holder, *names)
    wrong = {name for name, *_ in faults}
    for name in names:
        value = getattr(holder, name)
        if name not in wrong and value is not None and round(parse_duration(value) * 1_000_000) <= 0:
            faults.append((name, value, f"must be more than 0; {FORMS}"))
    return faults


def as_ms(seconds: float) -> float:
    """Seconds as milliseconds, rounded to a nanosecond."""
    return round(1000 * seconds, 6)
