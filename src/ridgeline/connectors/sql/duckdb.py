"""DuckDB in files: an output that writes each window once, and an input of tables that are appended to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, ClassVar

import pyarrow as pa

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.connect.extras import library, library_faults
from ridgeline.connect.sink import Batch, Mark, Sink, SinkContext, SinkUnavailableError
from ridgeline.connectors.sql.files import CHUNK_ROWS, FileInput, FileRows, FileSink, T, TableOutput, folded
from ridgeline.connectors.sql.increasing import Rows
from ridgeline.connectors.sql.tables import DELETED, listed, merged
from ridgeline.operators._kinds import family

_NUMBER = "ridgeline_number"
_WAITING = "ridgeline_waiting"
_MOMENT = 1.0  # seconds
_SIGNED = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_WHOLE = {*_SIGNED, *(f"U{name}" for name in _SIGNED), "BOOLEAN"}
_CUT: Mapping[str, set[str]] = {
    "floating": _WHOLE,
    "decimal": _WHOLE,
    "integer": {"BOOLEAN"},
    "timestamp": {"DATE", "TIME"},
}
"""The types of columns for which DuckDB would round values, or cut them, unasked, by the values' family."""


def duckdb() -> Any:
    """The library. Raises RidgelineError if it is not installed."""
    return library("duckdb", "DuckDB cannot be imported", "query")


def _by_thread() -> tuple[type[Exception], ...]:
    """The errors while another thread of this process opens a file, closes it or reads it."""
    library = duckdb()
    return library.ResourceInUseException, library.ConnectionException


def waits(error: BaseException) -> bool:
    """Whether a file is open elsewhere or by another thread, not there, or its disk is full or gone."""
    library = duckdb()
    others = (library.IOException, library.TransactionException, OSError)
    return isinstance(error, (*_by_thread(), *others))


class DuckDbOutput(TableOutput):
    """Write the stream into a table of DuckDB, exactly once.

    Rows of a window and its mark, a row of the table `ridgeline_marks`, are one transaction after the
    window's commit. The driver writes, so `path` is a file on its host. One process at a time can have a file
    of DuckDB open: it is opened for each write, and closed. While another process has it open, windows wait.

    `key`, `delete` and `create` are those of `SqliteOutput`. A table that is missing is made with the types
    that DuckDB has for those of the stream. A column of one that is there, whose type would round or cut
    values, is refused: whole numbers for floats, dates for times.

    A row that a constraint refuses ends the run, also with `on_error=SKIP`: DuckDB has no savepoints.

    Partitions: by `key`, else round robin.

    Example:
        >>> import tempfile
        >>> import duckdb
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.connectors.sql import DuckDbOutput
        >>> from ridgeline.testing import ListInput, run_local
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = f"{folder.name}/prices.duckdb"
        >>> app = Application("prices")
        >>> rows = [("IBM", 12.3), ("SAP", 9.5), ("IBM", 13.0)]
        >>> prices = app.add_operator("prices", ListInput(Price, rows))
        >>> table = app.add_operator("table", DuckDbOutput(path=path, table="prices", key="symbol"))
        >>> app.add_stream("prices", prices.output, table.input)
        >>> run = run_local(app)
        >>> with duckdb.connect(path) as connection:
        ...     connection.execute("select * from prices order by symbol").fetchall()
        [('IBM', 13.0), ('SAP', 9.5)]
        >>> folder.cleanup()
    """

    def sink(self) -> Sink:
        """The driver's half."""
        return DuckDbSink(str(self.path), self.target)


class DuckDbSink(FileSink):
    """Opens the file for each write: rows and the mark are one transaction."""

    first_retry_seconds = 0.05
    most_retry_seconds = 0.5  # to open a file costs little, and who else has it closes it soon
    marks: ClassVar[str] = (
        'create table if not exists ridgeline_marks (name text primary key, "window" bigint, epoch bigint)'
    )

    # The database -------------------------------------------------------------------------------------------

    def open(self, context: SinkContext) -> None:
        """Make what is missing, compare the columns. Raises RidgelineError."""
        super().open(context)
        self.close()

    def connect(self) -> None:
        """Open the file. Other threads of this process have it for moments: a free one is looked for."""
        clock = SystemClock()
        given_up = clock.monotonic() + _MOMENT
        while self.connection is None:
            try:
                self.connection = duckdb().connect(self.path)
            except _by_thread():
                if clock.monotonic() > given_up:
                    raise
                clock.wait(_MOMENT / 500)

    def execute(self, statement: str, values: Sequence[Any] = ()) -> int:
        """How many rows an update has found. Raises errors of DuckDB."""
        found = self.connection.execute(statement, list(values)).fetchall()
        return int(found[0][0]) if found else 0

    def rows(self, query: str, values: Sequence[Any] = ()) -> Sequence[Any]:
        """The rows of an answer. Raises errors of DuckDB."""
        found: Sequence[Any] = self.connection.execute(query, list(values)).fetchall()
        return found

    def mark(self) -> Mark | None:
        """The row of this run."""
        self.connect()
        try:
            return self.read_mark()
        finally:
            self.close()

    def begin(self, batches: Sequence[Batch]) -> None:
        """Open the file, and begin a transaction: another writer fails here."""
        self.connect()
        super().begin(batches)
        self._settled = None  # others may have changed the table while the file was closed
        touch = "update ridgeline_marks set epoch = epoch where name = ?"
        self.execute(touch, (self.context.mark_name,))

    def write(self, batches: Sequence[Batch], mark: Mark) -> None:
        """Write the rows and the mark. Raises RidgelineError for rows that the table refuses."""
        try:
            super().write(batches, mark)
        finally:
            self.close()  # a transaction that was not committed is gone with it

    def explained(self, error: Exception, batches: Sequence[Batch]) -> Exception:
        """What the table refuses the user has to fix, unless another driver has written it."""
        library = duckdb()
        if not isinstance(error, (library.DataError, library.IntegrityError, library.ProgrammingError)):
            return error
        if not batches:
            return self.refused(str(error))
        self.close()
        if (found := self.mark()) is not None and found.window >= batches[0].window:
            return SinkUnavailableError(f"another driver has written window {found.window} meanwhile")
        windows = f"windows {batches[0].window} to {batches[-1].window}"
        msg = f"`{self.context.operator}` cannot write {windows} to {self.place()}: {error}; fix it upstream "
        msg += "or in the table, then start it again: nothing that was committed is lost"
        return RidgelineError(msg)

    def is_unavailable(self, error: Exception) -> bool:
        """Whether the file is open elsewhere, or its disk is full or gone."""
        return waits(error)

    # The table ----------------------------------------------------------------------------------------------

    def columns(self) -> Mapping[str, str]:
        """The columns of the table with their types; none if it is missing."""
        query = "select table_name, column_name, data_type from information_schema.columns "
        query += "where table_catalog = current_database() and table_schema = current_schema()"
        own = folded(self.target.name)
        return {name: kind for table, name, kind in self.rows(query) if folded(table) == own}

    def types(self, fields: Sequence[pa.Field]) -> Sequence[str]:
        """The types that DuckDB has for those of the stream."""
        self.connection.register("ridgeline_schema", pa.schema(fields).empty_table())
        kinds = [kind for _, kind, *_ in self.rows("describe select * from ridgeline_schema")]
        self.connection.unregister("ridgeline_schema")
        return kinds

    def fits(self, kind: pa.DataType, column: str) -> bool:
        """Whether DuckDB neither rounds nor cuts values of a type for a column."""
        return column not in _CUT.get(family(kind), ())

    def write_alike(self, batches: Sequence[Batch]) -> None:
        """Write batches of the same columns: of each key the last row."""
        rows = pa.concat_tables([batch.data for batch in batches])
        names = [name for name in rows.column_names if name != DELETED]
        key, columns = self.target.key, listed(names)
        statements = [f"insert into {self.table} ({columns}) select {columns} from {_WAITING}"]  # noqa: S608  identifiers
        if key:
            rows = rows.append_column(_NUMBER, pa.array(range(len(rows)), pa.int64()))
            newest = f"row_number() over (partition by {listed(key)} order by {_NUMBER} desc) = 1"
            last = f"(from {_WAITING} qualify {newest}) as last"
            deleted = None if self.target.delete is None else DELETED
            statements = merged(self.table, key, names, last, deleted)
        self.connection.register(_WAITING, rows)
        for statement in statements:
            self.execute(statement)
        self.connection.unregister(_WAITING)


class DuckDbInput(FileInput[T]):
    """Emit the rows of a table of DuckDB that is appended to, each exactly once, in the order of a column.

    `path`: the file, which all hosts that read need. It is opened read-only for each window, and closed.
    While a process has it open for writing, the input waits; while the input reads, writers wait.

    `table`, or `query`, a SELECT in its place. `column`: a column of integers that grows with each row, as
    from a sequence. Several connections of one process may commit in another order than that of their
    numbers; then rows are missed. `schema` and `shards`: as of `SqliteInput`.

    Example:
        >>> import duckdb, tempfile
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.connectors.sql import DuckDbInput
        >>> from ridgeline.testing import CollectorSink, run_local
        >>> class Order(NamedTuple):
        ...     id: int
        ...     cents: int
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = f"{folder.name}/orders.duckdb"
        >>> with duckdb.connect(path) as connection:
        ...     made = connection.execute("create table orders as select 1 as id, 250 as cents")
        >>> app = Application("orders")
        >>> orders = app.add_operator("orders", DuckDbInput("orders", path=path, schema=Order, until="end"))
        >>> sink = app.add_operator("sink", CollectorSink(Order))
        >>> app.add_stream("orders", orders.output, sink.input)
        >>> run_local(app).collected("sink")
        [Order(id=1, cents=250)]
        >>> folder.cleanup()
    """

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a host without DuckDB."""
        return [*super().property_faults(), *library_faults("path", self.path, duckdb)]

    def rows(self) -> Rows:
        """The rows that are read."""
        return DuckDbRows(self.table, self.query, self.column, self.shards, 0.0, str(self.path))


class DuckDbRows(FileRows):
    """Rows of a file of DuckDB."""

    def ask(self, connection: Any, query: str) -> Iterator[Sequence[Sequence[Any]]]:
        """Chunks of rows, by way of Arrow: it has all types. Raises errors of DuckDB."""
        with closing(duckdb().connect(self.path, read_only=True)) as opened:
            table = opened.sql(query).to_arrow_table()
        for start in range(0, len(table), CHUNK_ROWS):
            part = table.slice(start, CHUNK_ROWS)
            yield list(zip(*(column.to_pylist() for column in part.columns), strict=True))

    def passes(self, error: Exception) -> bool | None:
        """Whether the file is open elsewhere, or not there."""
        return waits(error) if isinstance(error, (duckdb().Error, OSError)) else None
