"""Read a table of PostgreSQL that rows are appended to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from typing_extensions import TypeVar

from ridgeline.connect.source import SourceUnavailableError
from ridgeline.connectors.postgres.connecting import AtServer
from ridgeline.connectors.sql.increasing import IncreasingSource
from ridgeline.connectors.sql.servers import ServerInput, ServerRows

T = TypeVar("T", default=Any)
_CHUNK_ROWS = 10_000
_FOLLOWING = "pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
"""The first transaction that has not begun."""
_OLDEST = "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
"""The oldest transaction that runs."""
_POLLS, _POLL_SECONDS = 100, 0.05


class PostgresRows(ServerRows):
    """Rows of PostgreSQL."""

    def source(self) -> IncreasingSource:
        """The driver's half of the input."""
        return PostgresSource(self)

    def ask(self, connection: Any, query: str) -> Iterator[Sequence[Sequence[Any]]]:
        """Chunks of rows. Raises errors of psycopg."""
        with connection.transaction(), connection.cursor(name="ridgeline") as cursor:
            cursor.execute(query)
            while chunk := cursor.fetchmany(_CHUNK_ROWS):
                yield chunk


class PostgresInput(AtServer, ServerInput[T]):
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
        >>> from ridgeline.connectors.postgres import PostgresInput
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

    read_by = PostgresRows


class PostgresSource(IncreasingSource):
    """A number counts once all transactions are over that ran when it was first seen."""

    def __init__(self, rows: PostgresRows) -> None:
        super().__init__(rows)
        self._following = self._oldest = 0
        """The first transaction that had not begun, and the oldest one that ran, when it was asked last."""

    def ask(self, query: str, connection: Any = None) -> Any:
        """The first row of an answer, without a cursor at the server: it is asked often."""
        with self._rows.explaining(self._context.operator):
            return self._connection.execute(query).fetchone()

    def least(self) -> int | None:
        """The least number, once all transactions are over that run now: one may have it.

        Raises SourceUnavailableError if that takes long.
        """
        following = self.ask(f"select {_FOLLOWING}")[0]
        for _ in range(_POLLS):
            if self.ask(f"select {_OLDEST}")[0] >= following:
                return super().least()
            self._context.clock.wait(_POLL_SECONDS)
        msg = f"a transaction runs for long in the database of {self._rows.place}, which may have written "
        raise SourceUnavailableError(msg + "its first row")

    def greatest(self) -> int | None:
        """The greatest number of a committed row."""
        found, self._following, self._oldest = self.ask_number("max", f", {_FOLLOWING}, {_OLDEST}")
        return found

    @property
    def fence(self) -> int | None:
        """The first transaction that had not begun."""
        return self._following

    def is_past(self, fence: int | None) -> bool:
        """Whether no transaction runs from before it."""
        return fence is None or fence <= self._oldest
