"""Inputs that read a database in a file: SQLite, DuckDB."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field
from typing_extensions import TypeVar

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.files import local_path
from ridgeline.connect.datasets import Dataset, file_datasets
from ridgeline.connect.extras import library_faults
from ridgeline.connect.reader import SourceReader
from ridgeline.connect.source import Source
from ridgeline.operators.databases.increasing import (
    Counted,
    IncreasingInput,
    IncreasingReader,
    IncreasingSource,
    Rows,
    count_query,
)
from ridgeline.operators.sql_files.duckdb_output import duckdb
from ridgeline.operators.sql_files.table_output import quoted

T = TypeVar("T", default=Any)


_ROWS = "ridgeline_rows"


def column_of_rows(name: str) -> str:
    """A column in SQL. Without the name before it SQLite takes one that is not there for a text."""
    return f"{_ROWS}.{quoted(name)}"


@dataclass(frozen=True)
class FileRows(Rows):
    """Rows of a database in a file, which is opened read-only for each question and closed again."""

    path: str
    waits: ClassVar[re.Pattern[str]]
    """Errors that pass: the file is locked, or not there."""

    @property
    def base(self) -> str:
        """The file."""
        return self.path

    @property
    def sql(self) -> str:
        """The table, or the query as one."""
        return f"{quoted(self.table) if self.table else f'({self.query})'} as {_ROWS}"

    @property
    def number_column(self) -> str:
        """The column that grows, in SQL."""
        return column_of_rows(self.column)

    def passes(self, error: Exception) -> bool | None:
        """Whether it is an error that passes."""
        if isinstance(error, RidgelineError):
            return None
        return isinstance(error, OSError) or self.waits.search(str(error)) is not None

    def ask(self, query: str) -> Iterator[Sequence[Sequence[Any]]]:
        """Chunks of rows. Raises errors of the library."""
        raise NotImplementedError

    def explained(self, operator: str, query: str) -> Iterator[Sequence[Sequence[Any]]]:
        """Chunks of rows. Raises RidgelineError, SourceUnavailableError."""
        with self.explaining(operator):
            yield from self.ask(query)


class FileInput(IncreasingInput[T]):
    """Reads a table, or a query, of a database in a file."""

    path: str | Path = Field(kw_only=True)
    rows: ClassVar[type[FileRows]]

    def settle_properties(self) -> None:
        """Make a relative path absolute."""
        super().settle_properties()
        self.path = local_path(str(self.path))

    def datasets(self) -> list[Dataset]:
        """The table in its file, as `ridgeline.connect.datasets` names it."""
        return [
            Dataset(place, f"{path}/{self.table or '(query)'}") for place, path in file_datasets(self.path)
        ]

    def source(self) -> Source:
        """The driver's half."""
        return FileSource(self._rows, self.name_of_rows)

    def reader(self) -> SourceReader:
        """The container's half."""
        return FileReader(self._rows)

    @property
    def _rows(self) -> FileRows:
        return self.rows(self.table, self.query, self.column, self.shards, str(self.path))


class FileSource(IncreasingSource):
    """Asks for numbers: writers of a file take turns, so what is committed is in order."""

    poll_seconds: ClassVar[float] = 0.5

    def __init__(self, rows: FileRows, name: str) -> None:
        super().__init__(name, rows.shards)
        self._rows = rows

    def least(self) -> int | None:
        """The least number."""
        return self._number("min")

    def greatest(self) -> int | None:
        """The greatest number."""
        return self._number("max")

    def _number(self, function: str) -> int | None:
        rows = self._rows
        [found] = self._ask(f"select {function}({rows.number_column}) from {rows.sql}")  # noqa: S608  names
        return rows.number(found, self._context.operator)

    def next_rows(self, start: int, end: int, most: int) -> Counted:
        """All that are there."""
        rows = self._rows
        return Counted(*self._ask(count_query(rows.number_column, rows.sql, start, end, most)))

    def _ask(self, query: str) -> Sequence[Any]:
        chunks = list(self._rows.explained(self._context.operator, query))
        return chunks[0][0]


class FileReader(IncreasingReader):
    """Reads rows between two numbers."""

    def __init__(self, rows: FileRows) -> None:
        super().__init__(rows.shards)
        self._rows = rows

    def rows(self, start: int, end: int, shard: int) -> Iterator[Sequence[Sequence[Any]]]:
        """Chunks of rows. Raises RidgelineError, SourceUnavailableError."""
        rows, count = self._rows, self._shards
        names = ", ".join(map(column_of_rows, [rows.column, *self._schema.names]))
        which = between(rows, start, end)
        if count > 1:  # a remainder has the sign of the number
            which += f" and ({rows.number_column} % {count} + {count}) % {count} = {shard}"
        query = f"select {names} from {rows.sql} where {which} order by {rows.number_column}"  # noqa: S608  names
        yield from self._rows.explained(self._context.operator.name, query)


def between(rows: FileRows, start: int, end: int) -> str:
    """A condition of SQL: the number is after `start`, up to `end`."""
    # SQLite has no integer before the least of 64 bits, which may be the first
    return f"{rows.number_column} >= {int(start) + 1} and {rows.number_column} <= {int(end)}"


_BUSY_SECONDS = 10.0
_CHUNK_ROWS = 10_000


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
        >>> from ridgeline.operators.sql_files import SqliteInput
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


class SqliteRows(FileRows):
    """A file of SQLite."""

    waits: ClassVar[re.Pattern[str]] = re.compile("locked|busy|unable to open|disk I/O|readonly")

    def ask(self, query: str) -> Iterator[Sequence[Sequence[Any]]]:
        """Chunks of rows. Raises errors of sqlite3."""
        address = f"{Path(self.path).as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS)) as connection:
            cursor = connection.execute(query)
            while chunk := cursor.fetchmany(_CHUNK_ROWS):
                yield chunk


SqliteInput.rows = SqliteRows


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
        >>> from ridgeline.operators.sql_files import DuckDbInput
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


class DuckDbRows(FileRows):
    """A file of DuckDB."""

    waits: ClassVar[re.Pattern[str]] = re.compile(
        "IO Error|Cannot open file|read-only|different configuration|Unique file handle"
    )

    def ask(self, query: str) -> Iterator[Sequence[Sequence[Any]]]:
        """Chunks of rows, by way of Arrow: it has all types. Raises errors of DuckDB."""
        with closing(duckdb().connect(self.path, read_only=True)) as connection:
            table = connection.sql(query).to_arrow_table()
        for start in range(0, len(table), _CHUNK_ROWS):
            part = table.slice(start, _CHUNK_ROWS)
            yield list(zip(*(column.to_pylist() for column in part.columns), strict=True))


DuckDbInput.rows = DuckDbRows
