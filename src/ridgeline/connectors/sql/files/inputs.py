"""Inputs that read a database in a file: SQLite, DuckDB."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field
from typing_extensions import TypeVar

from ridgeline.connect.extras import library_faults
from ridgeline.connectors.sql.files import duckdb_output, sqlite_output
from ridgeline.connectors.sql.files.duckdb_output import duckdb
from ridgeline.connectors.sql.files.table_output import InFile
from ridgeline.connectors.sql.increasing import IncreasingInput, IncreasingSource, Rows

T = TypeVar("T", default=Any)
_BUSY_SECONDS = 10.0
_CHUNK_ROWS = 10_000


@dataclass(frozen=True)
class FileRows(Rows):
    """Rows of a database in a file, which is opened read-only for each question and closed again."""

    dots: ClassVar[bool] = False
    path: str

    @property
    def base(self) -> str:
        """The file."""
        return self.path

    def source(self) -> IncreasingSource:
        """The driver's half of the input."""
        return FileSource(self)


class FileSource(IncreasingSource):
    """Asks for numbers: writers of a file take turns, so what is committed is in order."""

    poll_seconds: ClassVar[float] = 0.5


class FileInput(InFile, IncreasingInput[T]):
    """Reads a table, or a query, of a database in a file."""

    path: str | Path = Field(kw_only=True)


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
            while chunk := cursor.fetchmany(_CHUNK_ROWS):
                yield chunk

    def passes(self, error: Exception) -> bool | None:
        """Whether the file is locked, or not there."""
        return sqlite_output.waits(error) if isinstance(error, (sqlite3.Error, OSError)) else None


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
        for start in range(0, len(table), _CHUNK_ROWS):
            part = table.slice(start, _CHUNK_ROWS)
            yield list(zip(*(column.to_pylist() for column in part.columns), strict=True))

    def passes(self, error: Exception) -> bool | None:
        """Whether the file is open elsewhere, or not there."""
        return duckdb_output.waits(error) if isinstance(error, (duckdb().Error, OSError)) else None
