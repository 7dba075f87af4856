"""The base of inputs that read a database in a file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pydantic import Field
from typing_extensions import TypeVar

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.files import local_path
from ridgeline.connect.datasets import Dataset, file_datasets
from ridgeline.connect.reader import SourceReader
from ridgeline.connect.source import Source, SourceUnavailableError
from ridgeline.operators.databases.increasing import IncreasingInput, IncreasingReader, IncreasingSource
from ridgeline.operators.sql_files.table_output import quoted

T = TypeVar("T", default=Any)


_ROWS = "ridgeline_rows"


def column_of_rows(name: str) -> str:
    """A column in SQL. Without the name before it SQLite takes one that is not there for a text."""
    return f"{_ROWS}.{quoted(name)}"


class Rows(NamedTuple):
    """The rows that are read, and where they are."""

    path: str
    table: str | None
    query: str | None
    column: str
    shards: int

    @property
    def name(self) -> str:
        """For people."""
        return f"{f'table {self.table}' if self.table else 'the query'} of {self.path}"

    @property
    def sql(self) -> str:
        """The table, or the query as one."""
        return f"{quoted(self.table) if self.table else f'({self.query})'} as {_ROWS}"

    @property
    def number(self) -> str:
        """The column that grows, in SQL."""
        return column_of_rows(self.column)


class Database:
    """Asks a file, which it opens read-only for each question and closes again."""

    waits: ClassVar[re.Pattern[str]]
    """Errors that pass: the file is locked, or not there."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def ask(self, query: str) -> Iterator[Sequence[Sequence[Any]]]:
        """Chunks of rows. Raises errors of the library."""
        raise NotImplementedError

    def explained(self, operator: str, query: str) -> Iterator[Sequence[Sequence[Any]]]:
        """Chunks of rows. Raises RidgelineError, SourceUnavailableError."""
        try:
            yield from self.ask(query)
        except (RidgelineError, GeneratorExit):
            raise
        except Exception as error:
            if isinstance(error, OSError) or self.waits.search(str(error)):
                msg = f"{self.rows.name} is unavailable: {error}"
                raise SourceUnavailableError(msg) from error
            msg = f"`{operator}` cannot read {self.rows.name}: {error}; check `table`, `query`, `column` and "
            raise RidgelineError(msg + "`schema`") from error


class FileInput(IncreasingInput[T]):
    """Reads a table, or a query, of a database in a file."""

    path: str | Path = Field(kw_only=True)
    database: ClassVar[type[Database]]

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
        return FileSource(self._database, self.name_of_rows)

    def reader(self) -> SourceReader:
        """The container's half."""
        return FileReader(self._database)

    @property
    def _database(self) -> Database:
        return self.database(Rows(str(self.path), self.table, self.query, self.column, self.shards))


class FileSource(IncreasingSource):
    """Asks for numbers: writers of a file take turns, so what is committed is in order."""

    poll_seconds: ClassVar[float] = 0.5

    def __init__(self, database: Database, name: str) -> None:
        super().__init__(name, database.rows.shards)
        self._database = database

    def least(self) -> int | None:
        """The least number."""
        return self._number("min")

    def greatest(self) -> int | None:
        """The greatest number."""
        return self._number("max")

    def _number(self, function: str) -> int | None:
        rows = self._database.rows
        found = self._ask(f"select {function}({rows.number}) from {rows.sql}")  # noqa: S608  names
        if found is not None and not isinstance(found, int):
            msg = f"`{self._context.operator}` cannot read {rows.name}: `{rows.column}` has {found!r}, which "
            raise RidgelineError(msg + "is no integer; name a column of integers with `column`")
        return found

    def committed_rows(self, start: int, end: int) -> int | None:
        """The number of rows."""
        rows = self._database.rows
        which = between(rows, start, end)
        return int(self._ask(f"select count(*) from {rows.sql} where {which}"))  # noqa: S608  names

    def _ask(self, query: str) -> Any:
        chunks = list(self._database.explained(self._context.operator, query))
        return chunks[0][0][0]


class FileReader(IncreasingReader):
    """Reads rows between two numbers."""

    def __init__(self, database: Database) -> None:
        super().__init__(database.rows.shards)
        self._database = database

    def rows(self, start: int, end: int, shard: int) -> Iterator[Sequence[Sequence[Any]]]:
        """Chunks of rows. Raises RidgelineError, SourceUnavailableError."""
        rows, count = self._database.rows, self._shards
        names = ", ".join(map(column_of_rows, [rows.column, *self._schema.names]))
        which = between(rows, start, end)
        if count > 1:  # a remainder has the sign of the number
            which += f" and ({rows.number} % {count} + {count}) % {count} = {shard}"
        query = f"select {names} from {rows.sql} where {which} order by {rows.number}"  # noqa: S608  names
        yield from self._database.explained(self._context.operator.name, query)


def between(rows: Rows, start: int, end: int) -> str:
    """A condition of SQL: the number is after `start`, up to `end`."""
    return f"{rows.number} > {int(start)} and {rows.number} <= {int(end)}"
