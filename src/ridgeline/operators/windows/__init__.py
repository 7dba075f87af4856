"""Kinds of windows of records: tumbling, sliding, session, rolling, by count, and one for all records."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, NamedTuple, overload
from zoneinfo import ZoneInfo

import numpy as np
from pydantic import BeforeValidator, Discriminator, Field, Tag

from ridgeline.api.support.duration import parse_duration
from ridgeline.api.support.results import names_call
from ridgeline.api.times import Microseconds

DAY = 86_400_000_000
_HOUR = 3_600_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = date(1970, 1, 1).toordinal()
_MICROSECOND = timedelta(microseconds=1)


Duration = float | str | timedelta
"""Seconds, a text such as "30s", or a timedelta."""


def check_zone(zone: str) -> None:
    """Raise ValueError for a time zone that is not known."""
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError, TypeError):
        raise ValueError(
            f'there is no time zone {zone!r}; give one of the IANA database, such as "Europe/Berlin"'
        ) from None


class Calendar(NamedTuple):
    """Days of a time zone, or months: they have a number each, and differ in length.

    `offset`: microseconds from midnight, of months from that of their first day, by the clocks of the zone.
    It is less than a day, or than 28 days. Days count from 1970-01-01, months from January 1970.
    """

    zone: str
    offset: int
    monthly: bool

    def windows(self, times: Microseconds, length: int, anchor: int) -> Microseconds:
        """The start of the window of so many days or months that each time is in; `anchor` begins one."""
        near, places = self._near(times)
        return self._begins((near - anchor) // length * length + anchor)[places]

    def moved(self, starts: Microseconds, numbers: Sequence[int]) -> Microseconds:
        """For each start when the days or months begin that are so many later: a row each."""
        near, places = self._near(starts)
        return self._begins(near[:, None] + np.array(numbers, np.int64))[places]

    def _near(self, times: Microseconds) -> tuple[Microseconds, Microseconds]:
        """The days or months around times, and for each time the place there of the one that it is in."""
        unit = "datetime64[M]" if self.monthly else "datetime64[D]"
        found = np.unique(times.astype("datetime64[us]").astype(unit).astype(np.int64))
        near = np.unique(found[:, None] + np.arange(-2, 3))
        # of several that begin at once, as where a zone has left one out, the last counts
        return near, np.searchsorted(self._begins(near), times, "right") - 1

    def _begins(self, numbers: Microseconds) -> Microseconds:
        """When days or months begin."""
        begins = [_start(self, number) for number in numbers.ravel().tolist()]
        return np.array(begins, np.int64).reshape(numbers.shape)


@lru_cache(maxsize=65_536)
def _start(calendar: Calendar, number: int) -> int:
    """When a day or month of a calendar begins."""
    offset = calendar.offset
    if calendar.monthly:
        number = date(1970 + number // 12, 1 + number % 12, 1).toordinal() - _FIRST + offset // DAY
    midnight = datetime.combine(
        date.fromordinal(_FIRST + number), datetime.min.time(), ZoneInfo(calendar.zone)
    )
    begins = midnight + timedelta(microseconds=offset % DAY)  # by the clocks
    return (begins.astimezone(UTC) - _EPOCH) // _MICROSECOND


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

    @property
    def _anchor(self) -> int:
        """When one of them begins: windows of weeks begin on Mondays."""
        return self.offset + (0 if self.slide % _WEEK else _MONDAY)

    @property
    def longest(self) -> int:
        """The most microseconds that one of them has: a day of a zone has 25 hours now and then."""
        return self.size + (0 if self.zone is None else _HOUR)

    @property
    def _calendar(self) -> Calendar | None:
        """What decides when windows begin; None if they are all of one length."""
        if self.months:
            return Calendar(self.zone or "UTC", self.offset, monthly=True)
        return None if self.zone is None else Calendar(self.zone, self.offset % DAY, monthly=False)

    @property
    def _length(self) -> int:
        """How many days or months of the calendar `slide` has."""
        return self.months or self.slide // DAY

    def last_starts(self, times: Microseconds) -> Microseconds:
        """The start of the last window that each time is in."""
        calendar = self._calendar
        if calendar is None:
            return (times - self._anchor) // self.slide * self.slide + self._anchor
        return calendar.windows(times, self._length, 0 if self.months else self._anchor // DAY)

    def starts(self, lasts: Microseconds) -> Microseconds:
        """For each last start the starts of all windows that hold the same times: a row each, latest first.

        Days of a zone differ in length, but no window is left out: each begins at the same time of day.
        """
        calendar, copies = self._calendar, range(self.size // self.slide)
        if calendar is None:
            return lasts[:, None] - np.array(copies) * self.slide
        return calendar.moved(lasts, [-self._length * number for number in copies])

    def ends(self, starts: Microseconds) -> Microseconds:
        """When the windows end that begin then."""
        calendar = self._calendar
        if calendar is None:
            return starts + self.size
        return calendar.moved(starts, [self.size // self.slide * self._length])[:, 0]


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
    Sliding(size=60000000, slide=60000000, offset=0, zone=None, months=0)
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
    if any(months) and not all(months):
        raise ValueError(
            "`size` and `slide` must both have months, or neither: months differ in length; "
            f'got {size!r} and {slide!r}; give both in "mo", "q" or "y"'
        )
    if months[0] > _MOST_MONTHS:
        raise ValueError(f"`size` of a window must be at most 100 years; got {size!r}")
    long, apart = months if all(months) else (microseconds(size, "size"), microseconds(slide, "slide"))
    later = microseconds(offset, "offset", least=0)
    if long % apart:
        raise ValueError(
            f"the `size` of sliding windows must be a multiple of `slide`; got {size!r} and {slide!r}"
        )
    if all(months) and later >= 28 * DAY:
        raise ValueError(f"the `offset` of windows of months must be less than 28 days; got {offset!r}")
    if not any(months) and later >= apart:
        raise ValueError(
            f"the `offset` of windows must be less than {slide!r}, their distance; got {offset!r}"
        )
    if zone is not None:
        check_zone(zone)
        if not any(months) and apart % DAY:
            remedy = "leave `zone` out: windows of hours and minutes begin at midnight UTC"
            raise ValueError(f"windows with a `zone` must have whole days; got {slide!r}; {remedy}")
    if any(months):
        return Sliding(long * _LONGEST_MONTH, apart * _LONGEST_MONTH, later, zone, apart)
    return Sliding(long, apart, later, zone)


def _months(value: object) -> int:
    """How many months a text such as "1mo", "1q" or "1y" has; 0 for another duration."""
    match = _MONTHS.fullmatch(value) if isinstance(value, str) else None
    return 0 if match is None else int(match[1]) * _MONTHS_IN[match[2]]
