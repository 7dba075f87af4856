"""Read a table of PostgreSQL that rows are appended to."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa
from pydantic import Field
from typing_extensions import TypeVar

from ridgeline.api import SchemaType
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import RidgelineError
from ridgeline.api.ports import OutputPort
from ridgeline.api.support.duration import duration_faults, parse_duration
from ridgeline.connect.partitioned_input import PartitionedInput
from ridgeline.connect.reader import ReaderContext, SourceRange, SourceReader
from ridgeline.connect.secrets import Secret
from ridgeline.connect.source import Begin, Position, Source, SourceContext, SourceUnavailableError
from ridgeline.operators.postgres.connecting import (
    FROM_ENVIRONMENT,
    Server,
    first_line,
    library_faults,
    psycopg,
)

T = TypeVar("T", default=Any)
_CHUNK_ROWS = 10_000
_FOLLOWING = "pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
"""The first transaction that has not begun."""
_OLDEST = "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
"""The oldest transaction that runs."""
_POLLS, _POLL_SECONDS = 100, 0.05


class Appended(NamedTuple):
    """A table, or a query in its place, the column that grows, and the number of source partitions."""

    server: Server
    table: str | None
    query: str | None
    column: str
    shards: int
    lag: float

    @property
    def name(self) -> str:
        """For people."""
        return f"table {self.table}" if self.table else "the query"

    @property
    def partitions(self) -> list[str]:
        """The names of the source partitions."""
        name = self.table or "query"
        return [name] if self.shards == 1 else [f"{name} {one}/{self.shards}" for one in range(self.shards)]


class PostgresInput(PartitionedInput[T]):
    """Emit the rows of a table that is appended to, each exactly once, in the order of an increasing column.

    `table`: its name; or `query`, a SELECT in its place. `column`: a column of integers that grows with each
    row, such as an identity. An index on it is needed. `schema`: the type of the tuples; its fields are
    columns. `shards`: the number of source partitions, each with the rows of one remainder of `column`. As
    many partitions of the operator read at once.

    A transaction that took its numbers first may be committed last. A row is read once no transaction runs
    any more that ran when its number was first seen, and `lag` later. So nothing is passed over, and a long
    transaction in the database holds rows back. Rows whose number was given by hand, below one that was read,
    are missed. Rows that are changed or deleted are not seen again.

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

    output = OutputPort[T](Any)

    table: str | None = Field(default=None, min_length=1)
    dsn: Secret = Field(default=FROM_ENVIRONMENT, kw_only=True)
    schema: SchemaType[T] = Field(kw_only=True)
    column: str = Field(default="id", kw_only=True)
    lag: float | str = Field(default="200ms", kw_only=True)
    query: str | None = Field(default=None, kw_only=True)
    shards: int = Field(default=1, ge=1, kw_only=True)
    password: Secret | None = Field(default=None, kw_only=True)
    connection: dict[str, str] = Field(default={}, kw_only=True)

    def __post_init__(self) -> None:
        """Give the output port its schema."""
        if "schema" in vars(self):
            declared: Any = self.schema
            self.declare_schema("output", declared)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a `lag` that is no time, `table` and `query`, a schema without columns, no psycopg."""
        faults = [*super().property_faults(), *duration_faults(self, "lag"), *library_faults(self.dsn)]
        if (self.table is None) == (self.query is None):
            faults.append(("table", self.table, "either `table` or `query` says what is read"))
        if Schema(self.schema).pickled:
            faults.append(("schema", "object", "must have columns: a NamedTuple or a dataclass"))
        return faults

    def source(self) -> Source:
        """The driver's half."""
        return AppendedSource(self._appended)

    def reader(self) -> SourceReader:
        """The container's half."""
        return AppendedReader(self._appended)

    @property
    def _appended(self) -> Appended:
        server = Server(self.dsn, self.password, dict(self.connection))
        return Appended(server, self.table, self.query, self.column, self.shards, parse_duration(self.lag))


class _Seen(NamedTuple):
    """The greatest number at a time, and the first transaction that had not begun by then."""

    at: float
    number: int
    following: int


class AppendedSource(Source):
    """Knows up to which number all rows are there for good."""

    def __init__(self, appended: Appended) -> None:
        self._appended = appended
        self._connection: Any = None
        self._begins: Mapping[str, Position] = {}

    def open(self, context: SourceContext) -> None:
        """Connect, and check table and column. Raises RidgelineError, SourceUnavailableError."""
        self._context = context
        self._seen: deque[_Seen] = deque()
        self._safe: int | None = None
        self._connection = _connected(self._appended, context.operator)
        weakref.finalize(self, self._connection.close)

    def partitions(self) -> Iterable[str]:
        """The table, or its shards."""
        return self._appended.partitions

    def resume(self, positions: Mapping[str, Position]) -> Mapping[str, Position]:
        """Continue after these numbers. Raises RidgelineError if `table` or `shards` was changed."""
        names = self._appended.partitions
        if set(positions) != set(names):
            msg = f"`{self._context.operator}` has read {', '.join(sorted(positions))}, and would read "
            msg += f"{', '.join(names)}; leave `table`, `query` and `shards` as they were, or begin on "
            raise RidgelineError(msg + "another checkpoint")
        self._begins = positions
        return positions

    def ends(self, wait: float) -> Mapping[str, Position]:
        """The greatest number up to which no row is to come any more."""
        number = self._look()
        if number is None:
            return {} if self._seen else self._begins  # of a table without rows
        return dict.fromkeys(self._appended.partitions, number)

    def start(self, partitions: Sequence[str], begin: Begin) -> Mapping[str, Position]:
        """Before the least number, or after the greatest. Raises RidgelineError for a time."""
        if isinstance(begin, datetime):
            msg = f"`{self._context.operator}` cannot begin at a time; "
            msg += "`begin` is earliest, latest or a number"
            raise RidgelineError(msg)
        if begin == "latest":
            found = self._ask("select max({column}) from {table}")[0]
        else:
            self._await_transactions()
            least = self._ask("select min({column}) from {table}")[0]
            found = None if least is None else least - 1
        self._begins = dict.fromkeys(partitions, 0 if found is None else found)
        return self._begins

    def _await_transactions(self) -> None:
        """Wait for transactions that run now: one may have the least number.

        Raises SourceUnavailableError if it takes long.
        """
        following, pause = self._ask(f"select {_FOLLOWING}")[0], threading.Event()
        for _ in range(_POLLS):
            if self._ask(f"select {_OLDEST}")[0] >= following:
                return
            pause.wait(_POLL_SECONDS)
        msg = f"a transaction runs for long in the database of {self._appended.name}, which may have "
        raise SourceUnavailableError(msg + "written its first row")

    def _look(self) -> int | None:
        """The greatest safe number now; None: there is none yet."""
        appended, now = self._appended, self._context.clock.monotonic()
        number, following, oldest = self._ask(
            f"select max({{column}}), {_FOLLOWING}, {_OLDEST} from {{table}}"  # noqa: S608  no values
        )
        if number is not None and (not self._seen or self._seen[-1].number < number):
            self._seen.append(_Seen(now, number, following))
        while self._seen and self._seen[0].following <= oldest and now - self._seen[0].at >= appended.lag:
            self._safe = self._seen.popleft().number
        return self._safe

    def _ask(self, query: str) -> Any:
        with _explained(self._appended, self._context.operator):
            return self._connection.execute(_sql(query, self._appended)).fetchone()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()


class AppendedReader(SourceReader):
    """Reads rows between two numbers."""

    def __init__(self, appended: Appended) -> None:
        self._appended = appended
        self._connection: Any = None

    def open(self, context: ReaderContext) -> None:
        """Connect. Raises RidgelineError, SourceUnavailableError."""
        self._context = context
        self._connection = _connected(self._appended, context.operator.name)
        weakref.finalize(self, self._connection.close)  # a container that is lost closes nothing

    def read(self, part: SourceRange) -> Iterator[pa.RecordBatch]:
        """Rows in the order of their numbers. Raises RidgelineError for values that the schema lacks."""
        schema, library = self._context.schema.arrow, psycopg()
        names = library.sql.SQL(", ").join(map(library.sql.Identifier, schema.names))
        literal = library.sql.Literal
        query = "select {names} from {table} where {column} > {start} and {column} <= {end}{which}"
        query += " order by {column}"
        which, shards = library.sql.SQL(""), self._appended.shards
        if shards > 1:  # a remainder has the sign of the number
            text = " and mod(mod({column}, {shards}) + {shards}, {shards}) = {shard}"
            shard = self._appended.partitions.index(part.partition)
            which = _sql(text, self._appended, shards=literal(shards), shard=literal(shard))
        given = {"start": literal(part.start), "end": literal(part.end), "which": which}
        with (
            _explained(self._appended, self._context.operator.name),
            self._connection.transaction(),
            self._connection.cursor(name="ridgeline") as cursor,
        ):
            cursor.execute(_sql(query, self._appended, names=names, **given))
            while rows := cursor.fetchmany(_CHUNK_ROWS):
                columns = zip(*rows, strict=True)
                arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()


class _explained:  # noqa: N801  used as a function
    """Errors of the server as those of a source: it is gone, or the table is not as it should be."""

    def __init__(self, appended: Appended, operator: str) -> None:
        self._appended, self._operator = appended, operator

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        library = psycopg()
        place = f"{self._appended.name} of {self._appended.server.place}"
        if isinstance(error, (library.OperationalError, library.InterfaceError)):
            msg = f"{place} is unavailable: {first_line(error)}"
            raise SourceUnavailableError(msg) from error
        if isinstance(error, library.Error):
            msg = f"`{self._operator}` cannot read {place}: {first_line(error)}; check `table`, `column` and "
            raise RidgelineError(msg + "`schema`") from error


def _connected(appended: Appended, operator: str) -> Any:
    with _explained(appended, operator):
        return appended.server.connect(operator)


def _sql(query: str, appended: Appended, **parts: Any) -> Any:
    sql = psycopg().sql
    table = sql.Identifier(*(appended.table or "").split("."))
    if appended.query is not None:
        table = sql.SQL(f"({appended.query}) as ridgeline_query")
    return sql.SQL(query).format(table=table, column=sql.Identifier(appended.column), **parts)
