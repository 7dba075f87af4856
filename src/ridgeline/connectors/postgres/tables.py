"""Tables of PostgreSQL: an output that writes each window once, an input of tables that are appended to."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from pydantic import Field
from typing_extensions import TypeVar

from ridgeline.connect.sink import Batch, Sink
from ridgeline.connect.source import SourceUnavailableError
from ridgeline.connectors.postgres.connecting import AtServer, first_line, psycopg
from ridgeline.connectors.sql.increasing import IncreasingSource
from ridgeline.connectors.sql.servers import ServerInput, ServerRows, ServerSink
from ridgeline.connectors.sql.tables import DELETED, TableRows, listed, merged, quoted
from ridgeline.operators._json import json_column
from ridgeline.operators._kinds import NESTED, family

_ROW = re.compile(rb'(?:[^"\n]|"(?:[^"]|"")*")*\n')
_TYPES: Mapping[str, str] = {
    "boolean": "boolean",
    "int8": "smallint",
    "uint8": "smallint",
    "int16": "smallint",
    "uint16": "integer",
    "int32": "integer",
    "uint32": "bigint",
    "int64": "bigint",
    "uint64": "numeric(20,0)",
    "halffloat": "real",
    "float": "real",
    "double": "double precision",
    "date": "date",
    "time": "time",
    "duration": "interval",
    "bytes": "bytea",
    **dict.fromkeys(NESTED, "jsonb"),
}
"""The types of columns that are made, by a type of Arrow or its family."""
_INTEGERS = {"int2", "int4", "int8"}
_NUMBERS = _INTEGERS | {"numeric", "float4", "float8", "money"}
_TEXTS = {"text", "varchar", "bpchar", "name", "citext"}
_TIMES = {"timestamp", "timestamptz"}
_JSON = {"json", "jsonb"}
_NOT_OF_TEXT = _NUMBERS | {"bool", "bytea", *_TIMES, "date", "time", "timetz", "interval"}
_FITTING: Mapping[str, set[str]] = {
    "boolean": {"bool"},
    "integer": _NUMBERS | {"oid"},
    "floating": _NUMBERS - _INTEGERS,
    "decimal": _NUMBERS - _INTEGERS,
    "timestamp": _TIMES,
    "date": {"date", *_TIMES},
    "time": {"time"},
    "duration": {"interval"},
    "bytes": {"bytea"},
    **dict.fromkeys(NESTED, _JSON),
}
"""The types of columns that a family of Arrow's types can be written to, beside those of text."""


def postgres_type(kind: pa.DataType) -> str:
    """The type of a column that is made for an Arrow type."""
    if pa.types.is_dictionary(kind):
        return postgres_type(kind.value_type)
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    return _TYPES.get(str(kind)) or _TYPES.get(family(kind), "text")


def fits(kind: pa.DataType, column: str) -> bool:
    """Whether the values of an Arrow type can be written to a column of a type of PostgreSQL, by its name.

    That of a single value is not looked at: it may be too large.
    """
    found = family(kind)
    if column in _TEXTS or found == "null":
        return True
    return column not in _NOT_OF_TEXT if found == "text" else column in _FITTING.get(found, {column})


def copy_text(batch: pa.RecordBatch) -> bytes:
    """The rows as CSV for COPY: null is nothing, all else is in quotes.

    Raises ValueError for a row that PostgreSQL has no value for: it names row, column and remedy.
    """
    columns = [_text(name, column, batch) for name, column in zip(batch.schema.names, batch, strict=True)]
    out = io.BytesIO()
    options = pa.csv.WriteOptions(include_header=False, quoting_style="all_valid", batch_size=65_536)
    pa.csv.write_csv(pa.RecordBatch.from_arrays(columns, batch.schema.names), out, options)
    return out.getvalue()


def split_rows(text: bytes) -> list[bytes]:
    """The rows of such a text."""
    return _ROW.findall(text)


def _text(name: str, column: Any, batch: pa.RecordBatch) -> Any:  # noqa: PLR0911  a case each
    """A column that is written as CSV as PostgreSQL reads it."""
    kind, is_ = column.type, pa.types
    if is_.is_dictionary(kind):
        return _text(name, column.dictionary_decode(), batch)
    if is_.is_string(kind) or is_.is_large_string(kind):
        bad = pc.match_substring(column, "\0")
        if pc.any(bad).as_py():
            row = batch.slice(pc.index(bad, True).as_py(), 1).to_pylist()[0]
            msg = f"column `{name}` has a NUL character, which PostgreSQL's text cannot have, in row {row}"
            msg = f"{msg}; replace it upstream"
            raise ValueError(msg)
        return column
    if is_.is_nested(kind):
        return json_column(column)
    if postgres_type(kind) == "bytea":
        values = column.to_pylist()
        return pa.array([None if one is None else f"\\x{one.hex()}" for one in values], pa.string())
    if is_.is_duration(kind):
        micros = column.cast(pa.duration("us"), safe=False).cast(pa.int64()).to_pylist()
        return pa.array([None if one is None else f"{one} microseconds" for one in micros], pa.string())
    if is_.is_timestamp(kind) and kind.unit == "ns":
        return column.cast(pa.timestamp("us", kind.tz), safe=False)
    if is_.is_timestamp(kind) and kind.tz not in {None, "UTC"}:
        return column.cast(pa.timestamp(kind.unit, "UTC"))
    if is_.is_float16(kind):
        return column.cast(pa.float32())
    return column


_NUMBER = "ridgeline_number"
_WAITING = "ridgeline_waiting"
_LONGEST_IDLE = "60s"
"""A driver that hangs in a transaction holds up its successor no longer."""


class Column(NamedTuple):
    """The type of a table's column, and whether rows need a value of it."""

    kind: str
    needs: bool


class PostgresSink(ServerSink):
    """Writes rows by COPY; with a key by way of a temporary table."""

    marks: ClassVar[str] = """create table if not exists ridgeline_marks (
        name text primary key, "window" bigint not null, epoch bigint not null,
        written timestamptz not null default now())"""

    # The database -------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Connect. Raises RidgelineError, errors of psycopg."""
        super().connect()
        self.execute(f"set idle_in_transaction_session_timeout = '{_LONGEST_IDLE}'")

    def make(self, name: str, statement: str) -> None:
        """Make a table, unless it is there, or another driver has just made it."""
        try:
            self.execute(statement)
        except psycopg().errors.UniqueViolation:
            self.execute(statement)

    # The table ----------------------------------------------------------------------------------------------

    def columns(self) -> Mapping[str, Column]:
        """The columns of the table: type, and whether a value is needed; none if it is missing."""
        query = """select a.attname, t.typname, a.attnotnull and not a.atthasdef and a.attidentity = ''
            from pg_attribute a join pg_type t on t.oid = a.atttypid
            where a.attrelid = to_regclass(%s) and a.attnum > 0 and not a.attisdropped"""
        return {name: Column(kind, needs) for name, kind, needs in self.rows(query, (self.table,))}

    def types(self, fields: Sequence[pa.Field]) -> Sequence[str]:
        """The types of the columns of a table that is made."""
        return [postgres_type(field.type) for field in fields]

    def compare_table(self, fields: Sequence[pa.Field], found: Mapping[str, Column]) -> None:
        """Compare columns and key, and prepare for waiting rows. Raises RidgelineError."""
        alter = f"alter table {self.target.name}"
        self.compare(
            fields,
            found,
            fits=lambda kind, column: fits(kind, column.kind),
            add=lambda one: f'{alter} add column "{one.name}" {postgres_type(one.type)}',
            shown=lambda column: column.kind,
            needed=[name for name, column in found.items() if column.needs],
        )
        if self.target.key:
            query = """select array_agg(a.attname::text) from pg_index i
                join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
                where i.indrelid = to_regclass(%s) and i.indisunique and i.indpred is null and i.indisvalid
                group by i.indexrelid"""
            if not any(set(names) == set(self.target.key) for (names,) in self.rows(query, (self.table,))):
                self.refuse_key()
            self._prepare([field.name for field in fields])

    def _prepare(self, names: Sequence[str]) -> None:
        """Make the temporary table of waiting rows, with the types of the table's columns."""
        self.execute(f"drop table if exists pg_temp.{_WAITING}")
        self.execute(
            f"create temporary table {_WAITING} as select {listed(names)} from {self.table} with no data"  # noqa: S608  identifiers
        )
        more = f"alter table pg_temp.{_WAITING} add column {_NUMBER} bigint generated always as identity"
        if self.target.delete is not None:
            more += f", add column {DELETED} boolean"
        self.execute(more)

    # Rows ---------------------------------------------------------------------------------------------------

    def row_errors(self) -> tuple[type[Exception], ...]:
        """The errors that a single row is to blame for."""
        errors = psycopg().errors
        return errors.DataError, errors.IntegrityError, errors.ProgramLimitExceeded, errors.RaiseException

    def rows_of(self, batch: Batch) -> Sequence[bytes]:
        """The rows of a batch as texts."""
        return split_rows(batch.data)

    def chunks_of(self, batch: Batch) -> Sequence[bytes]:
        """The text of all rows of a batch."""
        return [batch.data]

    def refuse_row(self, batch: Batch, row: bytes, error: Exception) -> None:
        """Leave out a row. Raises UnwritableError."""
        remedy = ""
        if self.target.key and isinstance(error, psycopg().errors.UniqueViolation):
            remedy = "; where rows exchange values, make the constraint `deferrable`"
        self.refuse(batch, row.decode().rstrip("\n"), first_line(error), remedy=remedy, cause=error)

    def write_rows(self, schema: pa.Schema, rows: Sequence[bytes]) -> None:
        """Write rows, in a second way where one has a unique value of another: they may exchange them."""
        key = self.target.key
        sent = [DELETED if name == self.target.delete else name for name in schema.names]
        names = [name for name in schema.names if name != self.target.delete]
        try:
            with self.connection.transaction():
                self._copy(sent, rows)
                self._merge(names)
        except psycopg().errors.UniqueViolation:
            if not key or not (columns := self._exchangeable(names)):
                raise
            nulls = ", ".join(f"{quoted(name)} = null" for name in columns)
            same = " and ".join(f"kept.{quoted(name)} = last.{quoted(name)}" for name in key)
            with self.connection.transaction():
                self._copy(sent, rows)
                self.execute(f"update {self.table} as kept set {nulls} from {_WAITING} as last where {same}")  # noqa: S608  identifiers
                self._merge(names)

    def _exchangeable(self, names: Sequence[str]) -> list[str]:
        """The columns of other unique indexes than the key's that are written, and may be null meanwhile."""
        query = """select distinct a.attname::text from pg_index i
            join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
            where i.indrelid = to_regclass(%s) and i.indisunique and not a.attnotnull"""
        written = set(names).difference(self.target.key)
        return [column for (column,) in self.rows(query, (self.table,)) if column in written]

    def _copy(self, names: Sequence[str], texts: Sequence[bytes]) -> None:
        into = _WAITING if self.target.key else self.table
        statement = f"copy {into} ({listed(names)}) from stdin (format csv)"
        with self.connection.cursor() as cursor, cursor.copy(statement) as copy:
            for text in texts:
                copy.write(text)

    def _merge(self, names: Sequence[str]) -> None:
        """Bring waiting rows into the table, by key: the last one of each counts."""
        if not self.target.key:
            return
        keys = listed(self.target.key)
        last = f"(select distinct on ({keys}) * from {_WAITING} order by {keys}, {_NUMBER} desc) as last"  # noqa: S608  identifiers
        deleted = None if self.target.delete is None else DELETED
        for statement in merged(self.table, self.target.key, names, last, deleted):
            self.execute(statement)
        self.execute(f"truncate {_WAITING}")


class PostgresOutput(AtServer, TableRows):
    """Write the stream into a table of PostgreSQL, exactly once.

    Rows of a window and its mark, a row of the table `ridgeline_marks` in the same database, are one
    transaction after the window's commit. Windows that wait are written together. Partitions make the text of
    COPY in parallel; one connection sends it, in the order of windows.

    `dsn`: a connection string or URI of libpq, better `env:NAME` or `file:PATH` if it holds a password.
    Without it the environment variable `POSTGRES_DSN` counts.
    `password`: the same. `connection`: more settings of libpq, such as `{"sslmode": "verify-full"}`.
    `table`: its name, with a schema or without.

    Without `key` rows are appended. With `key` a row replaces the one with its key: the last in the stream
    counts. These columns are a primary key, or have a unique index. `delete` names a column that is not
    written. Where it is true, or the text `d` or `delete`, the row of the key is deleted.

    A table that is missing is made, with the types below and `key` as its primary key, unless `create` is
    False. Columns of a table that is there are compared at the start. Types: `int` bigint, `float` double
    precision, `str` text, `bool` boolean, `bytes` bytea, `Decimal` numeric, `date` date, `datetime`
    timestamptz or timestamp, `timedelta` interval. Lists, structs and maps are jsonb.

    A row that the server refuses (too large, null, not unique) ends the run, with window, row and reason.
    With `on_error=SKIP` it is left out and written to a file beside the segments. A text with a NUL character
    is a dead letter.

    Partitions: by `key`, else round robin.

    Example:
        Without a server nothing is written, but the application can be validated.

        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.connectors.postgres import PostgresOutput
        >>> from ridgeline.plan import find_faults
        >>> from ridgeline.testing import ListInput
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> app = Application("prices")
        >>> prices = app.add_operator("prices", ListInput(Price, [("IBM", 12.3)]))
        >>> table = app.add_operator("table", PostgresOutput("prices", key="symbol"))
        >>> app.add_stream("prices", prices.output, table.input)
        >>> find_faults(app)
        []
    """

    table: str = Field(min_length=1)

    def encode(self, batch: pa.RecordBatch) -> bytes:
        """The text of COPY. Raises ValueError for a row that no table can hold."""
        return copy_text(self.keyed(batch))

    def sink(self) -> Sink:
        """The driver's half."""
        return PostgresSink(self.server, self.target)


T = TypeVar("T", default=Any)
_CHUNK_ROWS = 10_000
_FOLLOWING = "pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
"""The first transaction that has not begun."""
_OLDEST = "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
"""The oldest transaction that runs."""
_POLLS, _POLL_SECONDS = 100, 0.05


class PostgresRows(ServerRows):
    """Rows of PostgreSQL."""

    def source(self) -> IncreasingSource:
        """The driver's half of the input."""
        return PostgresSource(self)

    def ask(self, connection: Any, query: str) -> Iterator[Sequence[Sequence[Any]]]:
        """Chunks of rows. Raises errors of psycopg."""
        with connection.transaction(), connection.cursor(name="ridgeline") as cursor:
            cursor.execute(query)
            while chunk := cursor.fetchmany(_CHUNK_ROWS):
                yield chunk


class PostgresInput(AtServer, ServerInput[T]):
    """Emit the rows of a table that is appended to, each exactly once, in the order of an increasing column.

    `table`: its name; or `query`, a SELECT in its place. `column`: a column of integers that grows with each
    row, such as an identity. An index on it is needed. `schema`: the type of the tuples; its fields are
    columns. `shards`: the number of source partitions, each with the rows of one remainder of `column`. As
    many partitions of the operator read at once.

    A transaction that took its numbers first may be committed last. A row is read once no transaction runs
    any more that ran when its number was first seen, and `lag` later. So nothing is passed over, and a long
    transaction in the database holds rows back. Rows whose number was given by hand, below one that was read,
    are missed. Rows that are changed or deleted are not seen again. Values that do not fit the schema are
    errors, or dead letters with `on_error=SKIP`.

    `dsn`, `password` and `connection` are those of `PostgresOutput`; all hosts connect. `begin` may be
    "earliest" or "latest". `table`, `query` and `shards` stay as they are while a checkpoint is continued.

    Example:
        Without a server nothing is read, but the application can be validated.

        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.connectors.postgres import PostgresInput
        >>> from ridgeline.plan import find_faults
        >>> from ridgeline.testing import CollectorSink
        >>> class Order(NamedTuple):
        ...     id: int
        ...     cents: int
        >>> app = Application("orders")
        >>> orders = app.add_operator("orders", PostgresInput("orders", schema=Order))
        >>> sink = app.add_operator("sink", CollectorSink(Order))
        >>> app.add_stream("orders", orders.output, sink.input)
        >>> find_faults(app)
        []
    """

    read_by = PostgresRows


class PostgresSource(IncreasingSource):
    """A number counts once all transactions are over that ran when it was first seen."""

    def __init__(self, rows: PostgresRows) -> None:
        super().__init__(rows)
        self._following = self._oldest = 0
        """The first transaction that had not begun, and the oldest one that ran, when it was asked last."""

    def ask(self, query: str, connection: Any = None) -> Any:
        """The first row of an answer, without a cursor at the server: it is asked often."""
        with self._rows.explaining(self._context.operator):
            return self._connection.execute(query).fetchone()

    def least(self) -> int | None:
        """The least number, once all transactions are over that run now: one may have it.

        Raises SourceUnavailableError if that takes long.
        """
        following = self.ask(f"select {_FOLLOWING}")[0]
        for _ in range(_POLLS):
            if self.ask(f"select {_OLDEST}")[0] >= following:
                return super().least()
            self._context.clock.wait(_POLL_SECONDS)
        msg = f"a transaction runs for long in the database of {self._rows.place}, which may have written "
        raise SourceUnavailableError(msg + "its first row")

    def greatest(self) -> int | None:
        """The greatest number of a committed row."""
        found, self._following, self._oldest = self.ask_number("max", f", {_FOLLOWING}, {_OLDEST}")
        return found

    @property
    def fence(self) -> int | None:
        """The first transaction that had not begun."""
        return self._following

    def is_past(self, fence: int | None) -> bool:
        """Whether no transaction runs from before it."""
        return fence is None or fence <= self._oldest
