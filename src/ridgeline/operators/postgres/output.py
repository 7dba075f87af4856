"""Write into a table of PostgreSQL, exactly once."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from pydantic import Field

from ridgeline.connect.sink import Batch, Mark, Sink, SinkContext
from ridgeline.operators._json import json_column
from ridgeline.operators.databases.tables import DELETED, TableRows, TableSink, Target
from ridgeline.operators.postgres.connecting import (
    AtServer,
    Server,
    first_line,
    psycopg,
)

_ROW = re.compile(rb'(?:[^"\n]|"(?:[^"]|"")*")*\n')
_INTEGERS = {"int2", "int4", "int8"}
_NUMBERS = _INTEGERS | {"numeric", "float4", "float8", "money"}
_TEXTS = {"text", "varchar", "bpchar", "name", "citext"}
_TIMES = {"timestamp", "timestamptz"}
_NOT_OF_TEXT = _NUMBERS | {"bool", "bytea", *_TIMES, "date", "time", "timetz", "interval"}


def postgres_type(kind: pa.DataType) -> str:
    """The type of a column that is made for an Arrow type."""
    is_ = pa.types
    if is_.is_dictionary(kind):
        return postgres_type(kind.value_type)
    names: dict[Callable[[pa.DataType], bool], str] = {
        is_.is_boolean: "boolean",
        is_.is_uint8: "smallint",
        is_.is_int8: "smallint",
        is_.is_int16: "smallint",
        is_.is_uint16: "integer",
        is_.is_int32: "integer",
        is_.is_uint32: "bigint",
        is_.is_int64: "bigint",
        is_.is_uint64: "numeric(20,0)",
        is_.is_float16: "real",
        is_.is_float32: "real",
        is_.is_float64: "double precision",
        is_.is_date: "date",
        is_.is_time: "time",
        is_.is_duration: "interval",
        is_.is_binary: "bytea",
        is_.is_large_binary: "bytea",
        is_.is_fixed_size_binary: "bytea",
        is_.is_nested: "jsonb",
    }
    if is_.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    if is_.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    return next((name for matches, name in names.items() if matches(kind)), "text")


def fits(kind: pa.DataType, column: str) -> bool:  # noqa: PLR0911  a case each
    """Whether the values of an Arrow type can be written to a column of a type of PostgreSQL, by its name.

    That of a single value is not looked at: it may be too large.
    """
    is_ = pa.types
    if is_.is_dictionary(kind):
        return fits(kind.value_type, column)
    if column in _TEXTS or is_.is_null(kind):
        return True
    if is_.is_integer(kind):
        return column in _NUMBERS or column == "oid"
    if is_.is_floating(kind) or is_.is_decimal(kind):
        return column in _NUMBERS - _INTEGERS
    if is_.is_boolean(kind):
        return column == "bool"
    if is_.is_timestamp(kind):
        return column in _TIMES
    if is_.is_string(kind) or is_.is_large_string(kind):
        return column not in _NOT_OF_TEXT
    if is_.is_nested(kind):
        return column in {"json", "jsonb"}
    own = {"date": {"date", *_TIMES}, "time": {"time"}, "interval": {"interval"}, "bytea": {"bytea"}}
    return column in own.get(postgres_type(kind), {column})


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
_MARKS = """create table if not exists ridgeline_marks (
    name text primary key, "window" bigint not null, epoch bigint not null,
    written timestamptz not null default now())"""
_LONGEST_IDLE = "60s"
"""A driver that hangs in a transaction holds up its successor no longer."""
_READ_ONLY = "25006"


class Column(NamedTuple):
    """The type of a table's column, and whether rows need a value of it."""

    kind: str
    needs: bool


class PostgresSink(TableSink):
    """Writes rows by COPY; with a key by way of a temporary table."""

    def __init__(self, server: Server, target: Target) -> None:
        super().__init__(target)
        self._server = server

    def place(self) -> str:
        """The table, with the server's host and database."""
        return f"table {self.target.name} of {self._server.place}"

    def open(self, context: SinkContext) -> None:
        """Connect, make the tables that are missing, compare the columns.

        Raises RidgelineError if rows cannot be written, with the remedy.
        """
        super().open(context)
        library = psycopg()
        self.connection = self._server.connect(context.operator)
        self.connection.execute(f"set idle_in_transaction_session_timeout = '{_LONGEST_IDLE}'")
        try:
            self._make_marks()
            if context.schema is not None:
                self.settle(context.schema)
        except (library.ProgrammingError, library.NotSupportedError) as error:
            raise self.refused(first_line(error)) from error

    def _make_marks(self) -> None:
        """Make the table of marks, and this run's row. Two drivers may do it at once."""
        library = psycopg()
        try:
            self.connection.execute(_MARKS)
        except library.errors.UniqueViolation:  # another one has just made it
            self.connection.execute(_MARKS)
        self.connection.execute(
            'insert into ridgeline_marks (name, "window", epoch) values (%s, -1, %s) on conflict do nothing',
            (self.context.mark_name, self.context.epoch),
        )

    def mark(self) -> Mark | None:
        """The row of this run."""
        return self._read_mark(lock=False)

    def _read_mark(self, *, lock: bool) -> Mark | None:
        query = 'select "window", epoch from ridgeline_marks where name = %s'
        query += " for update" if lock else ""
        found = self.connection.execute(query, (self.context.mark_name,)).fetchone()
        return None if found is None else Mark(*found)

    def write(self, batches: Sequence[Batch], mark: Mark) -> None:
        """Write the rows and the mark in one transaction.

        Raises UnwritableError for a row that the server refuses, RidgelineError if it cannot be written to,
        or if the mark is gone.
        """
        library = psycopg()
        try:
            with self.connection.transaction():
                for _, group in groupby(
                    self.context.unwritten(batches, self._read_mark(lock=True)), lambda one: one.schema
                ):
                    self._write_alike(list(group))
                update = (
                    'update ridgeline_marks set "window" = %s, epoch = %s, written = now() where name = %s'
                )
                if not self.connection.execute(update, (*mark, self.context.mark_name)).rowcount:
                    raise self.context.unmarked(self.place())
        except (library.ProgrammingError, library.NotSupportedError) as error:
            raise self.refused(first_line(error)) from error

    def _write_alike(self, batches: list[Batch]) -> None:
        """Write batches of the same columns."""
        schema = batches[0].schema
        self.settle(schema)
        names = [DELETED if name == self.target.delete else name for name in schema.names]
        target = _WAITING if self.target.key else self.target.name
        library = psycopg()
        errors = library.errors
        row_errors = (
            library.DataError,
            library.IntegrityError,
            errors.ProgramLimitExceeded,
            errors.RaiseException,
        )
        try:
            self._write_rows(target, names, [batch.data for batch in batches], schema)
        except row_errors:
            for batch in batches:
                self._write_parts(batch, split_rows(batch.data), names, row_errors)

    def _write_parts(
        self, batch: Batch, rows: list[bytes], names: Sequence[str], row_errors: tuple[type[Exception], ...]
    ) -> None:
        """Write what can be written of a batch in which a row is refused, in its order."""
        target = _WAITING if self.target.key else self.target.name
        try:
            self._write_rows(target, names, rows, batch.schema)
        except row_errors as error:
            if len(rows) > 1:
                half = len(rows) // 2
                self._write_parts(batch, rows[:half], names, row_errors)
                self._write_parts(batch, rows[half:], names, row_errors)
                return
            remedy = ""
            if self.target.key and isinstance(error, psycopg().errors.UniqueViolation):
                remedy = "; where rows exchange values, make the constraint `deferrable`"
            self.refuse(batch, rows[0].decode().rstrip("\n"), first_line(error), remedy=remedy, cause=error)

    def _write_rows(
        self, target: str, names: Sequence[str], texts: Sequence[bytes], schema: pa.Schema
    ) -> None:
        """Write rows, in a second way where one has a unique value of another: they may exchange them."""
        try:
            with self.connection.transaction():
                self._copy(target, names, texts)
                self._merge(schema)
        except psycopg().errors.UniqueViolation:
            if not self.target.key or not (columns := self._exchangeable(schema)):
                raise
            with self.connection.transaction():
                self._copy(target, names, texts)
                release = "update {table} as kept set {nulls} from {waiting} as last where {same}"
                nulls = psycopg().sql.SQL("{} = null")
                parts = self._parts(schema.names, [])
                parts["nulls"] = (
                    psycopg()
                    .sql.SQL(", ")
                    .join(nulls.format(psycopg().sql.Identifier(name)) for name in columns)
                )
                self.connection.execute(self._compose(release, parts))
                self._merge(schema)

    def _exchangeable(self, schema: pa.Schema) -> list[str]:
        """The columns of other unique indexes than the key's that are written, and may be null meanwhile."""
        name = self._identifier(self.target.name).as_string(self.connection)
        query = """select distinct a.attname::text from pg_index i
            join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
            where i.indrelid = to_regclass(%s) and i.indisunique and not a.attnotnull"""
        written = set(schema.names).difference(self.target.key)
        return [column for (column,) in self.connection.execute(query, (name,)) if column in written]

    def _copy(self, table: str, names: Sequence[str], texts: Any) -> None:
        statement = self._sql("copy {} ({}) from stdin (format csv)", table, names)
        with self.connection.cursor() as cursor, cursor.copy(statement) as copy:
            for text in texts:
                copy.write(text)

    def _merge(self, schema: pa.Schema) -> None:
        """Bring waiting rows into the table, by key: the last one of each counts."""
        key = self.target.key
        if not key:
            return
        names = [name for name in schema.names if name != self.target.delete]
        others = [name for name in names if name not in key]
        last = "(select distinct on ({keys}) * from {waiting} order by {keys}, {number} desc) as last"
        parts = self._parts(names, others)
        if self.target.delete is not None:
            gone = "delete from {table} as kept using LAST where last.{deleted} and {same}"
            self.connection.execute(self._compose(gone.replace("LAST", last), parts))
        change = "update set {changes}" if others else "nothing"
        kept = " where not last.{deleted}" if self.target.delete is not None else ""
        insert = "insert into {table} ({names}) select {names} from LAST" + kept  # noqa: S608  identifiers
        insert += " on conflict ({keys}) do " + change
        self.connection.execute(self._compose(insert.replace("LAST", last), parts))
        self.connection.execute(self._compose("truncate {waiting}", parts))

    def _parts(self, names: Sequence[str], others: Sequence[str]) -> dict[str, Any]:
        """The parts of statements that bring waiting rows into the table."""
        sql = psycopg().sql
        change, same = sql.SQL("{0} = excluded.{0}"), sql.SQL("kept.{0} = last.{0}")
        return {
            "table": self._identifier(self.target.name),
            "waiting": sql.Identifier(_WAITING),
            "number": sql.Identifier(_NUMBER),
            "deleted": sql.Identifier(DELETED),
            "keys": self._names(self.target.key),
            "names": self._names(names),
            "changes": sql.SQL(", ").join(change.format(sql.Identifier(name)) for name in others),
            "same": sql.SQL(" and ").join(same.format(sql.Identifier(name)) for name in self.target.key),
        }

    # The table ----------------------------------------------------------------------------------------------

    def make_or_compare(self, schema: pa.Schema) -> None:
        """Make the table if it is missing, compare its columns, prepare for waiting rows.

        Raises RidgelineError if the stream does not fit the table.
        """
        written = self.written(schema)
        if (found := self._read_columns()) is None:
            self.refuse_missing()
            self._create(written)
            found = self._read_columns() or {}
        alter = f"alter table {self.target.name}"
        self.compare(
            written,
            found,
            fits=lambda kind, column: fits(kind, column.kind),
            add=lambda one: f'{alter} add column "{one.name}" {postgres_type(one.type)}',
            shown=lambda column: column.kind,
            needed=[name for name, column in found.items() if column.needs],
        )
        if self.target.key:
            if not self._is_unique():
                self.refuse_key()
            self._prepare(written)

    def _read_columns(self) -> dict[str, Column] | None:
        """The columns of the table: type, and whether a value is needed; None: it is missing."""
        connection = self.connection
        name = self._identifier(self.target.name).as_string(connection)
        if connection.execute("select to_regclass(%s)", (name,)).fetchone()[0] is None:
            return None
        query = """select a.attname, t.typname, a.attnotnull and not a.atthasdef and a.attidentity = ''
            from pg_attribute a join pg_type t on t.oid = a.atttypid
            where a.attrelid = to_regclass(%s) and a.attnum > 0 and not a.attisdropped"""
        return {column: Column(kind, needed) for column, kind, needed in connection.execute(query, (name,))}

    def _create(self, fields: Sequence[Any]) -> None:
        """Make the table, unless another one has just made it."""
        sql, library = psycopg().sql, psycopg()
        columns = [
            sql.SQL("{} " + postgres_type(one.type)).format(sql.Identifier(one.name)) for one in fields
        ]
        if self.target.key:
            columns.append(sql.SQL("primary key ({})").format(self._names(self.target.key)))
        create = sql.SQL("create table if not exists {} ({})")
        statement = create.format(self._identifier(self.target.name), sql.SQL(", ").join(columns))
        try:
            self.connection.execute(statement)
        except library.errors.UniqueViolation:
            self.connection.execute(statement)

    def _is_unique(self) -> bool:
        name = self._identifier(self.target.name).as_string(self.connection)
        query = """select array_agg(a.attname::text) from pg_index i
            join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
            where i.indrelid = to_regclass(%s) and i.indisunique and i.indpred is null and i.indisvalid
            group by i.indexrelid"""
        return any(set(names) == set(self.target.key) for (names,) in self.connection.execute(query, (name,)))

    def _prepare(self, fields: Sequence[Any]) -> None:
        """Make the temporary table of waiting rows, with the types of the table's columns."""
        parts = self._parts([one.name for one in fields], [])
        execute = self.connection.execute
        execute(self._compose("drop table if exists pg_temp.{waiting}", parts))
        like = "create temporary table {waiting} as select {names} from {table} with no data"
        execute(self._compose(like, parts))
        more = "alter table pg_temp.{waiting} add column {number} bigint generated always as identity"
        if self.target.delete is not None:
            more += ", add column {deleted} boolean"
        execute(self._compose(more, parts))

    # Texts of SQL, and of errors ----------------------------------------------------------------------------

    def _identifier(self, name: str) -> Any:
        return psycopg().sql.Identifier(*name.split("."))

    def _names(self, names: Sequence[str]) -> Any:
        sql = psycopg().sql
        return sql.SQL(", ").join(map(sql.Identifier, names))

    def _sql(self, text: str, table: str, names: Sequence[str]) -> Any:
        return psycopg().sql.SQL(text).format(self._identifier(table), self._names(names))

    def _compose(self, text: str, parts: Mapping[str, Any]) -> Any:
        used = {name: part for name, part in parts.items() if f"{{{name}}}" in text}
        return psycopg().sql.SQL(text).format(**used)

    def is_unavailable(self, error: Exception) -> bool:
        """Whether the server is gone, ending, starting, full, or read-only for a while."""
        library = psycopg()
        if isinstance(error, library.Error) and error.sqlstate == _READ_ONLY:
            return True
        return isinstance(error, (library.OperationalError, library.InterfaceError, OSError))


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
        >>> from ridgeline.operators.postgres import PostgresOutput
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
