"""Patterns in the records of a key, which `Detect` looks for, and what patterns of one's own are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic_core.core_schema import (
    CoreSchema,
    no_info_plain_validator_function,
    plain_serializer_function_ser_schema,
)

from ridgeline.api import SchemaError
from ridgeline.api.errors import did_you_mean, shorten
from ridgeline.api.support.duration import parse_duration
from ridgeline.api.support.results import names_call
from ridgeline.operators.frames._expressions import first_line, imported


class Found(NamedTuple):
    """A finding: its name, since when it holds (microseconds since 1970), and the value that showed it."""

    what: str
    since: int
    value: float | None = None


class Deadline(NamedTuple):
    """When a key is looked at again although no record came.

    `record`: once the watermark has reached it, in microseconds since 1970. `clock`: so many microseconds of
    the clock from now on. None: never.
    """

    record: int | None = None
    clock: int | None = None


NO_DEADLINE = Deadline()


@dataclass(frozen=True)
class Pattern:
    """The base of what `Detect` looks for. The memory of a key is a tuple of plain values; None: nothing."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
        """A pattern as it is, or as a specification has it: its `kind` and its fields."""
        return no_info_plain_validator_function(
            _read, serialization=plain_serializer_function_ser_schema(_written)
        )

    def names(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return ()

    def check(self, schema: pa.Schema) -> None:
        """Raise SchemaError for a stream that it cannot read."""
        for name in self.names():
            if name not in schema.names:
                hint = did_you_mean(name, schema.names)
                raise SchemaError(
                    f"`{type(self).__name__}` reads the column `{name}`, which the stream lacks; {hint}"
                )

    def items(self, batch: pa.RecordBatch) -> Sequence[Any]:
        """For each record what `step` gets of it; None for one that says nothing. Here each record counts."""
        return [True] * len(batch)

    def step(self, memory: Any, time: int, item: Any, found: list[Found]) -> Any:
        """Take one record of a key; returns the memory after it, and adds to `found`."""
        raise NotImplementedError

    def deadline(self, memory: Any) -> Deadline:
        """When to look at a key again."""
        return NO_DEADLINE

    def expired(self, memory: Any, found: list[Found]) -> Any:
        """The deadline is over: returns the memory after it, and adds to `found`."""
        return memory

    def expired_by_clock(self, memory: Any, found: list[Found]) -> Any:
        """As `expired`, by the clock."""
        return self.expired(memory, found)

    def ended(self, memory: Any, found: list[Found]) -> Any:
        """The input has ended before the deadline: returns the memory after it, and adds to `found`."""
        return memory


def _kinds(kind: type[Pattern] = Pattern) -> dict[str, type[Pattern]]:
    """All patterns by name."""
    found: dict[str, type[Pattern]] = {}
    for one in kind.__subclasses__():
        found |= {one.__name__: one} | _kinds(one)
    return found


def _written(pattern: Pattern) -> dict[str, Any]:
    """The kind of a pattern and its fields."""
    return {"kind": type(pattern).__name__} | {
        one.name: getattr(pattern, one.name) for one in fields(pattern)
    }


def _read(value: object) -> Pattern:
    """A pattern, also from what `_written` gives. Raises ValueError for anything else."""
    if isinstance(value, Pattern):
        return value
    own = dict(value) if isinstance(value, Mapping) else {}
    kind = _kinds().get(str(own.pop("kind", "")))
    if kind is None:
        raise ValueError(f"a pattern such as `hysteresis(...)`; got {shorten(value)}")
    try:
        return kind(**{name: tuple(one) if isinstance(one, list) else one for name, one in own.items()})
    except TypeError as error:
        raise ValueError(f"fields of `{kind.__name__}`: {error}") from None


@dataclass(frozen=True)
class NumberPattern(Pattern):
    """A pattern over the numbers of a column; null and NaN say nothing."""

    column: str

    def names(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def check(self, schema: pa.Schema) -> None:
        """Raise SchemaError for a column that has no numbers."""
        super().check(schema)
        kind = schema.field(self.column).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
            raise SchemaError(
                f"`{type(self).__name__}` reads numbers, but `{self.column}` is {kind}; convert it before"
            )

    def items(self, batch: pa.RecordBatch) -> Sequence[Any]:
        """The numbers."""
        values = batch.column(self.column).cast(pa.float64(), safe=False).to_pylist()
        return [None if value is None or math.isnan(value) else value for value in values]


def microseconds(value: float | str, what: str) -> int:
    """A duration in microseconds. Raises ValueError for what is none, or not more than 0."""
    found = round(parse_duration(value) * 1_000_000)
    if found <= 0:
        raise ValueError(f"`{what}` must be more than 0; got {value!r}")
    return found


def at_least(value: float, least: float, what: str) -> None:
    """Raise ValueError for a number less than `least`, or a NaN."""
    if not value >= least:
        raise ValueError(f"`{what}` must be at least {least}; got {value!r}")


Condition = Any
"""SQL text, a polars expression, or a function of a record as a dictionary."""
_MOST_STEPS = 62
_NONE = -(2**63)


@dataclass(frozen=True)
class Sequence_(Pattern):  # noqa: N801  `Sequence` is a type of Python
    """See `sequence`. `within` is in microseconds."""

    conditions: tuple[Condition, ...]
    within: int

    def check(self, schema: pa.Schema) -> None:
        """Raise SchemaError for a condition that the stream cannot answer."""
        for one in self.conditions:
            check_condition(one, schema)

    def items(self, batch: pa.RecordBatch) -> Sequence[Any]:
        """For each record the conditions that are true, as bits; None for no bit."""
        bits = np.zeros(len(batch), np.int64)
        for number, condition in enumerate(self.conditions):
            bits |= holds(condition, batch).astype(np.int64) << number
        return [found or None for found in bits.tolist()]

    def step(self, memory: Any, time: int, item: Any, found: list[Found]) -> Any:
        """The memory has for each step but the last when the newest run that got there began.

        The newest start is the best one: if any run is in time, that is.
        """
        starts = list(memory) if memory is not None else [_NONE] * (len(self.conditions) - 1)
        last = len(starts)
        for number in range(last, 0, -1):
            start = starts[number - 1]
            if item >> number & 1 and start != _NONE and 0 <= time - start <= self.within:
                if number == last:
                    found.append(Found("sequence", start))
                    return None
                starts[number] = max(starts[number], start)
        if item & 1:
            starts[0] = max(starts[0], time)
        return tuple(starts) if any(start != _NONE for start in starts) else None

    def deadline(self, memory: Any) -> Deadline:
        """Once no run can be completed any more, it is forgotten."""
        return NO_DEADLINE if memory is None else Deadline(max(memory) + self.within + 1)

    def expired(self, memory: Any, found: list[Found]) -> Any:
        """No run can be completed."""
        return None


@names_call
def sequence(*conditions: Condition, within: float | str) -> Sequence_:
    """Records of a key that fulfil conditions one after the other, all of them within a time.

    Records between them do not matter, and one record fulfils one condition only. A run that is complete is
    reported, since its first record; then the key begins again. Of several possible starts the newest
    counts. A condition is one of these:

    - SQL text or a polars expression: `"cents > 100"`, `pl.col("cents") > 100`;
    - a function of a record, which is a dictionary.

    Raises ValueError for fewer than two conditions, and for what is none.

    >>> sequence("page = '/cart'", "page = '/paid'", within="10m").within
    600000000
    """
    if not 2 <= len(conditions) <= _MOST_STEPS:  # noqa: PLR2004  a sequence
        raise ValueError(f"a sequence has 2 to {_MOST_STEPS} conditions; got {len(conditions)}")
    return Sequence_(tuple(own_condition(one) for one in conditions), microseconds(within, "within"))


def own_condition(condition: Condition) -> Condition:
    """The condition. Raises ValueError for what is none."""
    if not (isinstance(condition, str) or callable(condition) or is_expression(condition)):
        raise ValueError(f"a condition is SQL, an expression or a function; got {shorten(condition)}")
    return condition


def check_condition(condition: Condition, schema: pa.Schema) -> None:
    """Raise SchemaError for SQL or an expression that a stream cannot answer, and without polars."""
    if not isinstance(condition, str) and not is_expression(condition):
        return
    try:
        holds(condition, pa.RecordBatch.from_pylist([], schema))
    except SchemaError:
        raise
    except Exception as error:
        if not type(error).__module__.startswith("polars"):
            raise
        what = f"the condition {shorten(condition)} does not fit the stream {schema.names}"
        raise SchemaError(f"{what}: {first_line(error)}") from None


def is_expression(condition: object) -> bool:
    """True for an expression of polars, which need not be installed."""
    return type(condition).__module__.startswith("polars.")


def holds(condition: Condition, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """For each record whether a condition is true; null is not.

    Raises SchemaError for an expression that is neither true nor false, and without polars.
    """
    if isinstance(condition, str) or is_expression(condition):
        pl = imported()
        expression = pl.sql_expr(condition) if isinstance(condition, str) else condition
        frame: Any = pl.from_arrow(batch)
        mask = frame.select(expression.alias("mask")).to_series()
        if mask.dtype not in (pl.Boolean, pl.Null):
            what = f"the condition {shorten(condition)} gives {mask.dtype}, not true or false"
            raise SchemaError(f"{what}; compare it with something: `cents > 0`")
        return np.broadcast_to(mask.fill_null(value=False).to_numpy().astype(np.bool_), len(batch))
    function: Callable[[dict[str, Any]], object] = condition
    return np.array([bool(function(row)) for row in batch.to_pylist()], np.bool_)


@dataclass(frozen=True)
class Streak(Pattern):
    """See `streak`."""

    condition: Condition
    count: int
    cleared: bool = False

    def check(self, schema: pa.Schema) -> None:
        """Raise SchemaError for a condition that the stream cannot answer."""
        check_condition(self.condition, schema)

    def items(self, batch: pa.RecordBatch) -> Sequence[Any]:
        """For each record whether it fulfils the condition."""
        found: list[bool] = holds(self.condition, batch).tolist()
        return found

    def step(self, memory: Any, time: int, item: Any, found: list[Found]) -> Any:
        """The memory is the first record of the run and its length (0: it was found); None without a run."""
        was_found = memory is not None and not memory[1]
        if not item:
            if was_found and self.cleared:
                found.append(Found("over", time))
            return None
        if was_found:
            return memory
        since, length = memory or (time, 0)
        if length + 1 < self.count:
            return since, length + 1
        found.append(Found("streak", since))
        return since, 0


@names_call
def streak(condition: Condition, count: int, *, cleared: bool = False) -> Streak:
    """A number of records of a key in a row that all fulfil a condition: three readings above 80.

    It is found at the last of them, since the first, and counts again once a record did not fulfil the
    condition. A record for which the condition is null does not fulfil it. `cleared`: that record is
    reported, too. Findings are "streak" and "over". The condition is one of those of `sequence`.

    Raises ValueError for a condition that is none, and for a `count` less than 1.

    >>> streak("celsius > 80", 3)
    Streak(condition='celsius > 80', count=3, cleared=False)
    """
    at_least(count, 1, "count")
    return Streak(own_condition(condition), count, cleared)


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


@dataclass(frozen=True)
class Rate(Pattern):
    """See `rate`. `within` is in microseconds."""

    count: int
    within: int

    def step(self, memory: Any, time: int, item: Any, found: list[Found]) -> Any:
        """The memory is 1 while there are too many, then the times of the newest records, sorted."""
        active: int = memory[0] if memory else 0
        times: list[int] = list(memory[1:]) if memory else []
        if times and time < times[-1]:
            times = sorted((*times, time))
        else:
            times.append(time)
        times = [one for one in times[-self.count :] if one > times[-1] - self.within]
        many = len(times) >= self.count
        if many and not active:
            found.append(Found("rate", times[0], len(times)))
        return (int(many), *times)

    def deadline(self, memory: Any) -> Deadline:
        """Once the newest record is too old, the key is forgotten."""
        return NO_DEADLINE if memory is None else Deadline(memory[-1] + self.within)

    def expired(self, memory: Any, found: list[Found]) -> Any:
        """All records are too old."""
        return None


@names_call
def rate(count: int, within: float | str) -> Rate:
    """A key has `count` records within a time. It counts again once there were fewer.

    The finding is "rate", since the first of these records; its value is their number. Raises ValueError for
    a count less than 2, and for what is no duration.

    >>> rate(5, within="1m")
    Rate(count=5, within=60000000)
    """
    at_least(count, 2, "count")
    return Rate(count, microseconds(within, "within"))


@dataclass(frozen=True)
class Absence(Pattern):
    """See `absence`. Times are in microseconds."""

    gap: int
    by_clock: int | None
    cleared: bool = False

    def step(self, memory: Any, time: int, item: Any, found: list[Found]) -> Any:
        """The memory is the newest record that gaps were looked for at, 1 once the key was absent, and runs.

        A run is the first and the last of records that are nearer to each other than the gap. Runs lie after
        that record, so a gap is before each. They wait for the watermark: older records may still come.
        """
        if memory is None:
            return (time, 0)
        last, absent, *runs = memory
        if not runs and not (time - last >= self.gap and not absent):
            if absent and self.cleared:
                found.append(Found("present", time))
            return (max(last, time), 0)
        return self._settled(last, absent, [*runs, (time, time)])

    def _settled(self, last: int, absent: int, runs: list[tuple[int, int]]) -> tuple[Any, ...]:
        """The memory with runs that are nearer than the gap made one."""
        merged = [(last, last)]
        for first, newest in sorted(runs):
            before = merged[-1]
            if newest <= last:
                continue
            if first - before[1] < self.gap and not (absent and len(merged) == 1):
                merged[-1] = (before[0], max(before[1], newest))
            else:
                merged.append((first, newest))
        return (merged[0][1], absent, *merged[1:])

    def deadline(self, memory: Any) -> Deadline:
        """Once the time after the newest record is over; once a key that is absent has its next record."""
        if memory is None:
            return NO_DEADLINE
        last, absent, *runs = memory
        if runs:
            return Deadline(runs[0][0] if absent else last + self.gap, self.by_clock)
        return NO_DEADLINE if absent else Deadline(last + self.gap, self.by_clock)

    def expired(self, memory: Any, found: list[Found]) -> Any:
        """The key is absent, or has records again."""
        last, absent, *runs = memory
        if not absent:
            found.append(Found("absent", last))
            return (last, 1, *runs)
        first, newest = runs.pop(0)
        if self.cleared:
            found.append(Found("present", first))
        return (newest, 0, *runs)

    def expired_by_clock(self, memory: Any, found: list[Found]) -> Any:
        """No older record is awaited: all gaps hold, and the key is absent since its newest record."""
        while self.deadline(memory) != NO_DEADLINE:
            memory = self.expired(memory, found)
        return memory

    def ended(self, memory: Any, found: list[Found]) -> Any:
        """All gaps between records hold; the time after the newest one says nothing."""
        while memory[2:]:  # runs that are left
            memory = self.expired(memory, found)
        return memory


@names_call
def absence(gap: float | str, *, by_clock: float | str | bool = True, cleared: bool = False) -> Absence:
    """A key that had records has none for `gap`. It is found once; the next record of the key ends it.

    It goes by the times of records: once the watermark is `gap` past the newest record of the key. It goes by
    the clock too, as no watermark comes where no record comes: once `by_clock` has passed since the newest
    record came. True: as long as `gap`; False: not by the clock. `cleared`: the next record is reported,
    too. Findings are "absent", since the newest record, and "present". A gap between two records counts,
    also if they came in one window. It waits for the watermark, as an older record may still fill it. At the
    end of the input all gaps between two records are found; the time after the newest one is no gap. Raises
    ValueError for durations that are none.

    >>> absence("10s").gap
    10000000
    """
    found = microseconds(gap, "gap")
    clock = None if by_clock is False else found if by_clock is True else microseconds(by_clock, "by_clock")
    return Absence(found, clock, cleared)
