"""Kinds of windows of records: tumbling, sliding, session, rolling, by count, and one for all records."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, overload
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator, Discriminator, Field, Tag

from ridgeline.api.support.duration import parse_duration
from ridgeline.api.support.results import names_call

DAY = 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = date(1970, 1, 1).toordinal()
_MICROSECOND = timedelta(microseconds=1)


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


Duration = float | str | timedelta
"""Seconds, a text such as "30s", or a timedelta."""
Times = npt.NDArray[np.int64]
"""Microseconds since 1970-01-01 UTC."""
_LONGEST = 36_525 * DAY
_WEEK = 7 * DAY
_MONDAY = 4 * DAY  # 1970-01-05
_LONGEST_MONTH = 31 * DAY
_MONTHS = re.compile(r"\s*(\d+)\s*(mo|q|y)\s*")
_MONTHS_IN = {"mo": 1, "q": 3, "y": 12}
_MOST_MONTHS = 1200


def microseconds(value: Duration, what: str, *, least: int = 1) -> int:
    """A duration in microseconds. Raises ValueError if it is none, less than `least` or over 100 years."""
    try:
        seconds = value.total_seconds() if isinstance(value, timedelta) else parse_duration(value)
    except ValueError as error:
        raise ValueError(f"its `{what}` is no time: {error}") from None
    found = round(seconds * 1_000_000)
    if found < least:
        raise ValueError(
            f"`{what}` of a window must be {'more than' if least else 'at least'} 0; got {value!r}"
        )
    if found > _LONGEST:
        raise ValueError(f"`{what}` of a window must be at most 100 years; got {value!r}")
    return found


Positive = Annotated[int, Field(gt=0)]
"""As fields of a specification they come without the functions that refuse wrong ones."""


@dataclass(frozen=True)
class Sliding:
    """Windows of `size` that begin every `slide`, all in microseconds; see `sliding`.

    `offset`: how much later than midnight they begin. With a `zone` they have whole days of that time zone.
    `months`: how many months of the calendar `slide` has; `size` and `slide` count 31 days for each then.

    >>> sliding("1h", "15m").slide
    900000000
    """

    size: int
    slide: int
    offset: int = 0
    zone: str | None = None
    months: int = 0

    def __repr__(self) -> str:
        """Without `months` if there are none: states of earlier versions are compared by this text."""
        months = f", months={self.months}" if self.months else ""
        bounds = f"size={self.size}, slide={self.slide}, offset={self.offset}"
        return f"Sliding({bounds}, zone={self.zone!r}{months})"

    @property
    def _anchor(self) -> int:
        """When one of them begins: windows of weeks begin on Mondays."""
        return self.offset + (0 if self.slide % _WEEK else _MONDAY)

    def last_starts(self, times: Times) -> Times:
        """The start of the last window that each time is in."""
        if self.months:
            return month_starts(times, self.zone or "UTC", self.months, self.offset)
        if self.zone is None:
            return (times - self._anchor) // self.slide * self.slide + self._anchor
        return day_starts(times, self.zone, self.slide // DAY, self._anchor // DAY, self.offset % DAY)

    def starts(self, lasts: Times) -> Times:
        """For each last start the starts of all windows that hold the same times: a row each, latest first.

        Days of a zone differ in length, but no window is left out: each begins at the same time of day.
        """
        if self.months:
            back = [self._months_after(lasts, -number) for number in range(self.size // self.slide)]
            return np.stack(back, axis=1)
        if self.zone is None:
            return lasts[:, None] - np.arange(self.size // self.slide) * self.slide
        days = [-self.slide // DAY * number for number in range(self.size // self.slide)]
        firsts, index = np.unique(lasts, return_inverse=True)
        rows = [
            [start_of_days(first, self.zone, self.offset % DAY, day) for day in days]
            for first in firsts.tolist()
        ]
        return np.array(rows, np.int64)[index]

    def ends(self, starts: Times) -> Times:
        """When the windows end that begin then."""
        if self.months:
            return self._months_after(starts, self.size // self.slide)
        if self.zone is None:
            return starts + self.size
        return shifted(starts, self.zone, self.offset % DAY, self.size // DAY)

    def _months_after(self, starts: Times, slides: int) -> Times:
        """The starts of windows so many slides after others."""
        return shifted_months(starts, self.zone or "UTC", self.offset, slides * self.months)


@dataclass(frozen=True)
class Session:
    """Windows of a key that end when no record has come for `gap` microseconds.

    >>> session("30s").gap
    30000000
    """

    gap: Positive


@dataclass(frozen=True)
class Counted:
    """Windows of `every` records of a key.

    >>> tumbling(count=100).every
    100
    """

    every: Positive


@dataclass(frozen=True)
class RollingTime:
    """For each record at time t the records of its key after t - `span` microseconds, up to t.

    >>> rolling("5m").span
    300000000
    """

    span: Positive


@dataclass(frozen=True)
class RollingCount:
    """For each record the last `records` ones of its key, it included.

    >>> rolling(count=100).records
    100
    """

    records: Positive


@dataclass(frozen=True)
class Global:
    """One window of all records of a key.

    >>> global_window()
    Global(everything=True)
    """

    everything: bool = True


_DURATIONS = {"size", "slide", "offset", "gap", "span"}


def _read(given: Any) -> Any:
    """Windows of a text, such as `session(10m)`; fields of a specification with durations as numbers.

    Raises ValueError.
    """
    if isinstance(given, str):
        return _windows_of(given)
    if isinstance(given, Mapping):
        return {
            name: microseconds(value, name, least=0)
            if name in _DURATIONS and isinstance(value, str) and not value.isdecimal()
            else value
            for name, value in given.items()
        }
    return given


def _windows_of(text: str) -> Any:
    """The windows that a text calls for. Raises ValueError."""
    makers = {one.__name__: one for one in (tumbling, sliding, session, rolling, global_window)}
    called = re.fullmatch(r"\s*(\w+)\s*\((.*)\)\s*", text)
    if called is None or called[1] not in makers:
        raise ValueError(f"should be windows, {_FORMS}")
    places, names = [], {}
    for part in filter(None, map(str.strip, called[2].split(","))):
        name, given, value = map(str.strip, part.rpartition("="))
        value = value.strip("'\"")
        if given:
            names[name] = int(value) if name == "count" and value.isdecimal() else value
        else:
            places.append(value)
    try:
        make: Any = makers[called[1]]
        return make(*places, **names)
    except TypeError as error:
        raise ValueError(f"should be windows, {_FORMS}: {error}") from None


def _kind(given: Any) -> str | None:
    """The one kind of windows that a value is of, or whose fields it has; None for none."""
    for kind in KINDS:
        own = {one.name: one.default is MISSING for one in fields(kind)}
        needed = {name for name, is_needed in own.items() if is_needed} or {*own}
        if isinstance(given, kind) or (isinstance(given, Mapping) and needed <= given.keys() <= own.keys()):
            return kind.__name__
    return None


KINDS = (Sliding, Session, Counted, RollingTime, RollingCount, Global)
_FORMS = "such as `session(10m)`, `tumbling(1h)`, `sliding(1h, 15m)` or `global_window()`"
Windows = Annotated[
    Annotated[Sliding, Tag("Sliding")]
    | Annotated[Session, Tag("Session")]
    | Annotated[Counted, Tag("Counted")]
    | Annotated[RollingTime, Tag("RollingTime")]
    | Annotated[RollingCount, Tag("RollingCount")]
    | Annotated[Global, Tag("Global")],
    Discriminator(_kind, custom_error_type="windows", custom_error_message=f"Should be windows, {_FORMS}"),
    BeforeValidator(_read),
]
"""All kinds of windows; as a property from outside also texts, and the fields of a specification."""


@overload
def tumbling(size: Duration, *, zone: str | None = None, offset: Duration = 0) -> Sliding: ...
@overload
def tumbling(*, count: int) -> Counted: ...
@names_call
def tumbling(
    size: Duration | None = None, *, zone: str | None = None, offset: Duration = 0, count: int | None = None
) -> Sliding | Counted:
    """Windows of one size, one after the other: `tumbling("1m")`, `tumbling("1d", zone="Europe/Berlin")`.

    Months, quarters and years of the calendar: "1mo", "1q", "1y". `zone` and `offset` are as of `sliding`.
    `count`: windows of so many records of a key, in the order in which they come, whatever their times:
    `tumbling(count=100)`. Raises ValueError for what does not fit.

    >>> tumbling("1m")
    Sliding(size=60000000, slide=60000000, offset=0, zone=None)
    >>> tumbling(count=100)
    Counted(every=100)
    """
    if (size is None) == (count is None):
        raise ValueError(
            f"tumbling windows have a `size` or a `count`, one of them; got {size!r} and {count!r}"
        )
    if size is not None:
        return _sliding(size, size, zone, offset)
    if zone is not None or offset:
        raise ValueError("windows by count have neither `zone` nor `offset`; leave them out")
    return Counted(_records(count))


@names_call
def sliding(size: Duration, slide: Duration, *, zone: str | None = None, offset: Duration = 0) -> Sliding:
    """Windows of one size that begin every `slide`, so a record is in `size / slide` of them.

    They begin at midnight UTC and every `slide` from there, by `offset` later; those of whole weeks begin on
    Mondays. With a `zone` of the IANA database, such as "Europe/Berlin", they begin at midnight there. Their
    days have 23 or 25 hours when the clocks change.

    Sizes and slides in months ("1mo"), quarters ("1q") and years ("1y") are those of the calendar. They begin
    on the first of a month, by `offset` later; with a `zone` at midnight there, else in UTC.

    Raises ValueError for what is no duration, and for a zone that is not known. So it does if `size` is not a
    multiple of `slide`, `offset` not less than `slide`, or `slide` with a zone not of whole days. Of months
    the `offset` must be less than 28 days.

    >>> sliding("1h", "15m").slide
    900000000
    """
    return _sliding(size, slide, zone, offset)


@names_call
def session(gap: Duration) -> Session:
    """Windows of records that are less than `gap` apart, for each key: `session(gap="30s")`.

    Raises ValueError for what is no duration.

    >>> session("30s")
    Session(gap=30000000)
    """
    return Session(microseconds(gap, "gap"))


@overload
def rolling(span: Duration) -> RollingTime: ...
@overload
def rolling(*, count: int) -> RollingCount: ...
@names_call
def rolling(span: Duration | None = None, *, count: int | None = None) -> RollingTime | RollingCount:
    """For each record a window of those of its key before it, it included: `rolling("5m")`.

    A record at time t gets a result over the records after t - `span`, up to t, all of time t included. With
    `count` it is over the last so many records. It comes once the watermark has passed t.

    Raises ValueError for what is no duration or number of records, and for both or neither.

    >>> rolling("5m"), rolling(count=100)
    (RollingTime(span=300000000), RollingCount(records=100))
    """
    if (span is None) == (count is None):
        raise ValueError(
            f"rolling windows have a `span` or a `count`, one of them; got {span!r} and {count!r}"
        )
    return RollingCount(_records(count)) if span is None else RollingTime(microseconds(span, "span"))


def global_window() -> Global:
    """One window of all records of a key, which ends with the input.

    It is of use with early results: `early="5s"` or `early_count=100`.

    >>> global_window()
    Global(everything=True)
    """
    return Global()


def _records(count: object) -> int:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ValueError(f"the `count` of a window is a number of records, at least 1; got {count!r}")
    return count


def _sliding(size: Duration, slide: Duration, zone: str | None, offset: Duration) -> Sliding:
    """As `sliding`."""
    months = _months(size), _months(slide)
    if any(months):
        return _monthly(*months, size, slide, zone, offset)
    found = Sliding(
        microseconds(size, "size"),
        microseconds(slide, "slide"),
        microseconds(offset, "offset", least=0),
        zone,
    )
    if found.size % found.slide:
        raise ValueError(
            f"the `size` of sliding windows must be a multiple of `slide`; got {size!r} and {slide!r}"
        )
    if found.offset >= found.slide:
        raise ValueError(
            f"the `offset` of windows must be less than {slide!r}, their distance; got {offset!r}"
        )
    if zone is not None:
        check_zone(zone)
        if found.slide % DAY:
            remedy = "leave `zone` out: windows of hours and minutes begin at midnight UTC"
            raise ValueError(f"windows with a `zone` must have whole days; got {slide!r}; {remedy}")
    return found


def _months(value: object) -> int:
    """How many months a text such as "1mo", "1q" or "1y" has; 0 for another duration."""
    match = _MONTHS.fullmatch(value) if isinstance(value, str) else None
    return 0 if match is None else int(match[1]) * _MONTHS_IN[match[2]]


def _monthly(
    months: int, apart: int, size: Duration, slide: Duration, zone: str | None, offset: Duration
) -> Sliding:
    """Windows of months of the calendar that begin every `apart` months. Raises ValueError as `sliding`."""
    if not months or not apart:
        msg = f"`size` and `slide` must both have months, or neither: months differ in length; got {size!r}"
        msg = f'{msg} and {slide!r}; give both in "mo", "q" or "y"'
        raise ValueError(msg)
    if months % apart:
        msg = f"the `size` of sliding windows must be a multiple of `slide`; got {size!r} and {slide!r}"
        raise ValueError(msg)
    if months > _MOST_MONTHS:
        msg = f"`size` of a window must be at most 100 years; got {size!r}"
        raise ValueError(msg)
    later = microseconds(offset, "offset", least=0)
    if later >= 28 * DAY:
        msg = f"the `offset` of windows of months must be less than 28 days; got {offset!r}"
        raise ValueError(msg)
    if zone is not None:
        check_zone(zone)
    return Sliding(months * _LONGEST_MONTH, apart * _LONGEST_MONTH, later, zone, apart)
