"""The times of records: when their events happened. Ages are measured by them.

Sources of a record's time; the first that applies is used:

1. `emit(value, timestamp=...)`;
2. the column that the output port declares (`OutputPort(..., timestamp="column")`) or the operator names
   (`Operator.timestamp_of`);
3. inheritance. A record emitted while a tuple is processed has that tuple's time. A batch emitted while a
   batch is processed inherits row by row: as `emit_batch(batch, rows=...)` says, or without `rows` if both
   batches are equally long. All other records emitted while a batch is processed have the newest and the
   oldest time of that batch. Records emitted in `end_window` have the newest and the oldest time of all
   records of the (application) window;
4. otherwise a record has no time: input operators without a column, `begin_window`, a null in the column.

The range of times of an open application window is kept in memory. If its container moves to another worker,
state moves along, but the range starts empty. An operator's first result after that may therefore seem
younger than its oldest record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ridgeline.api.columns.schema import TIMESTAMP, Schema
from ridgeline.api.errors import SchemaError, shorten

Microseconds = npt.NDArray[np.int64]
"""Times, one per record: microseconds since 1970-01-01 UTC, `NO_TIME` for none."""
Positions = npt.NDArray[np.int64]
NO_TIME: int = np.iinfo(np.int64).min
"""The time of a record that has none; Arrow's and numpy's `NaT`."""

_YEAR = 31_556_952 * 1_000_000
Mark: TypeAlias = tuple[int, bool]
"""The watermark that an operator passes on in a window, and whether it is idle: then it holds none back."""
EARLIEST = -970 * _YEAR
"""The watermark before any record has come: about the year 1000, in microseconds since 1970."""
LATEST = 7030 * _YEAR
"""The watermark once all inputs have finished: about the year 9000."""
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000}


class Span(NamedTuple):
    """The newest and the oldest time of a set of records."""

    newest: int
    oldest: int

    def of_each(self, count: int) -> Times:
        """These times for each of `count` records; the arrays are views of one value."""
        newest = np.broadcast_to(np.int64(self.newest), count)
        return Times(
            newest, None if self.oldest == self.newest else np.broadcast_to(np.int64(self.oldest), count)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """The times of a sequence of records.

    `newest`: the time of each record. `oldest`: the time of the oldest record that it was made from; None:
    the same as `newest`.
    """

    newest: Microseconds
    oldest: Microseconds | None = None

    def __len__(self) -> int:
        return len(self.newest)

    def take(self, positions: Positions | slice) -> Times:
        """The times at these positions, in that order."""
        return Times(self.newest[positions], None if self.oldest is None else self.oldest[positions])

    def span(self) -> Span | None:
        """The newest and the oldest time of all; None if no record has a time."""
        if not len(self.newest) or (newest := int(self.newest.max())) == NO_TIME:
            return None
        times = self.newest if self.oldest is None else self.oldest
        oldest = int(times.min())
        return Span(newest, oldest if oldest != NO_TIME else int(times[times != NO_TIME].min()))

    def overwritten(self, positions: Positions, newest: Microseconds) -> Times:
        """A copy with the times of the records at these positions replaced by `newest`."""
        changed = Times(self.newest.copy(), None if self.oldest is None else self.oldest.copy())
        changed.newest[positions] = newest
        if changed.oldest is not None:
            changed.oldest[positions] = newest
        return changed


def no_times(count: int) -> Microseconds:
    """`NO_TIME` for each of `count` records."""
    return np.full(count, NO_TIME, np.int64)


def joined_times(parts: Sequence[tuple[int, Times | None]]) -> Times | None:
    """Concatenate the times of sequences of records: (number of records, their times) each.

    None if no record has a time.
    """
    parts = [part for part in parts if part[0]]
    if all(times is None for _, times in parts):
        return None
    if len(parts) == 1:
        return parts[0][1]
    every = [Times(no_times(count)) if times is None else times for count, times in parts]
    newest = np.concatenate([times.newest for times in every])
    if all(times.oldest is None for times in every):
        return Times(newest)
    return Times(
        newest, np.concatenate([times.newest if times.oldest is None else times.oldest for times in every])
    )


def joined_spans(first: Span | None, second: Span | None) -> Span | None:
    """The newest and the oldest time of both spans."""
    if first is None or second is None:
        return first or second
    return Span(max(first.newest, second.newest), min(first.oldest, second.oldest))


def check_timestamp(value: object, port: str) -> None:
    """Raise SchemaError if the `timestamp` of a tuple emitted on `port` is not a datetime."""
    if not isinstance(value, datetime):
        remedy = "give a `datetime`; one without a zone is UTC"
        found = f"got {shorten(value)} in `{port}.emit(..., timestamp=...)`"
        raise SchemaError(f"the `timestamp` of a tuple is a time; {found}; {remedy}")


def to_times(values: Sequence[datetime | None]) -> Microseconds:
    """Convert datetimes; None becomes `NO_TIME`, and a datetime without a zone is UTC."""
    return column_times(pa.array(values, TIMESTAMP))


def column_times(column: pa.Array) -> Microseconds:
    """The times in a timestamp column of any unit, with a zone or in UTC.

    Null becomes `NO_TIME`. Nanoseconds are rounded down. Times out of the range of microseconds become the
    nearest time in it. A column of another type has no times.
    """
    kind = column.type
    if not pa.types.is_timestamp(kind):
        return no_times(len(column))
    whole = column.view(pa.int64())
    times: Microseconds = (whole.fill_null(NO_TIME) if whole.null_count else whole).to_numpy(
        zero_copy_only=False
    )
    if kind.unit == "us":
        return times
    if kind.unit == "ns":
        found = times // 1_000
    else:
        factor = _MICROSECONDS[kind.unit]
        limit = np.iinfo(np.int64).max // factor
        found = np.clip(times, -limit, limit) * factor
    found[times == NO_TIME] = NO_TIME
    return found


def row_times(schema: Schema, rows: Sequence[Any], name: str) -> Microseconds:
    """The times in the field `name` of Python tuples of a schema.

    In a stream of `object`, tuples without such a field have no time.
    """
    if schema.pickled:
        found = [getattr(row, name, None) for row in rows]
        return to_times([value if isinstance(value, datetime) else None for value in found])
    get: Any = itemgetter(name) if schema.of_dicts else attrgetter(name)
    return column_times(pa.array(map(get, rows), schema.arrow.field(name).type, size=len(rows)))


def to_positions(rows: Any, emitted: int, processed: int, port: str) -> Positions:
    """Convert the `rows` of `emit_batch`, a mask over the processed rows or positions in them, to positions.

    Raises SchemaError for anything else, for another number of positions than `emitted`, and for a position
    outside of the `processed` rows.
    """
    if isinstance(rows, (pa.Array, pa.ChunkedArray)):
        if pa.types.is_boolean(rows.type):
            rows = rows.fill_null(False)  # noqa: FBT003  a value
        rows = rows.to_numpy() if isinstance(rows, pa.ChunkedArray) else rows.to_numpy(zero_copy_only=False)
    found = np.asarray(rows)
    if found.dtype == np.bool_ and found.shape == (processed,):
        found = np.flatnonzero(found)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        remedy = f"give a mask of {processed} values or {emitted} positions"
        what = f"`rows` of `{port}.emit_batch` says from which rows the tuples came"
        raise SchemaError(f"{what}; got {found.dtype} of shape {found.shape}; {remedy}")
    if len(found) != emitted:
        remedy = "give one a tuple"
        what = f"`rows` of `{port}.emit_batch` says for each tuple from which row it came"
        raise SchemaError(f"{what}; got {len(found)} for {emitted} tuples; {remedy}")
    if len(found) and not (found.min() >= 0 and found.max() < processed):
        what = f"`rows` of `{port}.emit_batch` are positions in the batch of {processed} being processed"
        raise SchemaError(f"{what}; got {found.min()} to {found.max()}")
    return found.astype(np.int64, copy=False)


@dataclass(frozen=True, slots=True, eq=False)
class Processing:
    """The input that an operator processes while it emits.

    It is a batch of `size` rows, `size` tuples one by one, or a whole window (`size` 0). `times` returns the
    times of the input; called only if something is emitted. `remaining` returns the number of tuples after
    the one being processed; None if they are not processed one by one.
    """

    times: Callable[[], Times | None]
    size: int = 0
    remaining: Callable[[], int] | None = None

    def of_tuples(self, emitted: Positions | None) -> Times | None:
        """The times of rows emitted per input row; `emitted[i]` rows came from row `i` (None: one each)."""
        times = self.times()
        return (
            times
            if times is None or emitted is None
            else times.take(np.repeat(np.arange(self.size), emitted))
        )

    def of_all(self, count: int) -> Times | None:
        """The times of `count` tuples, each made from the whole input."""
        times = self.times()
        span = None if times is None else times.span()
        return None if span is None else span.of_each(count)

    def of_batch(self, count: int, rows: Any, port: str) -> Times | None:
        """The times of a batch of `count` tuples that is emitted now; `rows` as in `emit_batch`.

        Raises SchemaError for `rows` that do not fit, or if no batch is being processed.
        """
        if rows is not None and (self.remaining is not None or not self.size):
            what = "no batch is" if self.remaining is None else "tuples are"
            remedy = "leave `rows` out"
            rule = f"`rows` of `{port}.emit_batch` are positions in the batch being processed"
            raise SchemaError(f"{rule}; got them while {what} processed; {remedy}")
        if rows is not None:
            times = self.times()
            if (
                times is None
                and isinstance(rows, pa.BooleanArray)
                and len(rows) == self.size
                and rows.true_count == count
            ):
                return None  # fast path: a mask that fits, over records without times
            positions = to_positions(rows, count, self.size, port)
            return None if times is None else times.take(positions)
        if self.remaining is not None:
            return (
                None
                if (times := self.times()) is None
                else times.take(np.full(count, self.size - 1 - self.remaining()))
            )
        return self.times() if count == self.size else self.of_all(count)
