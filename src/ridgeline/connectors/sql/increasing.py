"""Reads rows in the order of a column that grows: the halves that inputs of all databases share."""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
import uuid
import weakref
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
from pydantic import Field
from typing_extensions import TypeVar

from ridgeline.api import SchemaType
from ridgeline.api.columns.nulls import refuse_nulls
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.value_arrays import maker
from ridgeline.api.errors import RidgelineError
from ridgeline.api.ports import OutputPort
from ridgeline.api.support.masking import masked_and_capped
from ridgeline.connect.partitioned_input import PartitionedInput
from ridgeline.connect.reader import ReaderContext, SourceRange, SourceReader
from ridgeline.connect.source import Amount, Begin, Position, Source, SourceContext, SourceUnavailableError
from ridgeline.connectors.sql.tables import dotted, quoted
from ridgeline.operators._halving import take_fitting
from ridgeline.operators._json import parse_line, read_type, value_of
from ridgeline.operators._kinds import family
from ridgeline.operators._texts import convert

Clean = Callable[[Any], Any]
_FINER = re.compile(r"[.,]\d{7}")
FAULTS = (ValueError, TypeError, OverflowError, pa.ArrowException)
"""The errors of `column_of`."""


def column_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values as a column of an Arrow type. Raises one of `FAULTS` for a value that does not fit."""
    if pa.types.is_nested(kind):
        return _nested(values, kind)
    if (rule := _FOREIGN.get(family(kind))) is not None:
        own, clean = rule
        if not {type(value) for value in values} <= {own, type(None)}:
            values = [None if value is None else clean(value) for value in values]
    return maker(kind)(values)


def _nested(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Lists, structs and maps: as they are, or from JSON texts."""
    if not any(isinstance(value, (str, bytes)) for value in values):
        return pa.array(values, kind)
    read = value_of(kind)
    texts = [value.encode() if isinstance(value, str) else value for value in values]
    return convert(
        pa.array([None if text is None else read(parse_line(text)) for text in texts], read_type(kind)), kind
    )


def _unfit(value: object, what: str) -> TypeError:
    return TypeError(f"{value!r} is no {what}")


def _truth(value: Any) -> bool:
    number = _whole(value)
    if number not in (0, 1):
        raise _unfit(value, "boolean")
    return bool(number)


def _whole(value: Any) -> Any:
    return int.from_bytes(value, "big") if isinstance(value, bytes) else value  # a column of bits


def _float(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def _decimal(value: Any) -> Any:
    try:
        return Decimal(repr(value) if isinstance(value, float) else value)
    except (ArithmeticError, TypeError) as error:
        raise _unfit(value, "decimal") from error


def _text(value: Any) -> Any:
    is_known = isinstance(value, (uuid.UUID, ipaddress.IPv4Address, ipaddress.IPv6Address))
    return str(value) if is_known else value


def _bytes(value: Any) -> Any:
    return value.bytes if isinstance(value, uuid.UUID) else value


def _date(value: Any) -> Any:
    if isinstance(value, str):
        value = _read(value, dt.date.fromisoformat if ":" not in value else dt.datetime.fromisoformat, "date")
    is_midnight = isinstance(value, dt.datetime) and value.time() == dt.time() and value.tzinfo is None
    return value.date() if is_midnight else value


def _moment(value: Any) -> Any:
    if isinstance(value, str):
        return _read(value, dt.datetime.fromisoformat, "datetime")
    is_day = isinstance(value, dt.date) and not isinstance(value, dt.datetime)
    return dt.datetime.combine(value, dt.time()) if is_day else value


def _time(value: Any) -> Any:
    if isinstance(value, str):
        return _read(value, dt.time.fromisoformat, "time of day")
    if isinstance(value, dt.timedelta):
        if not dt.timedelta() <= value < dt.timedelta(days=1):
            raise _unfit(str(value), "time of day")
        return (dt.datetime(2000, 1, 1, tzinfo=dt.UTC) + value).time()
    return value


def _duration(value: Any) -> Any:
    if isinstance(value, pa.MonthDayNano):
        months, days, nanoseconds = value
        if months or nanoseconds % 1000:
            raise _unfit(value, "timedelta")
        return dt.timedelta(days=days, microseconds=nanoseconds // 1000)
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return dt.timedelta(microseconds=value) if is_count else value


def _read(text: str, parse: Clean, what: str) -> Any:
    """A text of ISO 8601. Raises TypeError if it is none, or has parts of microseconds."""
    try:
        parsed = parse(text)
    except ValueError as error:
        raise _unfit(text, what) from error
    if _FINER.search(text):
        raise _unfit(text, f"{what} of whole microseconds")
    return parsed


_FOREIGN: Mapping[str, tuple[type, Clean]] = {
    "boolean": (bool, _truth),
    "integer": (int, _whole),
    "floating": (float, _float),
    "decimal": (Decimal, _decimal),
    "text": (str, _text),
    "bytes": (bytes, _bytes),
    "date": (dt.date, _date),
    "time": (dt.time, _time),
    "timestamp": (dt.datetime, _moment),
    "duration": (dt.timedelta, _duration),
}
"""By family, the Python type of values that are taken as they are, and what databases have in its place."""
_MOST = 4096


class Counts:
    """Rows by number, as they were counted: between two counts they are taken to be evenly spread.

    One thread adds, others may ask.

    >>> counts = Counts(0)
    >>> counts.add(1000, 10)
    >>> counts.add(1010, 10)
    >>> counts.rows(1005), counts.number(15.0)
    (15.0, 1005)
    """

    def __init__(self, number: int) -> None:
        self._points = [(number, 0)]

    def add(self, number: int, rows: int) -> None:
        """Add rows that are after the number before, up to `number`."""
        points = [*self._points, (number, self._points[-1][1] + rows)]
        self._points = points if len(points) < _MOST else [*points[:-1:2], points[-1]]

    def rows(self, number: int) -> float:
        """The rows up to a number. Outside of what was counted there is one for each number."""
        points = self._points
        place = bisect_left(points, number, key=lambda point: point[0])
        if place == 0:
            return float(points[0][1] - (points[0][0] - number))
        if place == len(points):
            return float(points[-1][1] + number - points[-1][0])
        (low, before), (high, after) = points[place - 1], points[place]
        return before + (after - before) * ((number - low) / (high - low))

    def number(self, rows: float) -> int:
        """The number up to which there are so many rows."""
        points = self._points
        place = bisect_left(points, rows, key=lambda point: point[1])
        if place == 0:
            return points[0][0] - int(points[0][1] - rows)
        if place == len(points):
            return points[-1][0] + int(rows - points[-1][1])
        (low, before), (high, after) = points[place - 1], points[place]
        return low + int((high - low) * ((rows - before) / (after - before)))


T = TypeVar("T", default=Any)
_MOST_SEEN = 50
_ROWS = "ridgeline_rows"
_NOTHING = -(2**63) - 1
"""Before all numbers: where a table without rows begins."""
_SLOW_SECONDS, _QUICK_SECONDS, _CALL_SECONDS = 1.0, 0.2, 3.0
_FIRST_STEP, _GREATEST_STEP = 1024, 1 << 16
"""So many rows are counted at once. Rows of one step are taken to be evenly spread."""


class IncreasingInput(PartitionedInput[T]):
    """The base of inputs that read a table, or a query, in the order of an increasing column.

    `table`: its name; or `query`: a SELECT in its place. `column`: a column of integers that grows with each
    row. `schema`: the type of the tuples; its fields are columns. `shards`: the number of source partitions.
    Each has the rows with one remainder of `column`, so that as many partitions of the operator read.
    """

    output = OutputPort[T](Any)

    table: str | None = None
    query: str | None = Field(default=None, kw_only=True)
    schema: SchemaType[T] = Field(kw_only=True)
    column: str = Field(default="id", kw_only=True)
    shards: int = Field(default=1, ge=1, kw_only=True)

    def __post_init__(self) -> None:
        """Give the output port its schema."""
        if "schema" in vars(self):
            declared: Any = self.schema
            self.declare_schema("output", declared)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse both of `table` and `query`, or none, and a schema without columns."""
        faults = super().property_faults()
        if (self.table is None) == (self.query is None):
            faults.append(("table", self.table, "either `table` or `query` says what is read"))
        if Schema(self.schema).pickled:
            faults.append(("schema", "object", "must have columns: a NamedTuple or a dataclass"))
        return faults

    def rows(self) -> Rows:
        """The rows that are read."""
        raise NotImplementedError

    def source(self) -> Source:
        """The driver's half."""
        return self.rows().source()

    def reader(self) -> SourceReader:
        """The container's half."""
        return IncreasingReader(self.rows())


class _Seen(NamedTuple):
    """The greatest number at a time. `fence`: what the database has to be past before it counts."""

    at: float
    number: int
    fence: int | None


class Counted(NamedTuple):
    """Rows in order: how many, the numbers of the first and of the last one; None of no rows."""

    rows: int
    first: int | None
    last: int | None


def _between(column: str, start: int, end: int) -> str:
    """A condition of SQL: the number is after `start`, up to `end`."""
    # SQLite has no integer before the least of 64 bits, which may be the first
    return f"{column} >= {int(start) + 1} and {column} <= {int(end)}"


@dataclass(frozen=True)
class Rows:
    """The rows that are read: a table, or a query in its place. A subclass knows the database.

    `column`: the one that grows. `shards`: the number of source partitions. `lag`: seconds.
    """

    mark: ClassVar[str] = '"'
    """The quote of names."""
    dots: ClassVar[bool] = True
    """A dot in the name of a table divides it from that of its schema or database."""

    table: str | None
    query: str | None
    column: str
    shards: int
    lag: float

    # The database -------------------------------------------------------------------------------------------

    @property
    def base(self) -> str:
        """Where the database is, for people."""
        raise NotImplementedError

    def source(self) -> IncreasingSource:
        """The driver's half of the input."""
        return IncreasingSource(self)

    def connect(self, operator: str) -> Any:
        """A connection; None: there is one for each question. Raises errors of the database."""

    def disconnect(self, connection: Any) -> None:
        """Close a connection."""

    def ask(self, connection: Any, query: str) -> Iterator[Sequence[Sequence[Any]]]:
        """Chunks of rows. Raises errors of the database."""
        raise NotImplementedError

    def passes(self, error: Exception) -> bool | None:
        """Whether another attempt may succeed after an error; None: it is none of the database."""
        raise NotImplementedError

    def reason(self, error: Exception) -> str:
        """The text of an error."""
        return str(error)

    # Queries ------------------------------------------------------------------------------------------------

    @property
    def sql(self) -> str:
        """The table, or the query as one."""
        if self.table is None:
            return f"({self.query}) as {_ROWS}"
        return f"{(dotted if self.dots else quoted)(self.table, self.mark)} as {_ROWS}"

    def in_sql(self, name: str) -> str:
        """A column. Without the name before it SQLite takes one that is not there for a text."""
        return f"{_ROWS}.{quoted(name, self.mark)}"

    def selected(self, connection: Any, names: Sequence[str]) -> list[str]:
        """What is selected to read columns. Raises errors of the database."""
        return [self.in_sql(name) for name in names]

    def count_query(self, start: int, end: int, most: int, more: str = "") -> str:
        """The query for `Counted`. `more`: other aggregates of the numbers `n`."""
        column = self.in_sql(self.column)
        inner = f"select {column} as n from {self.sql} where {_between(column, start, end)} "  # noqa: S608  numbers
        inner += f"order by {column} limit {most}"
        return f"select count(*), min(n), max(n){more} from ({inner}) as ridgeline_counted"  # noqa: S608  numbers

    def rows_query(self, selected: Sequence[str], start: int, end: int, shard: int) -> str:
        """The query for rows after `start`, up to `end`, in order. `shard`: those with this remainder."""
        column, count = self.in_sql(self.column), self.shards
        which = _between(column, start, end)
        if count > 1:  # a remainder has the sign of the number
            which += f" and ({column} % {count} + {count}) % {count} = {shard}"
        return f"select {', '.join(selected)} from {self.sql} where {which} order by {column}"  # noqa: S608  numbers

    # For people ---------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The table, or `query`: the name of the source partition."""
        return self.table or "query"

    @property
    def place(self) -> str:
        """The rows and where they are."""
        return f"{f'table {self.table}' if self.table else 'the query'} of {self.base}"

    @contextmanager
    def explaining(self, operator: str) -> Iterator[None]:
        """Errors of the database as those of a source: it is gone, or the table is not as it should be."""
        try:
            yield
        except Exception as error:
            if (passes := self.passes(error)) is None:
                raise
            if passes:
                msg = f"{self.place} is unavailable: {self.reason(error)}"
                raise SourceUnavailableError(msg) from error
            msg = f"`{operator}` cannot read {self.place}: {self.reason(error)}; check `table`, `query`, "
            raise RidgelineError(msg + "`column` and `schema`") from error

    def explained(self, operator: str, connection: Any, query: str) -> Iterator[Sequence[Sequence[Any]]]:
        """Chunks of rows. Raises RidgelineError, SourceUnavailableError."""
        with self.explaining(operator):
            yield from self.ask(connection, query)


class IncreasingSource(Source):
    """Knows up to which number all rows are there for good.

    This is that of a database whose transactions are committed in the order of their numbers. Others: a
    number is looked at `lag` seconds after it was first seen, once the database is past the `fence` of that
    moment. It counts once all rows up to it are committed.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows, self._shards = rows, rows.shards
        self._names = [rows.name]
        if rows.shards > 1:
            self._names = [f"{rows.name} {number}/{rows.shards}" for number in range(rows.shards)]
        self._connection: Any = None
        self._closing: list[Callable[[], Any]] = []
        self._seen: deque[_Seen] = deque()
        self._goal: int | None = None
        self._first: int | None = None
        """The greatest number when the run began: no end is known before all rows up to it are there."""
        self._safe: int | None = None
        self._read: Mapping[str, int] = {}
        self._counts = Counts(0)
        self._step = _FIRST_STEP

    # The database -------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Connect, and check table and column. Raises RidgelineError, SourceUnavailableError."""
        self._connection = self.connected()

    def connected(self) -> Any:
        """A connection, which is closed with the source. Raises RidgelineError, SourceUnavailableError."""
        with self._rows.explaining(self._context.operator):
            made = self._rows.connect(self._context.operator)
        self._closing.append(weakref.finalize(self, self._rows.disconnect, made))
        return made

    def ask(self, query: str, connection: Any = None) -> Any:
        """The first row of an answer, or None. Raises RidgelineError, SourceUnavailableError."""
        chunks = list(self._rows.explained(self._context.operator, connection or self._connection, query))
        return chunks[0][0] if chunks else None

    def ask_number(self, function: str, more: str = "") -> Any:
        """An aggregate of the numbers, which is checked; with `more` selected behind it the whole row."""
        rows = self._rows
        column = rows.in_sql(rows.column)
        found = self.ask(f"select {function}({column}){more} from {rows.sql}")  # noqa: S608  names
        if found[0] is not None and not isinstance(found[0], int):
            msg = f"`{self._context.operator}` cannot read {rows.place}: `{rows.column}` has {found[0]!r}, "
            raise RidgelineError(msg + "which is no integer; name a column of integers with `column`")
        return found if more else found[0]

    def least(self) -> int | None:
        """The least number, also of rows that are not committed; None: there is none."""
        return self.ask_number("min")

    def greatest(self) -> int | None:
        """The greatest number that can be seen; None: there is none."""
        return self.ask_number("max")

    @property
    def fence(self) -> int | None:
        """A number that grows, as of the last `greatest`, such as the next transaction."""
        return None

    def is_past(self, fence: int | None) -> bool:
        """Whether all is over that ran at a fence, as of the last `greatest`."""
        return True

    def next_rows(self, start: int, end: int, most: int) -> Counted | None:
        """The first rows after `start`, up to `end`, at most so many; None if one may not be committed."""
        return Counted(*self.ask(self._rows.count_query(start, end, most)))

    def close(self) -> None:
        """Close the connections."""
        while self._closing:
            self._closing.pop()()

    # The source ---------------------------------------------------------------------------------------------

    def open(self, context: SourceContext) -> None:
        """Connect. Raises as `connect`."""
        self._context = context
        self.connect()

    def partitions(self) -> Iterable[str]:
        """The table, or its shards."""
        return self._names

    def resume(self, positions: Mapping[str, Position]) -> Mapping[str, Position]:
        """Continue after these numbers. Raises RidgelineError if `shards` was changed."""
        if set(positions) != set(self._names):
            msg = f"`{self._context.operator}` has read {', '.join(sorted(positions))}, and would read "
            msg += f"{', '.join(self._names)}; leave `table`, `query` and `shards` as they were, or begin on "
            raise RidgelineError(msg + "another checkpoint")
        self._read = positions
        if self._safe is None:
            self._begin(min(positions.values()))
        return positions

    def start(self, partitions: Sequence[str], begin: Begin) -> Mapping[str, Position]:
        """Before the least number, or after the greatest. Raises RidgelineError for a time."""
        if isinstance(begin, datetime):
            msg = f"`{self._context.operator}` cannot begin at a time; "
            raise RidgelineError(msg + "`begin` is earliest, latest or a number")
        if self._safe is None:
            if begin == "latest":
                found = self.greatest()
            else:
                self._context.clock.wait(self._rows.lag)
                found = self.least()
                found = None if found is None else found - 1
            self._begin(_NOTHING if found is None else found)
        return dict.fromkeys(partitions, self._safe)

    def _begin(self, number: int) -> None:
        self._safe = number
        self._counts = Counts(number)

    def ends(self, wait: float) -> Mapping[str, Position]:
        """The greatest number up to which no row is to come any more."""
        number, now = self.greatest(), self._context.clock.monotonic()
        safe = self._safe
        if safe is None:  # the positions at which it begins were given
            safe = _NOTHING
            self._begin(safe)
        if number is not None:
            if safe == _NOTHING and (least := self.least()) is not None:  # these are its first rows
                safe = self._safe = least - 1
                self._counts.add(safe, 0)
            self._first = number if self._first is None else self._first
            newest = self._seen[-1].number if self._seen else safe
            if number > newest and len(self._seen) < _MOST_SEEN:
                self._seen.append(_Seen(now, number, self.fence))
        while self._seen and now - self._seen[0].at >= self._rows.lag and self.is_past(self._seen[0].fence):
            self._goal = self._seen.popleft().number
        if self._goal is not None:
            safe = self._safe = self._advance(safe, self._goal)
        if self._first is not None and safe < self._first:
            return {}
        return {name: max(safe, self._read.get(name, safe)) for name in self._names}

    def _advance(self, safe: int, goal: int) -> int:
        """The number up to which all rows are committed, at most `goal`; looked up in quick steps."""
        clock, narrowing = self._context.clock, False
        began = clock.monotonic()
        while safe < goal and clock.monotonic() - began <= _CALL_SECONDS:
            before = clock.monotonic()
            found = self.next_rows(safe, goal, self._step)
            took = clock.monotonic() - before
            if found is not None:
                if found.first is not None and found.last is not None:
                    self._counts.add(found.first - 1, 0)  # numbers may have gaps of any size
                    self._counts.add(found.last, found.rows)
                safe = found.last if found.last is not None and found.rows >= self._step else goal
                if took > _SLOW_SECONDS:
                    self._step = max(1, self._step // 2)
                elif took < _QUICK_SECONDS and not narrowing:
                    self._step = min(_GREATEST_STEP, self._step * 4)
            elif self._step == 1:
                break
            else:
                narrowing, self._step = True, max(1, self._step // 4)
        return safe

    def amount(self, partition: str, start: Position, end: Position) -> Amount:
        """The rows between two numbers, as they were counted."""
        return Amount(max(0.0, self._counts.rows(end) - self._counts.rows(start)) / self._shards)

    def cut(self, partition: str, start: Position, end: Position, share: float) -> Position:
        """The number up to which there is this share of the rows."""
        low, high = self._counts.rows(start), self._counts.rows(end)
        return min(end, max(start + 1, self._counts.number(low + (high - low) * share)))


class IncreasingReader(SourceReader):
    """Reads the rows between two numbers."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._closing: Callable[[], Any] = lambda: None

    def open(self, context: ReaderContext) -> None:
        """Connect. Raises RidgelineError, SourceUnavailableError."""
        self._context = context
        self._schema = context.schema.arrow
        rows = self._rows
        with rows.explaining(context.operator.name):
            self._connection = rows.connect(context.operator.name)
            # a container that is lost closes nothing
            self._closing = weakref.finalize(self, rows.disconnect, self._connection)
            self._selected = rows.selected(self._connection, [rows.column, *self._schema.names])

    def read(self, part: SourceRange) -> Iterator[pa.RecordBatch]:
        """Rows in the order of their numbers. Those that do not fit the schema are left out."""
        rows = self._rows
        shard = int(part.partition.rpartition(" ")[2].partition("/")[0]) if rows.shards > 1 else 0
        query = rows.rows_query(self._selected, part.start, part.end, shard)
        for chunk in rows.explained(self._context.operator.name, self._connection, query):
            yield self._batch(part, chunk)

    def close(self) -> None:
        """Close the connection, and with it a query of which rows are left."""
        self._closing()

    def _batch(self, part: SourceRange, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
        """A chunk as a batch, without the rows that do not fit.

        Raises RidgelineError for one unless rows may be left out.
        """
        kept: list[pa.RecordBatch] = []

        def refuse(row: Sequence[Any], error: Exception) -> None:
            text = masked_and_capped(repr(tuple(row[1:])), 300)
            self._context.leave_out(part.partition, row[0], text, str(error))

        take_fitting(rows, lambda some: kept.append(self._columns(some)), refuse, FAULTS)
        if len(kept) == 1:
            return kept[0]
        made = pa.Table.from_batches(kept, self._schema).combine_chunks().to_batches()
        return made[0] if made else self._columns([])

    def _columns(self, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
        """Rows as a batch. Raises one of `FAULTS` that names the column of a value that does not fit."""
        columns = list(zip(*rows, strict=True))[1:] if rows else [()] * len(self._schema)
        arrays = []
        for column, field in zip(columns, self._schema, strict=True):
            try:
                arrays.append(column_of(column, field.type))
            except FAULTS as error:
                raise ValueError(f"column `{field.name}` is no {field.type}: {error}") from error
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        refuse_nulls(self._context.schema, batch)
        return batch
