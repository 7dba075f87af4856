"""Write into a table of PostgreSQL, exactly once."""

from __future__ import annotations

import pyarrow as pa
from pydantic import Field

from ridgeline.connect.datasets import Dataset
from ridgeline.connect.secrets import Secret
from ridgeline.connect.sink import Sink
from ridgeline.operators._divided import columns_of
from ridgeline.operators._table_rows import TableRows
from ridgeline.operators.postgres.connecting import FROM_ENVIRONMENT, Server, library_faults
from ridgeline.operators.postgres.rows import copy_text
from ridgeline.operators.postgres.sink import PostgresSink, Table


class PostgresOutput(TableRows):
    """Write the stream into a table of PostgreSQL, exactly once.

    Rows of a window and its mark, a row of the table `ridgeline_marks` in the same database, are one
    transaction after the window's commit. Windows that wait are written together. Partitions make the text of
    COPY in parallel; one connection sends it, in the order of windows.

    `dsn`: a connection string or URI of libpq, better `env:NAME` or `file:PATH` if it holds a password.
    Without it the environment variable `POSTGRES_DSN` counts.
    `password`: the same. `connection`: more settings of libpq, such as `{"sslmode": "verify-full"}`.
    `table`: its name, with a schema or without.

    Without `key` rows are appended. With `key` a row replaces the one with its key: the last in the stream
    counts. These columns are a primary key, or have a unique index. `delete` names a column that is not
    written. Where it is true, or the text `d` or `delete`, the row of the key is deleted.

    A table that is missing is made, with the types below and `key` as its primary key, unless `create` is
    False. Columns of a table that is there are compared at the start. Types: `int` bigint, `float` double
    precision, `str` text, `bool` boolean, `bytes` bytea, `Decimal` numeric, `date` date, `datetime`
    timestamptz or timestamp, `timedelta` interval. Lists, structs and maps are jsonb.

    A row that the server refuses (too large, null, not unique) ends the run, with window, row and reason.
    With `on_error=SKIP` it is left out and written to a file beside the segments. A text with a NUL character
    is a dead letter.

    Partitions: by `key`, else round robin.

    Example:
        Without a server nothing is written, but the application can be validated.

        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators.postgres import PostgresOutput
        >>> from ridgeline.plan import find_faults
        >>> from ridgeline.testing import ListInput
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> app = Application("prices")
        >>> prices = app.add_operator("prices", ListInput(Price, [("IBM", 12.3)]))
        >>> table = app.add_operator("table", PostgresOutput("prices", key="symbol"))
        >>> app.add_stream("prices", prices.output, table.input)
        >>> find_faults(app)
        []
    """

    table: str = Field(min_length=1)
    dsn: Secret = Field(default=FROM_ENVIRONMENT, kw_only=True)
    password: Secret | None = Field(default=None, kw_only=True)
    connection: dict[str, str] = Field(default={}, kw_only=True)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a key that was changed, `delete` without one, and a host without psycopg."""
        return super().property_faults() + library_faults(self.dsn)

    def encode(self, batch: pa.RecordBatch) -> bytes:
        """The text of COPY. Raises ValueError for a row that no table can hold."""
        return copy_text(self.keyed(batch))

    def datasets(self) -> list[Dataset]:
        """The table, as `ridgeline.connect.datasets` names it."""
        return self._server.datasets(self.table)

    def sink(self) -> Sink:
        """The driver's half."""
        table = Table(self.table, columns_of(self.key), self.delete, self.create)
        return PostgresSink(self._server, table)

    @property
    def _server(self) -> Server:
        return Server(self.dsn, self.password, dict(self.connection))
