"""Write into a table of MariaDB or MySQL, exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ridgeline.connect.sink import Batch, Mark, Sink, SinkContext
from ridgeline.operators.databases.tables import DELETED, TableRows, TableSink, Target
from ridgeline.operators.mariadb.connecting import (
    ROW_ERRORS,
    AtServer,
    Server,
    code_of,
    listed,
    passes,
    pymysql,
    quoted,
    quoted_column,
    reason,
)
from ridgeline.operators.mariadb.table import Table, changed, check_engine, literals, tuples

_MARKS = """create table if not exists ridgeline_marks (
    name varchar(190) primary key, `window` bigint not null, epoch bigint not null,
    written timestamp not null default current_timestamp on update current_timestamp)
    engine = InnoDB character set utf8mb4 collate utf8mb4_bin"""
_STATEMENT_BYTES = 2**20
_KEYS_AT_ONCE = 200
_CHANGED = {1264, 1265, 1292, 1366, 1406, 1411}
"""Warnings of a value that is not as it was sent."""
_NULL = 1048


class Row(NamedTuple):
    """A row as a tuple of SQL, its key as one, and whether it is deleted."""

    text: str
    key: str
    gone: bool


class _ChangedError(Exception):
    """The server has warned that a value is not as it was sent."""


class MariaDbSink(TableSink):
    """Writes rows by statements of many rows; one by one where one is refused."""

    def __init__(self, server: Server, target: Target) -> None:
        super().__init__(target)
        self._server = server
        self._table: Table | None = None

    def place(self) -> str:
        """The table, with the server's host and database."""
        return f"table {self.target.name} of {self._server.place}"

    # The connection -----------------------------------------------------------------------------------------

    def open(self, context: SinkContext) -> None:
        """Connect, make the tables that are missing, compare the columns.

        Raises RidgelineError if rows cannot be written, with the remedy.
        """
        super().open(context)
        self.connection = self._server.connect(context.operator)
        try:
            [(self._version, self._packet)] = self._rows("select version(), @@max_allowed_packet")
            self._make_marks()
            if context.schema is not None:
                self.settle(context.schema)
        except pymysql().MySQLError as error:
            raise self._explained(error) from error

    def _make_marks(self) -> None:
        """Make the table of marks, and this run's row. Two drivers may do it at once."""
        database = self._server.database
        if not database:
            self.fault("`url` names no database", "name that of the table")
        there = "select 1 from information_schema.tables where table_schema = %s and table_name = %s"
        if not self._rows(there, (database, "ridgeline_marks")):  # a user may not be allowed to make it
            self._execute(_MARKS)
        check_engine(self, self._rows, database, "ridgeline_marks")
        first = "insert into ridgeline_marks (name, `window`, epoch) values (%s, -1, %s) "
        first += "on duplicate key update epoch = epoch"
        self._execute(first, (self.context.mark_name, self.context.epoch))

    def mark(self) -> Mark | None:
        """The row of this run."""
        return self._read_mark(lock=False)

    def _read_mark(self, *, lock: bool) -> Mark | None:
        query = "select `window`, epoch from ridgeline_marks where name = %s"
        found = self._rows(query + (" for update" if lock else ""), (self.context.mark_name,))
        return Mark(*found[0]) if found else None

    def _rows(self, query: str, values: Sequence[Any] | None = None) -> Sequence[Any]:
        with self.connection.cursor() as cursor:
            cursor.execute(query, values)
            found: Sequence[Any] = cursor.fetchall()
        return found

    def _execute(self, statement: str, values: Sequence[Any] | None = None) -> int:
        """How many rows a statement has matched or changed."""
        with self.connection.cursor() as cursor:
            return int(cursor.execute(statement, values))

    # Writing ------------------------------------------------------------------------------------------------

    def write(self, batches: Sequence[Batch], mark: Mark) -> None:
        """Write the rows and the mark in one transaction.

        Raises UnwritableError for a row that the server refuses, RidgelineError if it cannot be written to,
        or if the mark is gone.
        """
        try:
            for schema, _ in groupby(batches, lambda one: one.schema):
                self.settle(schema)  # making a table would end the transaction
            self._execute("start transaction")
            for schema, group in groupby(
                self.context.unwritten(batches, self._read_mark(lock=True)), lambda one: one.schema
            ):
                self.settle(schema)
                for batch in group:
                    self._write_batch(batch)
            self._set_mark(mark)
            self.connection.commit()
        except BaseException as error:
            self._roll_back()
            if isinstance(error, pymysql().MySQLError):
                raise self._explained(error) from error
            raise

    def _set_mark(self, mark: Mark) -> None:
        """Set this run's row. Raises RidgelineError if it is gone."""
        update = "update ridgeline_marks set `window` = %s, epoch = %s, written = now() where name = %s"
        self._execute(update, (*mark, self.context.mark_name))
        if self._read_mark(lock=True) != mark:
            raise self.context.unmarked(self.place())

    def _roll_back(self) -> None:
        """End a transaction that failed, if the server is there."""
        try:
            self.connection.rollback()
        except (pymysql().MySQLError, OSError):
            self.close()

    def _write_batch(self, batch: Batch) -> None:
        """Write the rows of a batch in order: with a key those that count."""
        target, data = self.target, batch.data
        names = [name for name in data.column_names if name != DELETED]
        data = self._without_changed(batch, data)
        texts = tuples(data, names)
        if not target.key:
            self._write_run(batch, names, [Row(text, "", gone=False) for text in texts])
            return
        gone = data.column(DELETED).to_pylist() if target.delete is not None else [False] * len(texts)
        last: dict[str, Row] = {}
        for text, key, deleted in zip(texts, tuples(data, target.key), gone, strict=True):
            last.pop(key, None)
            last[key] = Row(text, key, deleted)
        assert self._table is not None  # noqa: S101  it was settled
        rows = list(last.values())
        if all(self._table.columns[name].exact for name in target.key):
            rows.sort(key=lambda row: not row.gone)  # else keys that differ may be equal: in order
        for _, run in groupby(rows, lambda row: row.gone):
            self._write_run(batch, names, list(run))

    def _without_changed(self, batch: Batch, data: pa.Table) -> pa.Table:
        """Leave out rows with a value that the server would change without a word. Raises UnwritableError."""
        assert self._table is not None  # noqa: S101  it was settled
        names = [name for name in data.column_names if name != DELETED]
        refused: Any = None
        for field in self.written(batch.schema):
            column = data.column(field.name)
            for found, what in changed(self._table.columns[field.name], field.type, column):
                mask = pc.fill_null(found, False)  # noqa: FBT003  the value
                if DELETED in data.column_names and field.name not in self.target.key:
                    mask = pc.and_(mask, pc.invert(data.column(DELETED)))
                if pc.any(mask).as_py():
                    for text in tuples(data.filter(mask), names):
                        self.refuse(batch, text, f"`{field.name}` {what}")
                    refused = mask if refused is None else pc.or_(refused, mask)
        return data if refused is None else data.filter(pc.invert(refused))

    def _write_run(self, batch: Batch, names: Sequence[str], rows: list[Row]) -> None:
        """Write rows that are all deleted, or none of them."""
        for part in self._parts(rows):
            self._write_part(batch, names, part)

    def _parts(self, rows: list[Row]) -> Iterator[list[Row]]:
        """Rows of one statement each."""
        most = min(_STATEMENT_BYTES, self._packet // 4)
        part: list[Row] = []
        size = 0
        for row in rows:
            size += len(row.text)
            if part and (size > most or (row.gone and len(part) == _KEYS_AT_ONCE)):
                yield part
                part, size = [], len(row.text)
            part.append(row)
        if part:
            yield part

    def _write_part(self, batch: Batch, names: Sequence[str], rows: list[Row]) -> None:
        """Write what can be written of rows of which one may be refused, in their order."""
        self._execute("savepoint ridgeline_rows")
        try:
            self._send(names, rows)
        except (pymysql().MySQLError, _ChangedError) as error:
            if not isinstance(error, _ChangedError) and code_of(error) not in ROW_ERRORS:
                raise
            self._execute("rollback to savepoint ridgeline_rows")
            if len(rows) == 1:
                self.refuse(batch, rows[0].text, self._why(error))
                return
            half = len(rows) // 2
            self._write_part(batch, names, rows[:half])
            self._write_part(batch, names, rows[half:])

    def _send(self, names: Sequence[str], rows: list[Row]) -> None:
        """Send a statement. Raises errors of PyMySQL, and `_ChangedError`."""
        statement = self._delete(rows) if rows[0].gone else self._insert(names, rows)
        if len(rows) == 1 and len(statement.encode()) + 1024 > self._packet:  # it would hang up
            raise _ChangedError(f"it is larger than the server's max_allowed_packet, {self._packet}")
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            warned = cursor.warning_count
        if warned:
            for _, code, text in self._rows("show warnings"):
                if code in _CHANGED:
                    raise _ChangedError(text)

    def _insert(self, names: Sequence[str], rows: list[Row]) -> str:
        """The statement that inserts rows, by key or without, for `_send`."""
        target = self.target
        statement = f"insert into {quoted(target.name)} ({listed(names)}) values "  # noqa: S608  literals
        statement += ",".join(row.text for row in rows)
        if not target.key:
            return statement
        assert self._table is not None  # noqa: S101  it was settled
        values = {name: f"values({quoted_column(name)})" for name in names}
        if not self._table.sole:  # the row that is there may have another key: then null, which is refused
            same = " and ".join(f"{quoted_column(name)} = {values[name]}" for name in target.key)
            values[target.key[0]] = f"if({same}, {values[target.key[0]]}, null)"
        order = [*target.key, *(name for name in names if name not in target.key)]
        return (
            f"{statement} on duplicate key update "
            f"{', '.join(f'{quoted_column(name)} = {values[name]}' for name in order)}"
        )

    def _delete(self, rows: list[Row]) -> str:
        key = self.target.key
        table = quoted(self.target.name)
        if len(key) == 1:
            return f"delete from {table} where {listed(key)} in ({','.join(row.key for row in rows)})"  # noqa: S608  literals
        same = " or ".join(f"({listed(key)}) = {row.key}" for row in rows)
        return f"delete from {table} where {same}"  # noqa: S608  literals

    def _why(self, error: Exception) -> str:
        if isinstance(error, _ChangedError):
            return str(error)
        key = self.target.key
        if key and code_of(error) == _NULL and f"'{key[0]}'" in reason(error):
            return "a row with another key has its value of another unique index"
        return reason(error)

    # The table, and errors ----------------------------------------------------------------------------------

    def make_or_compare(self, schema: pa.Schema) -> None:
        """Make the table if it is missing, and compare it with the stream. Raises RidgelineError."""
        self._table = Table(self, self._rows, self._server.database)
        self._table.settle(schema, self._version)

    def _explained(self, error: Exception) -> Exception:
        """An error of the server: itself if it passes, else what it refuses, for reasons that no row has."""
        return error if passes(error) else self.refused(reason(error))

    def close(self) -> None:
        """Close the connection."""
        if self.connection is not None:
            connection, self.connection = self.connection, None
            try:
                connection.close()
            except (pymysql().MySQLError, OSError):
                connection._force_close()  # noqa: SLF001  it was closed already

    def is_unavailable(self, error: Exception) -> bool:
        """Whether the server is gone, ending, starting, full, busy, or read-only for a while."""
        return passes(error)


class MariaDbOutput(AtServer, TableRows):
    """Write the stream into a table of MariaDB or MySQL, exactly once.

    Rows of a window and its mark, a row of the table `ridgeline_marks` in the same database, are one
    transaction after the window's commit. Windows that wait are written together. Partitions make the text of
    the statements in parallel; one connection sends it, in the order of windows.

    `url`: `mariadb://USER@HOST:PORT/DATABASE`, better `env:NAME` or `file:PATH` if it holds a password.
    Without it the environment variable `MARIADB_URL` counts. `password`: the same. `connection`: settings of
    PyMySQL as texts, such as `{"ssl_ca": "/etc/ssl/db.pem", "ssl_verify_identity": "true"}`.
    `table`: its name, with a database or without. Its engine has transactions, as InnoDB.

    Without `key` rows are appended. With `key` a row replaces the one with its key: the last in the stream
    counts. These columns are a primary key, or have a unique index. `delete` names a column that is not
    written. Where it is true, or the text `d` or `delete`, the row of the key is deleted. Keys that the
    table's collation takes for equal are one key.

    A table that is missing is made, unless `create` is False. Types: `int` bigint, `float` double, `str`
    longtext, `bool` tinyint(1), `bytes` longblob, `Decimal` decimal, `date` date, `datetime` datetime(6).
    A `timedelta` is microseconds. Lists, structs and maps are json. Texts of the key are varchar. A
    `datetime` with a time zone is written in UTC.

    The session is strict and in UTC, whatever the server's defaults are. A value that the column would change
    is refused: cut, rounded, or a null that becomes now. A row that is refused ends the run, or is left out
    with `on_error=SKIP`, as of `PostgresOutput`. A NaN or an infinity is a dead letter.

    Partitions: by `key`, else round robin.

    Example:
        Without a server nothing is written, but the application can be validated.

        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators.mariadb import MariaDbOutput
        >>> from ridgeline.plan import find_faults
        >>> from ridgeline.testing import ListInput
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> app = Application("prices")
        >>> prices = app.add_operator("prices", ListInput(Price, [("IBM", 12.3)]))
        >>> table = app.add_operator("table", MariaDbOutput("prices", key="symbol"))
        >>> app.add_stream("prices", prices.output, table.input)
        >>> find_faults(app)
        []
    """

    table: str = Field(min_length=1)

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The values as literals of SQL. Raises ValueError for a row that no table can hold."""
        return literals(self.keyed(batch))

    def sink(self) -> Sink:
        """The driver's half."""
        return MariaDbSink(self.server, self.target)
