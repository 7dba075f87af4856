"""Read a table of SQLite that rows are appended to."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import TypeVar

from ridgeline.operators.sql_files.inputs import Database, FileInput

T = TypeVar("T", default=Any)
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


class SqliteDatabase(Database):
    """A file of SQLite."""

    waits: ClassVar[re.Pattern[str]] = re.compile("locked|busy|unable to open|disk I/O|readonly")

    def ask(self, query: str) -> Iterator[Sequence[Sequence[Any]]]:
        """Chunks of rows. Raises errors of sqlite3."""
        address = f"{Path(self.rows.path).as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS)) as connection:
            cursor = connection.execute(query)
            while chunk := cursor.fetchmany(_CHUNK_ROWS):
                yield chunk


SqliteInput.database = SqliteDatabase
