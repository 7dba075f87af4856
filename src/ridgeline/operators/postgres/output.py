"""Write into a table of PostgreSQL, exactly once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ridgeline.connect.partitioned_output import PartitionedOutput
from ridgeline.connect.secrets import Secret
from ridgeline.connect.sink import Sink
from ridgeline.operators._divided import Columns, DividedOperator, columns_of
from ridgeline.operators.postgres.connecting import FROM_ENVIRONMENT, Server, library_faults
from ridgeline.operators.postgres.rows import copy_text
from ridgeline.operators.postgres.sink import DELETED, PostgresSink, Table

_DELETES = ("d", "delete", "DELETE", "D")


class PostgresOutput(DividedOperator, PartitionedOutput):
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
    key: Columns | None = Field(default=None, kw_only=True)
    delete: str | None = Field(default=None, kw_only=True)
    create: bool = Field(default=True, kw_only=True)
    password: Secret | None = Field(default=None, kw_only=True)
    connection: dict[str, str] = Field(default={}, kw_only=True)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a key that was changed, `delete` without one, and a host without psycopg."""
        faults = self.key_faults("key") + library_faults(self.dsn)
        if self.delete is not None and not self.key:
            faults.append(("delete", self.delete, "needs `key`: which rows are to be deleted"))
        return faults

    @classmethod
    def keys_of(cls, given: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
        """The columns of `key`."""
        return {"input": columns_of(given.get("key"))}

    def encode(self, batch: pa.RecordBatch) -> bytes:
        """The text of COPY. Raises ValueError for a row that no table can hold."""
        for name in columns_of(self.key):
            column = batch.column(name)
            if column.null_count:
                row = batch.slice(pc.index(column.is_null(), True).as_py(), 1).to_pylist()[0]
                msg = f"column `{name}` of the key is null in row {row}; leave such rows out upstream"
                raise ValueError(msg)
        if self.delete is not None:
            place = batch.schema.get_field_index(self.delete)
            batch = batch.set_column(place, DELETED, _deleted(batch.column(place)))
        return copy_text(batch)

    def sink(self) -> Sink:
        """The driver's half."""
        table = Table(self.table, columns_of(self.key), self.delete, self.create)
        return PostgresSink(Server(self.dsn, self.password, dict(self.connection)), table)


def _deleted(column: pa.Array) -> pa.Array:
    """Which rows are to be deleted."""
    if pa.types.is_boolean(column.type):
        return pc.fill_null(column, False)  # noqa: FBT003  the value
    texts = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return pc.fill_null(pc.is_in(texts.cast(pa.string()), pa.array(_DELETES)), False)  # noqa: FBT003  the value
