"""MariaDB and MySQL: an output that writes each window once, and an input of tables that are appended to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field
from typing_extensions import TypeVar

from ridgeline.api.errors import RidgelineError
from ridgeline.connect.sink import Batch, Sink
from ridgeline.connectors.sql.increasing import Counted, IncreasingSource
from ridgeline.connectors.sql.mariadb_server import (
    MARK,
    ROW_ERRORS,
    AtServer,
    Server,
    code_of,
    pymysql,
    reason,
)
from ridgeline.connectors.sql.mariadb_table import (
    ENGINE,
    Column,
    changed,
    column_type,
    fits,
    literal,
    literals,
    tuples,
)
from ridgeline.connectors.sql.servers import ServerInput, ServerRows, ServerSink
from ridgeline.connectors.sql.tables import DELETED, TableRows, Target

_STATEMENT_BYTES = 2**20
_KEYS_AT_ONCE = 200
_CHANGED = {1264, 1265, 1292, 1366, 1406, 1411}
"""Warnings of a value that is not as it was sent."""
_NULL = 1048
_COLUMNS = """select column_name, data_type, column_type, is_nullable = 'YES', column_default is null,
    extra, generation_expression, collation_name, datetime_precision
    from information_schema.columns where table_schema = %s and table_name = %s order by ordinal_position"""
_UNIQUE = """select index_name, column_name, sub_part from information_schema.statistics
    where table_schema = %s and table_name = %s and non_unique = 0"""


class Row(NamedTuple):
    """A row as a tuple of SQL, its key as one, whether it is deleted, and what is wrong with it."""

    text: str
    key: str
    gone: bool
    wrong: str | None = None


class _RefusedError(Exception):
    """A row cannot be written as it was sent."""


class MariaDbSink(ServerSink):
    """Writes rows by statements of many rows; one by one where one is refused."""

    marks: ClassVar[str] = """create table if not exists ridgeline_marks (
        name varchar(190) primary key, `window` bigint not null, epoch bigint not null,
        written timestamp not null default current_timestamp on update current_timestamp)
        engine = InnoDB character set utf8mb4 collate utf8mb4_bin"""
    quote: ClassVar[str] = MARK
    keeps: ClassVar[str] = "on duplicate key update epoch = epoch"

    def __init__(self, server: Server, target: Target) -> None:
        super().__init__(server, target)
        self._columns: Mapping[str, Column] = {}
        self._sole = True
        """The table has no unique index but that of the key."""

    # The database -------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Connect. Raises RidgelineError, errors of PyMySQL."""
        super().connect()
        [(version, self._packet)] = self.rows("select version(), @@max_allowed_packet")
        collation = "utf8mb4_nopad_bin" if "MariaDB" in version else "utf8mb4_0900_bin"
        self.options = f" engine = InnoDB character set utf8mb4 collate {collation}"

    def make_marks(self) -> None:
        """Make the table of marks, and this run's row. Two drivers may do it at once."""
        if not self._server.database:
            self.fault("`url` names no database", "name that of the table")
        super().make_marks()

    def make(self, name: str, statement: str) -> None:
        """Make a table, unless it is there: a user may not be allowed to make one."""
        if not self.rows(ENGINE, self._place(name)):
            self.execute(statement)
        self._check_engine(name)

    def begin(self, batches: Sequence[Batch]) -> None:
        """Begin a transaction; making a table would end it."""
        for schema, _ in groupby(batches, lambda one: one.schema):
            self.settle(schema)
        super().begin(batches)

    def close(self) -> None:
        """Close the connection."""
        if self.connection is not None:
            connection, self.connection = self.connection, None
            try:
                connection.close()
            except (pymysql().MySQLError, OSError):
                connection._force_close()  # noqa: SLF001  it was closed already

    # The table ----------------------------------------------------------------------------------------------

    def _place(self, table: str) -> tuple[str, str]:
        """A table's database and name."""
        database, dot, name = table.partition(".")
        return (database, name) if dot else (self._server.database, table)

    def columns(self) -> Mapping[str, Column]:
        """The columns of the table as they are there; none if it is missing."""
        found = {}
        for name, kind, full, nullable, bare, extra, generated, collation, digits in self.rows(
            _COLUMNS, self._place(self.target.name)
        ):
            made = "auto_increment" in (extra or "") or bool(generated)
            needs = bool(bare) and not nullable and not made
            found[name] = Column(
                kind.lower(), full, needs, bool(nullable), collation or "", 6 if digits is None else digits
            )
        return found

    def types(self, fields: Sequence[pa.Field]) -> Sequence[str]:
        """The types of the columns of a table that is made. Raises RidgelineError."""
        key = self.target.key
        return [column_type(one.type, keys=len(key) if one.name in key else 0) for one in fields]

    def compare_table(self, fields: Sequence[pa.Field], found: Mapping[str, Column]) -> None:
        """Compare engine, columns and key. Raises RidgelineError."""
        self._columns = found
        self._check_engine(self.target.name)
        self.compare(
            fields,
            found,
            fits=fits,
            add=lambda one: (
                f"alter table {self.table} add column {self.quoted(one.name)} {column_type(one.type)}"
            ),
            shown=lambda column: column.full,
            needed=[name for name, column in found.items() if column.needs],
        )
        if self.target.key:
            self._compare_key()

    def _check_engine(self, table: str) -> None:
        """Refuse a view, and a table without transactions: what failed there would stay there."""
        database, name = self._place(table)
        for kind, engine, transactions in self.rows(ENGINE, (database, name)):
            if kind not in {"BASE TABLE", "SYSTEM VERSIONED"}:
                self.fault(f"`{name}` is a {kind.lower()}", "write to the table beneath it")
            if transactions != "YES":
                what = f"the engine of `{name}`, {engine}, has no transactions, so rows could be twice"
                self.fault(what, f"alter table {self.quoted(database)}.{self.quoted(name)} engine = InnoDB")

    def _compare_key(self) -> None:
        """Refuse a key without a unique index, and one where another one could be meant."""
        indexes: dict[str, set[Any]] = {}
        for index, column, part in self.rows(_UNIQUE, self._place(self.target.name)):
            indexes.setdefault(index, set()).add((column, part))
        wanted = {(name, None) for name in self.target.key}
        others = [index for index, columns in indexes.items() if columns != wanted]
        if len(others) == len(indexes):
            self.refuse_key()
        self._sole = not others
        nullable = [name for name in self.target.key if self._columns[name].nullable]
        if others and nullable:
            what = f"column `{nullable[0]}` of the key may be null, and `{others[0]}` is unique, too"
            self.fault(what, "declare the column as not null")

    # Rows ---------------------------------------------------------------------------------------------------

    def row_errors(self) -> tuple[type[Exception], ...]:
        """The errors that a single row is to blame for."""
        return (_RefusedError,)

    def rows_of(self, batch: Batch) -> Sequence[Row]:
        """The rows of a batch: with a key those that count."""
        target, data = self.target, batch.data
        texts = tuples(data, [name for name in data.column_names if name != DELETED])
        gone = data.column(DELETED).to_pylist() if target.delete is not None else [False] * len(texts)
        keys = tuples(data, target.key) if target.key else texts
        rows = list(map(Row, texts, keys, gone, self._wrong(batch)))
        if not target.key:
            return rows
        last: dict[str, Row] = {}
        for row in rows:
            if row.wrong is None:
                last.pop(row.key, None)
                last[row.key] = row
        counting = list(last.values())
        if all(self._columns[name].exact for name in target.key):
            counting.sort(key=lambda row: not row.gone)  # else keys that differ may be equal: in order
        return [row for row in rows if row.wrong is not None] + counting

    def refuse_row(self, batch: Batch, row: Row, error: Exception) -> None:
        """Leave out a row. Raises UnwritableError."""
        self.refuse(batch, row.text, str(error))

    def _wrong(self, batch: Batch) -> list[str | None]:
        """Of each row, which value the server would change without a word; None: it changes none."""
        data, reasons = batch.data, pa.nulls(len(batch.data), pa.string())
        for field in self.written(batch.schema):
            for found, what in changed(self._columns[field.name], field.type, data.column(field.name)):
                mask = pc.fill_null(found, False)  # noqa: FBT003  the value
                if self.target.delete is not None and field.name not in self.target.key:
                    mask = pc.and_(mask, pc.invert(data.column(DELETED)))
                reasons = pc.if_else(mask, f"`{field.name}` {what}", reasons)
        found_reasons: list[str | None] = reasons.to_pylist()
        return found_reasons

    def write_rows(self, schema: pa.Schema, rows: Sequence[Row]) -> None:
        """Write rows, or none of them. Raises _RefusedError, errors of PyMySQL."""
        if wrong := next((row.wrong for row in rows if row.wrong is not None), None):
            raise _RefusedError(wrong)
        names = [field.name for field in self.written(schema)]
        self.execute("savepoint ridgeline_rows")
        try:
            for _, run in groupby(rows, lambda row: row.gone):
                for part in self._parts(list(run)):
                    self._send(names, part)
        except (pymysql().MySQLError, _RefusedError) as error:
            if not isinstance(error, _RefusedError) and code_of(error) not in ROW_ERRORS:
                raise
            self.execute("rollback to savepoint ridgeline_rows")
            raise _RefusedError(self._why(error)) from error

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

    def _send(self, names: Sequence[str], rows: Sequence[Row]) -> None:
        """Send a statement. Raises errors of PyMySQL, and `_RefusedError`."""
        statement = self._delete(rows) if rows[0].gone else self._insert(names, rows)
        if len(rows) == 1 and len(statement.encode()) + 1024 > self._packet:  # it would hang up
            raise _RefusedError(f"it is larger than the server's max_allowed_packet, {self._packet}")
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            warned = cursor.warning_count
        if warned:
            for _, code, text in self.rows("show warnings"):
                if code in _CHANGED:
                    raise _RefusedError(text)

    def _insert(self, names: Sequence[str], rows: Sequence[Row]) -> str:
        """The statement that inserts rows, by key or without, for `_send`."""
        target = self.target
        statement = f"insert into {self.table} ({self.listed(names)}) values "  # noqa: S608  literals
        statement += ",".join(row.text for row in rows)
        if not target.key:
            return statement
        values = {name: f"values({self.quoted(name)})" for name in names}
        if not self._sole:  # the row that is there may have another key: then null, which is refused
            same = " and ".join(f"{self.quoted(name)} = {values[name]}" for name in target.key)
            values[target.key[0]] = f"if({same}, {values[target.key[0]]}, null)"
        order = [*target.key, *(name for name in names if name not in target.key)]
        return (
            f"{statement} on duplicate key update "
            f"{', '.join(f'{self.quoted(name)} = {values[name]}' for name in order)}"
        )

    def _delete(self, rows: Sequence[Row]) -> str:
        columns = self.listed(self.target.key)
        if len(self.target.key) == 1:
            return f"delete from {self.table} where {columns} in ({','.join(row.key for row in rows)})"  # noqa: S608  literals
        same = " or ".join(f"({columns}) = {row.key}" for row in rows)
        return f"delete from {self.table} where {same}"  # noqa: S608  literals

    def _why(self, error: Exception) -> str:
        if isinstance(error, _RefusedError):
            return str(error)
        key = self.target.key
        if key and code_of(error) == _NULL and f"'{key[0]}'" in reason(error):
            return "a row with another key has its value of another unique index"
        return reason(error)


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
        >>> from ridgeline.connectors.sql import MariaDbOutput
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


T = TypeVar("T", default=Any)
_CHUNK_ROWS = 10_000
_FLOAT = 4


class MariaDbRows(ServerRows):
    """Rows of MariaDB."""

    mark: ClassVar[str] = MARK

    def source(self) -> IncreasingSource:
        """The driver's half of the input."""
        return MariaDbSource(self)

    def ask(self, connection: Any, query: str) -> Iterator[Sequence[Sequence[Any]]]:
        """Chunks of rows. Raises errors of PyMySQL."""
        with connection.cursor(pymysql().cursors.SSCursor) as cursor:
            cursor.execute(query)
            while chunk := cursor.fetchmany(_CHUNK_ROWS):
                yield chunk

    def selected(self, connection: Any, names: Sequence[str]) -> list[str]:
        """Columns; the text of a float has 6 digits, so it is made a double."""
        with connection.cursor() as cursor:
            cursor.execute("set session net_write_timeout = 3600")  # while tuples are processed
            found = super().selected(connection, names)
            cursor.execute(f"select {', '.join(found)} from {self.sql} limit 0")  # noqa: S608  no values
            kinds = [description[1] for description in cursor.description]
        return [
            f"{column} * 1e0" if kind == _FLOAT else column for column, kind in zip(found, kinds, strict=True)
        ]


class MariaDbInput(AtServer, ServerInput[T]):
    """Emit the rows of a table that is appended to, each exactly once, in the order of an increasing column.

    `table`: its name, with a database or without; or `query`, a SELECT in its place. `column`: a column of
    integers that grows with each row, as with `auto_increment`. An index on it is needed. `schema`: the type
    of the tuples; its fields are columns. `shards`: the number of source partitions, each with a share of the
    rows. As many partitions of the operator read at once.

    A transaction that took its numbers first may be committed last. A row is read once all rows below it are
    committed or gone, and not before `lag`. So nothing is passed over. A long transaction that has written
    to the table holds later rows back. Rows whose number was given by hand, below one that was read, are
    missed. Rows that are changed or deleted are not seen again.

    Values that do not fit the schema are errors, or dead letters with `on_error=SKIP`. A datetime column has
    no time zone and is read as UTC; a timestamp column is read in UTC.

    `url`, `password` and `connection` are those of `MariaDbOutput`; all hosts connect. `begin` may be
    "earliest" or "latest".

    Example:
        Without a server nothing is read, but the application can be validated.

        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.connectors.sql import MariaDbInput
        >>> from ridgeline.plan import find_faults
        >>> from ridgeline.testing import CollectorSink
        >>> class Order(NamedTuple):
        ...     id: int
        ...     cents: int
        >>> app = Application("orders")
        >>> orders = app.add_operator("orders", MariaDbInput("orders", schema=Order))
        >>> sink = app.add_operator("sink", CollectorSink(Order))
        >>> app.add_stream("orders", orders.output, sink.input)
        >>> find_faults(app)
        []
    """

    read_by = MariaDbRows


class MariaDbSource(IncreasingSource):
    """Compares what is committed with what is there: a row that only an unfinished transaction sees holds up.

    Two connections ask. One reads what is committed, the other one what is not, too. A row of a transaction
    is there from its insertion on; `lag` is for the moment between its number and that.
    """

    def __init__(self, rows: MariaDbRows) -> None:
        super().__init__(rows)
        self._server: Any = rows.server

    def connect(self) -> None:
        """Connect twice, and check the engine. Raises RidgelineError, SourceUnavailableError."""
        self._committed, self._connection = self.connected(), self.connected()
        level = "set session transaction isolation level read"
        self.ask(f"{level} committed", self._committed)
        self.ask(f"{level} uncommitted")
        self._check_engine()

    def _check_engine(self) -> None:
        """Refuse an engine whose rows cannot be seen before they are committed."""
        table = self._rows.table
        if table is None:
            return
        database, dot, name = table.partition(".")
        place = (database, name) if dot else (self._server.database, table)
        found = self.ask(ENGINE % tuple(map(literal, place)))
        if found and found[2] == "YES" and found[1] != "InnoDB":
            msg = f"`{self._context.operator}` cannot read table {table}: rows of the engine {found[1]} "
            msg += "cannot be seen before they are committed, so some could be passed over; "
            raise RidgelineError(msg + "use InnoDB")

    def next_rows(self, start: int, end: int, most: int) -> Counted | None:
        """The rows, if those that are committed are all that are there."""
        query = self._rows.count_query(start, end, most, ", sum(n), bit_xor(n)")
        committed = self.ask(query, self._committed)
        return Counted(*committed[:3]) if committed == self.ask(query) else None
