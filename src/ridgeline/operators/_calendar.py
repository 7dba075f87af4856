"""Days and months of a time zone as microseconds since 1970-01-01 UTC, daylight saving included.

A day begins at a time of day by the clocks there (`time_of_day`, microseconds after midnight). Where the
clocks skip that time it begins when they do; where they show it twice, the first time.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

DAY = 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = date(1970, 1, 1).toordinal()
_MICROSECOND = timedelta(microseconds=1)
Times = npt.NDArray[np.int64]


def check_zone(zone: str) -> None:
    """Raise ValueError for a time zone that is not known."""
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError, TypeError):
        raise ValueError(
            f'there is no time zone {zone!r}; give one of the IANA database, such as "Europe/Berlin"'
        ) from None


@lru_cache(maxsize=65_536)
def start_of_day(day: int, zone: str, time_of_day: int) -> int:
    """When a day begins; days count from 1970-01-01."""
    midnight = datetime.combine(date.fromordinal(_FIRST + day), datetime.min.time(), ZoneInfo(zone))
    begins = midnight + timedelta(microseconds=time_of_day)  # by the clocks
    return (begins.astimezone(UTC) - _EPOCH) // _MICROSECOND


@lru_cache(maxsize=65_536)
def day_of(start: int, zone: str, time_of_day: int) -> int:
    """The day that begins then; the last, should several."""
    near = start // DAY
    return max(day for day in range(near - 2, near + 3) if start_of_day(day, zone, time_of_day) <= start)


def start_of_days(start: int, zone: str, time_of_day: int, days: int) -> int:
    """When the day begins that comes so many days after the one that begins at `start`."""
    return start_of_day(day_of(start, zone, time_of_day) + days, zone, time_of_day)


def day_starts(times: Times, zone: str, days: int, anchor: int, time_of_day: int) -> Times:
    """The start of the window of so many days that each time is in; the day `anchor` begins one."""
    starts: dict[int, int] = {}
    for near in np.unique(times // DAY).tolist():
        for day in range(near - 2, near + 3):
            starts[start_of_day(day, zone, time_of_day)] = day
    begins = np.array(sorted(starts), np.int64)
    own = np.array([starts[begin] for begin in begins.tolist()], np.int64)
    firsts = (own - anchor) // days * days + anchor
    windows = np.array([start_of_day(first, zone, time_of_day) for first in firsts.tolist()], np.int64)
    return windows[np.searchsorted(begins, times, "right") - 1]


def shifted(starts: Times, zone: str, time_of_day: int, days: int) -> Times:
    """As `start_of_days`, for many."""
    firsts, index = np.unique(starts, return_inverse=True)
    found = [start_of_days(first, zone, time_of_day, days) for first in firsts.tolist()]
    return np.array(found, np.int64)[index]


def month_starts(times: Times, zone: str, months: int, offset: int) -> Times:
    """The start of the window of so many months that each time is in; January 1970 begins one.

    `offset`: microseconds from midnight of the first day, by the clocks of the zone; less than 28 days.
    """
    near = np.unique(times.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64))
    wanted = sorted({month for one in near.tolist() for month in range(one - 2, one + 2)})
    begins = np.array([_start_of_month(month, zone, offset) for month in wanted], np.int64)
    firsts = np.array(wanted, np.int64) // months * months
    windows = np.array([_start_of_month(first, zone, offset) for first in firsts.tolist()], np.int64)
    return windows[np.searchsorted(begins, times, "right") - 1]


def shifted_months(starts: Times, zone: str, offset: int, months: int) -> Times:
    """When the months begin that come so many months after those that begin at `starts`."""
    firsts, index = np.unique(starts, return_inverse=True)
    found = [
        _start_of_month(_month_of(first, zone, offset) + months, zone, offset) for first in firsts.tolist()
    ]
    return np.array(found, np.int64)[index]


@lru_cache(maxsize=65_536)
def _start_of_month(month: int, zone: str, offset: int) -> int:
    """When a month begins; months count from January 1970."""
    first = date(1970 + month // 12, 1 + month % 12, 1).toordinal() - _FIRST
    return start_of_day(first + offset // DAY, zone, offset % DAY)


@lru_cache(maxsize=65_536)
def _month_of(start: int, zone: str, offset: int) -> int:
    """The month that begins then."""
    at = _EPOCH + start * _MICROSECOND
    near = 12 * (at.year - 1970) + at.month - 1
    return max(month for month in range(near - 2, near + 2) if _start_of_month(month, zone, offset) <= start)
