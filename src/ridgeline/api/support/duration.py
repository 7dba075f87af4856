"""Durations: `0.5` (seconds), `"200ms"`, `"1s"`, `"5m"`, `"1h"`, `"1d"`, `"1w"`; in answers milliseconds."""

from __future__ import annotations

import math
import re
from typing import Annotated, TypeAlias

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

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


def _checked(value: float | str) -> float | str:
    try:
        parse_duration(value)
    except ValueError:
        raise PydanticCustomError("duration", "must be {forms}", {"forms": FORMS}) from None
    return value


def _positive(value: float | str) -> float | str:
    if round(parse_duration(_checked(value)) * 1_000_000) <= 0:
        raise PydanticCustomError("duration", "must be more than 0; {forms}", {"forms": FORMS})
    return value


Duration: TypeAlias = Annotated[float | str, AfterValidator(_checked)]
"""The type of a property that is a duration; the value is as it was given."""
PositiveDuration: TypeAlias = Annotated[float | str, AfterValidator(_positive)]
"""The same, and more than 0 when rounded to a microsecond."""


def as_ms(seconds: float) -> float:
    """Seconds as milliseconds, rounded to a nanosecond."""
    return round(1000 * seconds, 6)
