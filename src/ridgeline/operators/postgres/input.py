"""Read a table of PostgreSQL that rows are appended to."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field
from typing_extensions import TypeVar

from ridgeline.api.support.duration import Duration, parse_duration
from ridgeline.connect.reader import SourceReader
from ridgeline.connect.source import Source, SourceUnavailableError
from ridgeline.operators.databases.increasing import (
    Counted,
    IncreasingInput,
    IncreasingReader,
    IncreasingSource,
    Rows,
    count_query,
)
from ridgeline.operators.postgres.connecting import (
    AtServer,
    Server,
    first_line,
    psycopg,
)

T = TypeVar("T", default=Any)
_CHUNK_ROWS = 10_000
_FOLLOWING = "pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
"""The first transaction that has not begun."""
_OLDEST = "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
"""The oldest transaction that runs."""
_POLLS, _POLL_SECONDS = 100, 0.05


@dataclass(frozen=True)
class Appended(Rows):
    """Rows of PostgreSQL."""

    server: Server
    lag: float

    @property
    def base(self) -> str:
        """The server and the database."""
        return self.server.place

    def passes(self, error: Exception) -> bool | None:
        """Whether the server is gone."""
        library = psycopg()
        if not isinstance(error, library.Error):
            return None
        return isinstance(error, (library.OperationalError, library.InterfaceError))

    def reason(self, error: Exception) -> str:
        """The message of the server."""
        return first_line(error)

    def connected(self, operator: str) -> Any:
        """A connection. Raises RidgelineError, SourceUnavailableError."""
        with self.explaining(operator):
            return self.server.connect(operator)


class PostgresInput(AtServer, IncreasingInput[T]):
    """Emit the rows of a table that is appended to, each exactly once, in the order of an increasing column.

    `table`: its name; or `query`, a SELECT in its place. `column`: a column of integers that grows with each
    row, such as an identity. An index on it is needed. `schema`: the type of the tuples; its fields are
    columns. `shards`: the number of source partitions, each with the rows of one remainder of `column`. As
    many partitions of the operator read at once.

    A transaction that took its numbers first may be committed last. A row is read once no transaction runs
    any more that ran when its number was first seen, and `lag` later. So nothing is passed over, and a long
    transaction in the database holds rows back. Rows whose number was given by hand, below one that was read,
    are missed. Rows that are changed or deleted are not seen again. Values that do not fit the schema are
    errors, or dead letters with `on_error=SKIP`.

    `dsn`, `password` and `connection` are those of `PostgresOutput`; all hosts connect. `begin` may be
    "earliest" or "latest". `table`, `query` and `shards` stay as they are while a checkpoint is continued.

    Example:
        Without a server nothing is read, but the application can be validated.

        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators.postgres import PostgresInput
        >>> from ridgeline.plan import find_faults
        >>> from ridgeline.testing import CollectorSink
        >>> class Order(NamedTuple):
        ...     id: int
        ...     cents: int
        >>> app = Application("orders")
        >>> orders = app.add_operator("orders", PostgresInput("orders", schema=Order))
        >>> sink = app.add_operator("sink", CollectorSink(Order))
        >>> app.add_stream("orders", orders.output, sink.input)
        >>> find_faults(app)
        []
    """

    lag: Duration = Field(default="200ms", kw_only=True)

    def source(self) -> Source:
        """The driver's half."""
        return AppendedSource(self._appended, self.name_of_rows)

    def reader(self) -> SourceReader:
        """The container's half."""
        return AppendedReader(self._appended)

    @property
    def _appended(self) -> Appended:
        lag = parse_duration(self.lag)
        return Appended(self.table, self.query, self.column, self.shards, self.server, lag)


class AppendedSource(IncreasingSource):
    """A number counts once all transactions are over that ran when it was first seen."""

    def __init__(self, appended: Appended, name: str) -> None:
        super().__init__(name, appended.shards)
        self._appended, self.lag = appended, appended.lag
        self._connection: Any = None
        self._following = self._oldest = 0
        """The first transaction that had not begun, and the oldest one that ran, when it was asked last."""

    def connect(self) -> None:
        """Connect. Raises RidgelineError, SourceUnavailableError."""
        self._connection = self._appended.connected(self._context.operator)
        weakref.finalize(self, self._connection.close)

    def least(self) -> int | None:
        """The least number, once all transactions are over that run now: one may have it.

        Raises SourceUnavailableError if that takes long.
        """
        following, pause = self._ask(f"select {_FOLLOWING}")[0], threading.Event()
        for _ in range(_POLLS):
            if self._ask(f"select {_OLDEST}")[0] >= following:
                return self._appended.number(
                    self._ask("select min({column}) from {table}")[0], self._context.operator
                )
            pause.wait(_POLL_SECONDS)
        msg = f"a transaction runs for long in the database of {self._appended.place}, which may have "
        raise SourceUnavailableError(msg + "written its first row")

    def greatest(self) -> int | None:
        """The greatest number of a committed row."""
        found, self._following, self._oldest = self._ask(
            f"select max({{column}}), {_FOLLOWING}, {_OLDEST} from {{table}}"  # noqa: S608  no values
        )
        return self._appended.number(found, self._context.operator)

    @property
    def fence(self) -> int | None:
        """The first transaction that had not begun."""
        return self._following

    def is_past(self, fence: int | None) -> bool:
        """Whether no transaction runs from before it."""
        return fence is None or fence <= self._oldest

    def next_rows(self, start: int, end: int, most: int) -> Counted:
        """All are committed: the fence is past."""
        return Counted(*self._ask(count_query("{column}", "{table}", start, end, most)))

    def _ask(self, query: str) -> Any:
        with self._appended.explaining(self._context.operator):
            return self._connection.execute(_sql(query, self._appended)).fetchone()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()


class AppendedReader(IncreasingReader):
    """Reads rows between two numbers."""

    def __init__(self, appended: Appended) -> None:
        super().__init__(appended.shards)
        self._appended = appended
        self._connection: Any = None

    def connect(self) -> None:
        """Connect. Raises RidgelineError, SourceUnavailableError."""
        self._connection = self._appended.connected(self._context.operator.name)
        weakref.finalize(self, self._connection.close)  # a container that is lost closes nothing

    def rows(self, start: int, end: int, shard: int) -> Iterator[Sequence[Sequence[Any]]]:
        """Chunks of rows. Raises RidgelineError, SourceUnavailableError."""
        library = psycopg()
        names = library.sql.SQL(", ").join(map(library.sql.Identifier, self._schema.names))
        literal = library.sql.Literal
        query = "select {column}, {names} from {table} where {column} > {start} and {column} <= {end}{which}"
        query += " order by {column}"
        which = library.sql.SQL("")
        if self._shards > 1:  # a remainder has the sign of the number
            text = " and mod(mod({column}, {shards}) + {shards}, {shards}) = {shard}"
            which = _sql(text, self._appended, shards=literal(self._shards), shard=literal(shard))
        given = {"start": literal(start), "end": literal(end), "which": which}
        with (
            self._appended.explaining(self._context.operator.name),
            self._connection.transaction(),
            self._connection.cursor(name="ridgeline") as cursor,
        ):
            cursor.execute(_sql(query, self._appended, names=names, **given))
            while chunk := cursor.fetchmany(_CHUNK_ROWS):
                yield chunk

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()


def _sql(query: str, appended: Appended, **parts: Any) -> Any:
    sql = psycopg().sql
    table = sql.Identifier(*(appended.table or "").split("."))
    if appended.query is not None:
        table = sql.SQL(f"({appended.query}) as ridgeline_query")
    return sql.SQL(query).format(table=table, column=sql.Identifier(appended.column), **parts)
