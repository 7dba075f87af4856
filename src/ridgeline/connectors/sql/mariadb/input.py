"""Read a table of MariaDB that rows are appended to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from typing_extensions import TypeVar

from ridgeline.api.errors import RidgelineError
from ridgeline.connectors.sql.increasing import Counted, IncreasingSource
from ridgeline.connectors.sql.mariadb.connecting import MARK, AtServer, pymysql
from ridgeline.connectors.sql.mariadb.table import ENGINE, literal
from ridgeline.connectors.sql.servers import ServerInput, ServerRows

T = TypeVar("T", default=Any)
_CHUNK_ROWS = 10_000
_FLOAT = 4


class MariaDbRows(ServerRows):
    """Rows of MariaDB."""

    mark: ClassVar[str] = MARK

    def source(self) -> IncreasingSource:
        """The driver's half of the input."""
        return MariaDbSource(self)

    def ask(self, connection: Any, query: str) -> Iterator[Sequence[Sequence[Any]]]:
        """Chunks of rows. Raises errors of PyMySQL."""
        with connection.cursor(pymysql().cursors.SSCursor) as cursor:
            cursor.execute(query)
            while chunk := cursor.fetchmany(_CHUNK_ROWS):
                yield chunk

    def selected(self, connection: Any, names: Sequence[str]) -> list[str]:
        """Columns; the text of a float has 6 digits, so it is made a double."""
        with connection.cursor() as cursor:
            cursor.execute("set session net_write_timeout = 3600")  # while tuples are processed
            found = super().selected(connection, names)
            cursor.execute(f"select {', '.join(found)} from {self.sql} limit 0")  # noqa: S608  no values
            kinds = [description[1] for description in cursor.description]
        return [
            f"{column} * 1e0" if kind == _FLOAT else column for column, kind in zip(found, kinds, strict=True)
        ]


class MariaDbInput(AtServer, ServerInput[T]):
    """Emit the rows of a table that is appended to, each exactly once, in the order of an increasing column.

    `table`: its name, with a database or without; or `query`, a SELECT in its place. `column`: a column of
    integers that grows with each row, as with `auto_increment`. An index on it is needed. `schema`: the type
    of the tuples; its fields are columns. `shards`: the number of source partitions, each with a share of the
    rows. As many partitions of the operator read at once.

    A transaction that took its numbers first may be committed last. A row is read once all rows below it are
    committed or gone, and not before `lag`. So nothing is passed over. A long transaction that has written
    to the table holds later rows back. Rows whose number was given by hand, below one that was read, are
    missed. Rows that are changed or deleted are not seen again.

    Values that do not fit the schema are errors, or dead letters with `on_error=SKIP`. A datetime column has
    no time zone and is read as UTC; a timestamp column is read in UTC.

    `url`, `password` and `connection` are those of `MariaDbOutput`; all hosts connect. `begin` may be
    "earliest" or "latest".

    Example:
        Without a server nothing is read, but the application can be validated.

        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.connectors.sql import MariaDbInput
        >>> from ridgeline.plan import find_faults
        >>> from ridgeline.testing import CollectorSink
        >>> class Order(NamedTuple):
        ...     id: int
        ...     cents: int
        >>> app = Application("orders")
        >>> orders = app.add_operator("orders", MariaDbInput("orders", schema=Order))
        >>> sink = app.add_operator("sink", CollectorSink(Order))
        >>> app.add_stream("orders", orders.output, sink.input)
        >>> find_faults(app)
        []
    """

    read_by = MariaDbRows


class MariaDbSource(IncreasingSource):
    """Compares what is committed with what is there: a row that only an unfinished transaction sees holds up.

    Two connections ask. One reads what is committed, the other one what is not, too. A row of a transaction
    is there from its insertion on; `lag` is for the moment between its number and that.
    """

    def __init__(self, rows: MariaDbRows) -> None:
        super().__init__(rows)
        self._server: Any = rows.server

    def connect(self) -> None:
        """Connect twice, and check the engine. Raises RidgelineError, SourceUnavailableError."""
        self._committed, self._connection = self.connected(), self.connected()
        level = "set session transaction isolation level read"
        self.ask(f"{level} committed", self._committed)
        self.ask(f"{level} uncommitted")
        self._check_engine()

    def _check_engine(self) -> None:
        """Refuse an engine whose rows cannot be seen before they are committed."""
        table = self._rows.table
        if table is None:
            return
        database, dot, name = table.partition(".")
        place = (database, name) if dot else (self._server.database, table)
        found = self.ask(ENGINE % tuple(map(literal, place)))
        if found and found[2] == "YES" and found[1] != "InnoDB":
            msg = f"`{self._context.operator}` cannot read table {table}: rows of the engine {found[1]} "
            msg += "cannot be seen before they are committed, so some could be passed over; "
            raise RidgelineError(msg + "use InnoDB")

    def next_rows(self, start: int, end: int, most: int) -> Counted | None:
        """The rows, if those that are committed are all that are there."""
        query = self._rows.count_query(start, end, most, ", sum(n), bit_xor(n)")
        committed = self.ask(query, self._committed)
        return Counted(*committed[:3]) if committed == self.ask(query) else None
