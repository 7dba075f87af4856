"""Write into a table of DuckDB, exactly once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.connect.extras import library
from ridgeline.connect.sink import Batch, Mark, Sink, SinkContext, SinkUnavailableError
from ridgeline.operators.databases.tables import DELETED
from ridgeline.operators.sql_files.table_output import FileSink, TableOutput, folded, listed, quoted

_MARKS = 'create table if not exists ridgeline_marks (name text primary key, "window" bigint, epoch bigint)'
_NUMBER = "ridgeline_number"
_MOMENT = 1.0  # seconds
_SIGNED = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_WHOLE = {*_SIGNED, *(f"U{name}" for name in _SIGNED), "BOOLEAN"}


def duckdb() -> Any:
    """The library. Raises RidgelineError if it is not installed."""
    return library("duckdb", "DuckDB cannot be imported", "query")


def _is_cut(kind: pa.DataType, column: str) -> bool:
    """Whether DuckDB would round values of an Arrow type for a column of its type, or cut them, unasked."""
    is_ = pa.types
    if is_.is_dictionary(kind):
        return _is_cut(kind.value_type, column)
    if is_.is_floating(kind) or is_.is_decimal(kind):
        return column in _WHOLE
    if is_.is_integer(kind):
        return column == "BOOLEAN"
    return is_.is_timestamp(kind) and column in {"DATE", "TIME"}


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
        >>> from ridgeline.operators.sql_files import DuckDbOutput
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

    def open(self, context: SinkContext) -> None:
        """Make what is missing, compare the columns. Raises RidgelineError."""
        super().open(context)
        self._begin()
        first = [context.mark_name, -1, context.epoch]
        self.connection.execute("insert into ridgeline_marks values (?, ?, ?) on conflict do nothing", first)
        if context.schema is not None:
            self.make_or_compare(context.schema)
        self.close()

    def _begin(self) -> None:
        if self.connection is None:
            self.connection = self._opened()
            self.connection.execute(_MARKS)

    def _opened(self) -> Any:
        """A connection. Other threads of this process have the file for moments: a free one is looked for."""
        clock = SystemClock()
        given_up = clock.monotonic() + _MOMENT
        while True:
            try:
                return duckdb().connect(self.path)
            except self._by_thread():
                if clock.monotonic() > given_up:
                    raise
                clock.wait(_MOMENT / 500)

    def _by_thread(self) -> tuple[type[Exception], ...]:
        """The errors while another thread of this process opens the file, closes it or reads it."""
        library = duckdb()
        return library.ResourceInUseException, library.ConnectionException

    def mark(self) -> Mark | None:
        """The row of this run."""
        self._begin()
        try:
            return self._read_mark()
        finally:
            self.close()

    def _read_mark(self) -> Mark | None:
        query = 'select "window", epoch from ridgeline_marks where name = ?'
        found = self.connection.execute(query, [self.context.mark_name]).fetchall()
        return Mark(*found[0]) if found else None

    def write(self, batches: Sequence[Batch], mark: Mark) -> None:
        """Write the rows and the mark. Raises RidgelineError for rows that the table refuses."""
        library = duckdb()
        self._begin()
        try:
            self.connection.execute("begin")
            touch = "update ridgeline_marks set epoch = epoch where name = ?"  # another writer fails here
            self.connection.execute(touch, [self.context.mark_name])
            unwritten = self.context.unwritten(batches, self._read_mark())
            for _, group in groupby(unwritten, lambda one: one.schema):
                self._write_alike(list(group))
            update = 'update ridgeline_marks set "window" = ?, epoch = ? where name = ?'
            if self.connection.execute(update, [*mark, self.context.mark_name]).fetchone() == (0,):
                raise self.context.unmarked(self.place())
            self.connection.execute("commit")
        except (library.DataError, library.IntegrityError, library.ProgrammingError) as error:
            self.close()
            if (found := self.mark()) is not None and found.window >= batches[0].window:
                msg = f"another driver has written window {found.window} meanwhile"
                raise SinkUnavailableError(msg) from error
            windows = f"windows {batches[0].window} to {batches[-1].window}"
            msg = f"`{self.context.operator}` cannot write {windows} to {self.place()}: {error}; mend it "
            msg += "upstream or in the table, then start it again: nothing that was committed is lost"
            raise RidgelineError(msg) from error
        finally:
            self.close()  # a transaction that was not committed is gone with it

    def make_or_compare(self, schema: pa.Schema) -> None:
        """Make the table if it is missing, and compare its columns."""
        target, fields = self.target, self.written(schema)
        query = "select table_name, column_name, data_type from information_schema.columns "
        query += "where table_catalog = current_database() and table_schema = current_schema()"
        own = [found for found in self.connection.execute(query).fetchall() if self._is_own(found[0])]
        found = {folded(name): kind for _, name, kind in own}
        if not found:
            self.refuse_missing()
            self.connection.register("ridgeline_schema", pa.schema(fields).empty_table())
            kinds = self.connection.execute("describe select * from ridgeline_schema").fetchall()
            self.connection.unregister("ridgeline_schema")
            columns = [f"{quoted(name)} {kind}" for name, kind, *_ in kinds]
            if target.key:
                columns.append(f"primary key ({listed(target.key)})")
            self.connection.execute(f"create table {quoted(target.name)} ({', '.join(columns)})")
            found = {folded(name): kind for name, kind, *_ in kinds}
        self.compare_folded(fields, found, lambda kind, column: not _is_cut(kind, column))

    def _is_own(self, name: str) -> bool:
        return folded(name) == folded(self.target.name)

    def _write_alike(self, batches: list[Batch]) -> None:
        """Write batches of the same columns: of each key the last row."""
        self.make_or_compare(batches[0].schema)
        rows = pa.concat_tables([batch.data for batch in batches])
        names = [name for name in rows.column_names if name != DELETED]
        table = quoted(self.target.name)
        if self.target.key:
            rows = rows.append_column(_NUMBER, pa.array(range(len(rows)), pa.int64()))
        self.connection.register("ridgeline_waiting", rows)
        last = "ridgeline_waiting"
        end = ""
        if self.target.key:
            keys = listed(self.target.key)
            newest = f"row_number() over (partition by {keys} order by {_NUMBER} desc) = 1"
            last = f"(from ridgeline_waiting qualify {newest}) as last"
            others = [quoted(name) for name in names if name not in self.target.key]
            change = f"update set {', '.join(f'{name} = excluded.{name}' for name in others)}"
            end = f" on conflict ({keys}) do {change if others else 'nothing'}"
        if self.target.delete is not None:
            same = " and ".join(f"{table}.{quoted(name)} = last.{quoted(name)}" for name in self.target.key)
            gone = f"delete from {table} using {last} where last.{DELETED} and {same}"  # noqa: S608  identifiers
            self.connection.execute(gone)
            last += f" where not last.{DELETED}"
        columns = listed(names)
        insert = f"insert into {table} ({columns}) select {columns} from {last}{end}"  # noqa: S608  identifiers
        self.connection.execute(insert)
        self.connection.unregister("ridgeline_waiting")

    def is_unavailable(self, error: Exception) -> bool:
        """Whether the file is open elsewhere or by another thread, or its disk is full or gone."""
        library = duckdb()
        others = (library.IOException, library.TransactionException, OSError)
        return isinstance(error, (*self._by_thread(), *others))
