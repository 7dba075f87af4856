"""Read a table of MariaDB that rows are appended to."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field
from typing_extensions import TypeVar

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.duration import Duration, parse_duration
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
from ridgeline.operators.mariadb.connecting import (
    AtServer,
    Server,
    passes,
    pymysql,
    quoted,
    quoted_column,
    reason,
)

T = TypeVar("T", default=Any)
_CHUNK_ROWS = 10_000
_FLOAT = 4
_ENGINE = """select t.engine, e.transactions = 'YES' from information_schema.tables t
    left join information_schema.engines e on e.engine = t.engine
    where t.table_schema = %s and t.table_name = %s"""


@dataclass(frozen=True)
class ServerRows(Rows):
    """Rows of MariaDB."""

    server: Server
    lag: float
    zero_dates: bool

    @property
    def sql(self) -> str:
        """The table, or the query as one."""
        return quoted(self.table) if self.table else f"({self.query}) as ridgeline_query"

    @property
    def base(self) -> str:
        """The server and the database."""
        return self.server.place

    def passes(self, error: Exception) -> bool | None:
        """Whether the server is gone, or busy."""
        return passes(error) if isinstance(error, (pymysql().MySQLError, OSError)) else None

    def reason(self, error: Exception) -> str:
        """The text of the server."""
        return reason(error)


class MariaDbInput(AtServer, IncreasingInput[T]):
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
    no time zone and is read as UTC; a timestamp column is read in UTC. `zero_dates_as_null`: dates that are
    `0000-00-00` become None.

    `url`, `password` and `connection` are those of `MariaDbOutput`; all hosts connect. `begin` may be
    "earliest" or "latest".

    Example:
        Without a server nothing is read, but the application can be validated.

        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators.mariadb import MariaDbInput
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

    lag: Duration = Field(default="200ms", kw_only=True)
    zero_dates_as_null: bool = Field(default=False, kw_only=True)

    def source(self) -> Source:
        """The driver's half."""
        return MariaDbSource(self._rows, self.name_of_rows)

    def reader(self) -> SourceReader:
        """The container's half."""
        return MariaDbReader(self._rows)

    @property
    def _rows(self) -> ServerRows:
        return ServerRows(
            self.table,
            self.query,
            self.column,
            self.shards,
            self.server,
            parse_duration(self.lag),
            self.zero_dates_as_null,
        )


class MariaDbSource(IncreasingSource):
    """Compares what is committed with what is there: a row that only an unfinished transaction sees holds up.

    Two connections ask. One reads what is committed, the other one what is not, too. A row of a transaction
    is there from its insertion on; `lag` is for the moment between its number and that.
    """

    def __init__(self, rows: ServerRows, name: str) -> None:
        super().__init__(name, rows.shards)
        self._rows, self.lag = rows, rows.lag
        self._connections: list[Any] = []

    def connect(self) -> None:
        """Connect twice, and check the engine. Raises RidgelineError, SourceUnavailableError."""
        for level in ("read committed", "read uncommitted"):
            connection = _connected(self._rows, self._context.operator)
            weakref.finalize(self, connection._force_close)  # noqa: SLF001  without a word to the server
            self._connections.append(connection)
            self._ask(f"set session transaction isolation level {level}")
        self._check_engine()

    def _check_engine(self) -> None:
        """Refuse an engine whose rows cannot be seen before they are committed."""
        if self._rows.table is None:
            return
        database, dot, name = self._rows.table.partition(".")
        place = (database, name) if dot else (self._rows.server.database, self._rows.table)
        found = self._ask(_ENGINE, place)
        if found and found[1] and found[0] != "InnoDB":
            msg = f"`{self._context.operator}` cannot read table {self._rows.table}: rows of the engine "
            msg += f"{found[0]} cannot be seen before they are committed, so some could be passed over; "
            raise RidgelineError(msg + "use InnoDB")

    def least(self) -> int | None:
        """The least number, also of rows that are not committed."""
        return self._number("min")

    def greatest(self) -> int | None:
        """The greatest number, also of rows that are not committed."""
        return self._number("max")

    def _number(self, function: str) -> int | None:
        column = quoted_column(self._rows.column)
        [found] = self._ask(f"select {function}({column}) from {self._rows.sql}")  # noqa: S608  no values
        return self._rows.number(found, self._context.operator)

    def next_rows(self, start: int, end: int, most: int) -> Counted | None:
        """The rows, if those that are committed are all that are there."""
        column, more = quoted_column(self._rows.column), ", sum(n), bit_xor(n)"
        query = count_query(column, self._rows.sql, start, end, most, more)
        committed = self._ask(query, connection=0)
        return Counted(*committed[:3]) if committed == self._ask(query) else None

    def _ask(self, query: str, values: Sequence[Any] | None = None, connection: int = -1) -> Any:
        """The first row of an answer."""
        with self._rows.explaining(self._context.operator), self._connections[connection].cursor() as cursor:
            cursor.execute(query, values)
            return cursor.fetchone()

    def close(self) -> None:
        """Close the connections."""
        while self._connections:
            self._connections.pop()._force_close()  # noqa: SLF001  without a word to the server


class MariaDbReader(IncreasingReader):
    """Reads rows between two numbers."""

    def __init__(self, rows: ServerRows) -> None:
        super().__init__(rows.shards)
        self._rows = rows
        self._connection: Any = None

    def connect(self) -> None:
        """Connect. Raises RidgelineError, SourceUnavailableError."""
        operator = self._context.operator.name
        self._connection = _connected(self._rows, operator)
        weakref.finalize(self, self._connection._force_close)  # noqa: SLF001  a lost container closes nothing
        with self._rows.explaining(operator), self._connection.cursor() as cursor:
            cursor.execute("set session net_write_timeout = 3600")  # while tuples are processed
            names = [self._rows.column, *self._schema.names]
            listed = ", ".join(map(quoted_column, names))
            cursor.execute(f"select {listed} from {self._rows.sql} limit 0")  # noqa: S608  no values
            kinds = [description[1] for description in cursor.description]
        self._selected = ", ".join(  # the text of a float has 6 digits
            f"{quoted_column(name)} * 1e0" if kind == _FLOAT else quoted_column(name)
            for name, kind in zip(names, kinds, strict=True)
        )

    def rows(self, start: int, end: int, shard: int) -> Iterator[Sequence[Sequence[Any]]]:
        """Chunks of rows. Raises RidgelineError, SourceUnavailableError."""
        library, column = pymysql(), quoted_column(self._rows.column)
        which = _between(column, start, end)
        if self._shards > 1:  # a remainder has the sign of the number
            which += f" and mod(mod({column}, {self._shards}) + {self._shards}, {self._shards}) = {shard}"
        query = f"select {self._selected} from {self._rows.sql} where {which} order by {column}"  # noqa: S608  numbers
        with (
            self._rows.explaining(self._context.operator.name),
            self._connection.cursor(library.cursors.SSCursor) as cursor,
        ):
            cursor.execute(query)
            while chunk := cursor.fetchmany(_CHUNK_ROWS):
                yield chunk

    def close(self) -> None:
        """Close the connection, and with it a query of which rows are left."""
        if self._connection is not None:
            self._connection._force_close()  # noqa: SLF001  without a word to the server
            self._connection = None


def _between(column: str, start: int, end: int) -> str:
    return f"{column} > {int(start)} and {column} <= {int(end)}"


def _connected(rows: ServerRows, operator: str) -> Any:
    """A connection. Raises RidgelineError, SourceUnavailableError."""
    with rows.explaining(operator):
        made = rows.server.connect(operator)
    if rows.zero_dates:
        types, converters = pymysql().constants.FIELD_TYPE, dict(made.decoders)
        for kind in (types.DATE, types.DATETIME, types.TIMESTAMP, types.NEWDATE):
            converters[kind] = _without_zeros(converters[kind]) if kind in converters else None
        made.decoders = converters
    return made


def _without_zeros(convert: Any) -> Any:
    return lambda text: None if text.startswith("0000-00-00") else convert(text)
