"""Write into a table of MariaDB or MySQL, exactly once."""

from __future__ import annotations

import pyarrow as pa
from pydantic import Field

from ridgeline.connect.datasets import Dataset
from ridgeline.connect.secrets import Secret
from ridgeline.connect.sink import Sink
from ridgeline.operators._divided import columns_of
from ridgeline.operators._table_rows import TableRows
from ridgeline.operators.mariadb.connecting import FROM_ENVIRONMENT, Server, library_faults
from ridgeline.operators.mariadb.rows import literals
from ridgeline.operators.mariadb.sink import MariaDbSink
from ridgeline.operators.mariadb.table import Target


class MariaDbOutput(TableRows):
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
        >>> from ridgeline.operators.mariadb import MariaDbOutput
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
    url: Secret = Field(default=FROM_ENVIRONMENT, kw_only=True)
    password: Secret | None = Field(default=None, kw_only=True)
    connection: dict[str, str] = Field(default={}, kw_only=True)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a key that was changed, `delete` without one, and a host without PyMySQL."""
        return super().property_faults() + library_faults(self.url)

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The values as literals of SQL. Raises ValueError for a row that no table can hold."""
        return literals(self.keyed(batch))

    def datasets(self) -> list[Dataset]:
        """The table, as `ridgeline.connect.datasets` names it."""
        return self._server.datasets(self.table)

    def sink(self) -> Sink:
        """The driver's half."""
        target = Target(self.table, columns_of(self.key), self.delete, self.create)
        return MariaDbSink(self._server, target)

    @property
    def _server(self) -> Server:
        return Server(self.url, self.password, dict(self.connection))
