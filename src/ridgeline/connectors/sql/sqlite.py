"""SQLite: an output that writes each window once, and an input of tables that are appended to."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from ridgeline.api.errors import capped
from ridgeline.connect.sink import Batch, Sink
from ridgeline.connectors.sql.files import CHUNK_ROWS, FileInput, FileRows, FileSink, T, TableOutput, folded
from ridgeline.connectors.sql.increasing import Rows
from ridgeline.connectors.sql.tables import DELETED, Target, listed, on_conflict, quoted
from ridgeline.operators._json import json_column
from ridgeline.operators._kinds import NESTED, family

_CHANGED: Mapping[str, set[str]] = {
    "INT": {"text", "decimal"},
    "NUM": {"text", "decimal"},
    "REAL": {"text", "decimal", "integer", "duration"},
    "TEXT": {"floating"},
}
"""The families of values that SQLite may change for a column, by its affinity: `007` would be 7."""
_PROBE = "temp.ridgeline_probe"
_BUSY_SECONDS = 10.0


class SqliteOutput(TableOutput):
    """Write the stream into a table of SQLite, exactly once.

    Rows of a window and its mark, a row of the table `ridgeline_marks`, are one transaction after the
    window's commit. The driver writes, so `path` is a file on its host. The database is set to WAL, so that
    readers are not held up.

    Without `key` rows are appended. With `key` a row replaces the one with its key: the last in the stream
    counts. `delete` names a column that is not written. Where it is true, or the text `d` or `delete`, the
    row of the key is deleted. A table that is missing is made, unless `create` is False.

    SQLite has integers, floats, texts and bytes. A boolean is 0 or 1. A decimal, a date, a time and a
    timestamp are texts. A duration is microseconds. Lists, structs and maps are JSON. A NaN becomes null, and
    is refused in the key.

    SQLite changes some values for the type that a table declares: the text `007` in a column of integers
    would be 7. A row with such a value, or one that a constraint refuses, ends the run. With `on_error=SKIP`
    it is left out, as of `PostgresOutput`.

    Partitions: by `key`, else round robin.

    Example:
        >>> import sqlite3, tempfile
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.connectors.sql import SqliteOutput
        >>> from ridgeline.testing import ListInput, run_local
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = f"{folder.name}/prices.db"
        >>> app = Application("prices")
        >>> rows = [("IBM", 12.3), ("SAP", 9.5), ("IBM", 13.0)]
        >>> prices = app.add_operator("prices", ListInput(Price, rows))
        >>> table = app.add_operator("table", SqliteOutput(path=path, table="prices", key="symbol"))
        >>> app.add_stream("prices", prices.output, table.input)
        >>> run = run_local(app)
        >>> with sqlite3.connect(path) as connection:
        ...     connection.execute("select * from prices order by symbol").fetchall()
        [('IBM', 13.0), ('SAP', 9.5)]
        >>> folder.cleanup()
    """

    nan_keys: ClassVar[str] = "SQLite stores it as null, which equals no other"

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Values as SQLite stores them. Raises ValueError for a key of null or NaN, or an int too large."""
        batch = super().encode(batch)
        columns = [_stored(column, name) for name, column in zip(batch.schema.names, batch, strict=True)]
        return pa.RecordBatch.from_arrays(columns, batch.schema.names)

    def sink(self) -> Sink:
        """The driver's half."""
        return SqliteSink(str(self.path), self.target)


def _stored(column: Any, name: str) -> Any:
    """A column of types that SQLite has."""
    if pa.types.is_dictionary(column.type):
        return _stored(column.dictionary_decode(), name)
    if pa.types.is_uint64(column.type):
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise ValueError(
                f"column `{name}` has an integer above 2**63 - 1, which SQLite cannot store ({error})"
            ) from error
    found = family(column.type)
    if found == "boolean":
        return column.cast(pa.int8())
    if found == "duration":
        return column.cast(pa.duration("us"), safe=False).cast(pa.int64())
    if found in {"decimal", "date", "time", "timestamp"}:
        return column.cast(pa.string())
    return json_column(column) if found in NESTED else column


_TYPES: Mapping[str, str] = {
    "boolean": "integer",
    "integer": "integer",
    "duration": "integer",
    "floating": "real",
    "bytes": "blob",
}
"""The types of columns that are made that are no text, by family."""
_WAITING_CODES = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
}


def waits(error: BaseException) -> bool:
    """Whether a file is locked, not there, full, or its disk is gone."""
    return isinstance(error, OSError) or getattr(error, "sqlite_errorcode", 0) & 0xFF in _WAITING_CODES


def _same(sent: Any, stored: Any, kind: str) -> bool:
    """Whether what is stored has the value that was sent, of a family of types."""
    if sent is None or type(sent) is type(stored):
        return bool(sent == stored)
    if kind == "decimal":
        return Decimal(str(stored)) == Decimal(sent)
    return bool(type(sent)(stored) == sent)


class _ChangedError(Exception):
    """A value that SQLite would change."""


class SqliteSink(FileSink):
    """Writes rows one after the other; those that others keep out at the end."""

    marks: ClassVar[str] = (
        "create table if not exists ridgeline_marks (name text primary key, window int, epoch int)"
    )
    begins: ClassVar[str] = "begin immediate"

    def __init__(self, path: str, target: Target) -> None:
        super().__init__(path, target)
        self._doubtful: dict[str, tuple[str, str]] = {}
        """The columns for which SQLite may change values, with the family of these and the affinity."""

    # The database -------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Open the file."""
        self.connection = sqlite3.connect(self.path, isolation_level=None, timeout=_BUSY_SECONDS)
        self.execute("pragma journal_mode = wal")
        self.execute("pragma synchronous = full")

    def is_unavailable(self, error: Exception) -> bool:
        """Whether the file is locked, full, or its disk is gone."""
        return waits(error)

    # The table ----------------------------------------------------------------------------------------------

    def columns(self) -> Mapping[str, str]:
        """The columns of the table with their declared types; none if it is missing."""
        return dict(self.rows("select name, type from pragma_table_info(?)", (self.target.name,)))

    def types(self, fields: Sequence[pa.Field]) -> Sequence[str]:
        """The types of the columns of a table that is made."""
        return [_TYPES.get(family(field.type), "text") for field in fields]

    def compare_table(self, fields: Sequence[pa.Field], found: Mapping[str, str]) -> None:
        """Compare columns and key, and make a table that shows which values would change."""
        super().compare_table(fields, found)
        names = [field.name for field in fields]
        self._check_key(names)
        self.execute(f"drop table if exists {_PROBE}")
        self.execute(f"create table {_PROBE} as select {listed(names)} from {self.table} limit 0")  # noqa: S608  identifiers
        declared = self.rows("select type from pragma_table_info('ridgeline_probe')")
        self._doubtful = {
            field.name: (kind, affinity)
            for field, (affinity,) in zip(fields, declared, strict=True)
            if (kind := family(field.type)) in _CHANGED.get(affinity, ())
        }

    def _check_key(self, names: Sequence[str]) -> None:
        """Raise RidgelineError if the table has no unique index for the key."""
        try:
            self.execute(f"explain {self._statement(names)}", [None] * len(names))
        except sqlite3.OperationalError as error:
            if "ON CONFLICT" not in str(error):
                raise
            self.refuse_key()

    # Rows ---------------------------------------------------------------------------------------------------

    def row_errors(self) -> tuple[type[Exception], ...]:
        """The errors that a single row is to blame for."""
        return sqlite3.IntegrityError, _ChangedError

    def rows_of(self, batch: Batch) -> Sequence[dict[str, Any]]:
        """The rows of a batch by column."""
        return batch.data.to_pylist()

    def refuse_row(self, batch: Batch, row: dict[str, Any], error: Exception) -> None:
        """Leave out a row. Raises UnwritableError."""
        values = tuple(value for name, value in row.items() if name != DELETED)
        self.refuse(batch, repr(values), str(error), cause=error)

    def write_rows(self, schema: pa.Schema, rows: Sequence[dict[str, Any]]) -> None:
        """Write rows in order, or take them all out before one is put in: they may exchange unique values."""
        self.execute("savepoint rows")
        try:
            self._check_kept(rows)
            try:
                self._write_in_order(rows)
            except sqlite3.IntegrityError:
                if not self.target.key:
                    raise
                self.execute("rollback to rows")
                self._write_at_once(rows)
        except self.row_errors():
            self.execute("rollback to rows")
            self.execute("release rows")
            raise
        self.execute("release rows")

    def _check_kept(self, rows: Sequence[dict[str, Any]]) -> None:
        """Raise _ChangedError for a value that SQLite changes; of deleted rows for one of the key."""
        if not self._doubtful:
            return
        names = list(self._doubtful)
        statement = f"insert into {_PROBE} ({listed(names)}) values ({', '.join('?' * len(names))})"  # noqa: S608  identifiers
        self.connection.executemany(statement, [[row[name] for name in names] for row in rows])
        kept = self.rows(f"select {listed(names)} from {_PROBE} order by rowid")  # noqa: S608  identifiers
        self.execute(f"delete from {_PROBE}")  # noqa: S608  a name
        for row, stored in zip(rows, kept, strict=True):
            for (name, (kind, affinity)), value in zip(self._doubtful.items(), stored, strict=True):
                counts = name in self.target.key or not row.get(DELETED)
                if counts and not _same(row[name], value, kind):
                    what = f"`{name}` is {affinity} in the table, for which SQLite would change "
                    raise _ChangedError(what + capped(repr(row[name]), 100))

    def _write_in_order(self, rows: Sequence[dict[str, Any]]) -> None:
        """Insert rows, replace or delete them by key, one after the other."""
        for gone, run in groupby(rows, lambda row: bool(row.get(DELETED))):
            some = list(run)
            names = self.target.key if gone else [name for name in some[0] if name != DELETED]
            statement = f"delete {self._of_key}" if gone else self._statement(names)
            self.connection.executemany(statement, [[row[name] for name in names] for row in some])

    def _write_at_once(self, rows: Sequence[dict[str, Any]]) -> None:
        """Take the rows of all keys out of the table, and put the last ones in, with their other columns."""
        columns, last = list(self.columns()), {self._key(row): row for row in rows}
        old: dict[Any, dict[str, Any]] = {}
        for key in last:
            for found in self.rows(f"select {listed(columns)} {self._of_key}", key):
                old[key] = dict(zip(map(folded, columns), found, strict=True))
            self.execute(f"delete {self._of_key}", key)
        for key, row in last.items():
            if not row.get(DELETED):
                new = {folded(name): value for name, value in row.items() if name != DELETED}
                whole = old.get(key, {}) | new
                self.execute(self._insertion(list(whole)), list(whole.values()))

    def _key(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.target.key)

    @property
    def _of_key(self) -> str:
        """The rows with a key, in SQL."""
        # before a name SQLite does not take that for a text
        same = " and ".join(f"{self.table}.{quoted(name)} = ?" for name in self.target.key)
        return f"from {self.table} where {same}"

    def _statement(self, names: Sequence[str]) -> str:
        """The statement that inserts a row, by key or without."""
        insert, key = self._insertion(names), self.target.key
        return f"{insert} {on_conflict(key, names)}" if key else insert

    def _insertion(self, names: Sequence[str]) -> str:
        return f"insert into {self.table} ({listed(names)}) values ({', '.join('?' * len(names))})"  # noqa: S608  identifiers


class SqliteInput(FileInput[T]):
    """Emit the rows of a table of SQLite that is appended to, each exactly once, in the order of a column.

    `path`: the file, which all hosts that read need. It is opened read-only. `table`, or `query`, a SELECT in
    its place. `column`: a column of integers that grows with each row, such as an `integer primary key`. With
    `autoincrement` no number comes twice, also if the last row was deleted. `schema`: the type of the tuples;
    its fields are columns. `shards`: as of `MariaDbInput`.

    Rows are read once they are committed. Rows that are changed or deleted are not seen again. Dates, times
    and decimals are read from texts, as `SqliteOutput` writes them, lists and maps from JSON. Values that do
    not fit the schema are errors, or dead letters with `on_error=SKIP`.

    Example:
        >>> import sqlite3, tempfile
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.connectors.sql import SqliteInput
        >>> from ridgeline.testing import CollectorSink, run_local
        >>> class Order(NamedTuple):
        ...     id: int
        ...     cents: int
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = f"{folder.name}/orders.db"
        >>> with sqlite3.connect(path) as connection:
        ...     made = connection.execute("create table orders (id integer primary key, cents int)")
        ...     made = connection.execute("insert into orders values (1, 250), (2, 99)")
        >>> app = Application("orders")
        >>> orders = app.add_operator("orders", SqliteInput("orders", path=path, schema=Order, until="end"))
        >>> sink = app.add_operator("sink", CollectorSink(Order))
        >>> app.add_stream("orders", orders.output, sink.input)
        >>> run_local(app).collected("sink")
        [Order(id=1, cents=250), Order(id=2, cents=99)]
        >>> folder.cleanup()
    """

    def rows(self) -> Rows:
        """The rows that are read."""
        return SqliteRows(self.table, self.query, self.column, self.shards, 0.0, str(self.path))


class SqliteRows(FileRows):
    """Rows of a file of SQLite."""

    def ask(self, connection: Any, query: str) -> Iterator[Sequence[Sequence[Any]]]:
        """Chunks of rows. Raises errors of sqlite3."""
        address = f"{Path(self.path).as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS)) as opened:
            cursor = opened.execute(query)
            while chunk := cursor.fetchmany(CHUNK_ROWS):
                yield chunk

    def passes(self, error: Exception) -> bool | None:
        """Whether the file is locked, or not there."""
        return waits(error) if isinstance(error, (sqlite3.Error, OSError)) else None
