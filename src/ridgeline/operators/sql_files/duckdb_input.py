"""Read a table of DuckDB that rows are appended to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, ClassVar

from typing_extensions import TypeVar

from ridgeline.api.errors import RidgelineError
from ridgeline.operators.sql_files.duckdb_output import duckdb
from ridgeline.operators.sql_files.inputs import Database, FileInput

T = TypeVar("T", default=Any)
_CHUNK_ROWS = 10_000


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
        try:
            duckdb()
        except RidgelineError as error:
            return [*super().property_faults(), ("path", self.path, str(error))]
        return super().property_faults()


class DuckDbDatabase(Database):
    """A file of DuckDB."""

    waits: ClassVar[re.Pattern[str]] = re.compile(
        "IO Error|Cannot open file|read-only|different configuration|Unique file handle"
    )

    def ask(self, query: str) -> Iterator[Sequence[Sequence[Any]]]:
        """Chunks of rows, by way of Arrow: it has all types. Raises errors of DuckDB."""
        with closing(duckdb().connect(self.rows.path, read_only=True)) as connection:
            table = connection.sql(query).to_arrow_table()
        for start in range(0, len(table), _CHUNK_ROWS):
            part = table.slice(start, _CHUNK_ROWS)
            yield list(zip(*(column.to_pylist() for column in part.columns), strict=True))


DuckDbInput.database = DuckDbDatabase
