"""Write into a table of SQLite, exactly once."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from ridgeline.api.errors import capped
from ridgeline.connect.sink import Batch, Sink
from ridgeline.connectors.sql.files.table_output import FileSink, TableOutput, folded
from ridgeline.connectors.sql.tables import DELETED, Target
from ridgeline.connectors.sql.texts import listed, on_conflict, quoted
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
_NOT_UNIQUE = {
    sqlite3.SQLITE_CONSTRAINT_UNIQUE,
    sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
    sqlite3.SQLITE_CONSTRAINT_ROWID,
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


class _Late(NamedTuple):
    """A row that was not written."""

    batch: Batch
    names: Sequence[str]
    row: tuple[Any, ...]
    why: str


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
        self._late: dict[tuple[Any, ...], _Late] = {}
        """By key, the rows that others keep out, which have a unique value of theirs."""

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

    def begin(self, batches: Sequence[Batch]) -> None:
        """Begin a transaction."""
        super().begin(batches)
        self._late.clear()

    def write_alike(self, batches: Sequence[Batch]) -> None:
        """Write the rows of batches, in order."""
        for batch in batches:
            self._write_batch(batch)

    def _write_batch(self, batch: Batch) -> None:
        """Write the rows of a batch, in order."""
        data: pa.Table = batch.data
        names = [name for name in data.column_names if name != DELETED]
        rows = list(zip(*(data.column(name).to_pylist() for name in names), strict=True))
        deleted = None if self.target.delete is None else data.column(DELETED).to_pylist()
        changed = self._changed_rows(batch, names, rows, deleted) if self._doubtful else set()
        if deleted is None:
            self._insert(batch, names, [row for place, row in enumerate(rows) if place not in changed])
            return
        remove = f"delete {self._of_key}"
        for place, (row, gone) in enumerate(zip(rows, deleted, strict=True)):
            if place in changed:
                continue
            if gone:
                self._late.pop(self._key(names, row), None)
                self.execute(remove, self._key(names, row))
            else:
                self._insert(batch, names, [row])

    def _changed_rows(
        self, batch: Batch, names: Sequence[str], rows: list[tuple[Any, ...]], deleted: list[bool] | None
    ) -> set[int]:
        """Refuse rows with a value that SQLite changes; returns which they are. Raises UnwritableError.

        Of rows that are deleted only the key counts.
        """
        statement = f"insert into {_PROBE} ({listed(names)}) values ({', '.join('?' * len(names))})"  # noqa: S608  identifiers
        self.connection.executemany(statement, rows)
        kept = self.rows(f"select {listed(names)} from {_PROBE} order by rowid")  # noqa: S608  identifiers
        self.execute(f"delete from {_PROBE}")  # noqa: S608  a name
        found = set()
        for name, (kind, affinity) in self._doubtful.items():
            at, is_key = names.index(name), name in self.target.key
            for number, (row, stored) in enumerate(zip(rows, kept, strict=True)):
                gone = deleted is not None and deleted[number] and not is_key
                if number not in found and not gone and not _same(row[at], stored[at], kind):
                    value = capped(repr(row[at]), 100)
                    why = f"`{name}` is {affinity} in the table, for which SQLite would change {value}"
                    self.refuse(batch, repr(row), why)
                    found.add(number)
        return found

    def _insert(self, batch: Batch, names: Sequence[str], rows: list[tuple[Any, ...]]) -> None:
        """Insert rows; one by one if some of them is refused."""
        self.execute("savepoint rows")
        try:
            self.connection.executemany(self._statement(names), rows)
            for row in rows if self._late else ():
                self._late.pop(self._key(names, row), None)
        except sqlite3.IntegrityError as error:
            self.execute("rollback to rows")
            if len(rows) > 1:
                for row in rows:
                    self._insert(batch, names, [row])
            elif self.target.key and error.sqlite_errorcode in _NOT_UNIQUE:
                self._late[self._key(names, rows[0])] = _Late(batch, names, rows[0], str(error))
            else:
                self.refuse(batch, repr(rows[0]), str(error), cause=error)
        self.execute("release rows")

    def end_rows(self) -> None:
        """Write rows that others kept out: these may have changed, or exchange their values with them.

        All are taken out of the table before one is put in. Raises UnwritableError.
        """
        late = list(self._late.values())
        if not late:
            return
        refused: list[tuple[_Late, dict[str, Any]]] = []
        self.execute("savepoint late")
        try:
            for one, old in [(one, self._taken(one.names, one.row)) for one in late]:
                new = dict(zip(map(folded, one.names), one.row, strict=True))
                try:
                    self._put(old | new)
                except sqlite3.IntegrityError:
                    refused.append((one, old))
            for _, old in refused:
                self._put(old)
        except sqlite3.IntegrityError:
            self.execute("rollback to late")
            refused = [(one, {}) for one in late]
        self.execute("release late")
        for one, _ in refused:
            self.refuse(one.batch, repr(one.row), one.why)

    def _key(self, names: Sequence[str], row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(row[names.index(name)] for name in self.target.key)

    @property
    def _of_key(self) -> str:
        """The rows with a key, in SQL."""
        # before a name SQLite does not take that for a text
        same = " and ".join(f"{self.table}.{quoted(name)} = ?" for name in self.target.key)
        return f"from {self.table} where {same}"

    def _taken(self, names: Sequence[str], row: tuple[Any, ...]) -> dict[str, Any]:
        """Delete the row with the key of this one, if there is one. Returns it, by column."""
        columns, key = list(self.columns()), self._key(names, row)
        found = self.rows(f"select {listed(columns)} {self._of_key}", key)
        self.execute(f"delete {self._of_key}", key)
        return dict(zip(map(folded, columns), found[0], strict=True)) if found else {}

    def _put(self, row: dict[str, Any]) -> None:
        """Insert a row, unless it has no columns."""
        if row:
            self.execute(self._insertion(list(row)), list(row.values()))

    def _statement(self, names: Sequence[str]) -> str:
        """The statement that inserts a row, by key or without."""
        insert, key = self._insertion(names), self.target.key
        return f"{insert} {on_conflict(key, names)}" if key else insert

    def _insertion(self, names: Sequence[str]) -> str:
        return f"insert into {self.table} ({listed(names)}) values ({', '.join('?' * len(names))})"  # noqa: S608  identifiers
