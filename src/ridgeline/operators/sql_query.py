"""SQL over the streams of an application, period after period."""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Condition
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field

from ridgeline.api.cells.list_state import ListState
from ridgeline.api.columns.schema import holds_pickles
from ridgeline.api.context import OperatorContext
from ridgeline.api.operator import Operator
from ridgeline.api.ports import InputPort
from ridgeline.api.publisher import Publisher
from ridgeline.api.state import State
from ridgeline.operators._shaped import handed_on
from ridgeline.operators._sql_engine import QueryError, SqlEngine, to_ipc

MOST_STREAMS = 4
_MB = 2**20
_MOST_KEPT = 100
_MOST_KEPT_BYTES = 64 * _MB


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The result of a query in a period of windows, the `number`th from 1.

    `rows`: an Arrow IPC stream. `more`: it found more rows than it may return. `tuples`, `bytes`: what it
    read. `seconds`: how long the SQL took. `error`: why it ends. `last`: no other one follows.
    """

    number: int
    first_window: int
    window: int
    rows: bytes = b""
    more: bool = False
    tuples: int = 0
    bytes: int = 0
    seconds: float = 0.0
    error: str = ""
    last: bool = False

    def table(self) -> pa.Table:
        """The rows."""
        return pa.ipc.open_stream(self.rows).read_all()


class SqlQuery(Operator):
    """Run `sql`, a SELECT, over the tuples of up to four streams, each time for `every_windows` windows.

    `tables`: the names that the SQL has for what comes at `first`, `second`, `third` and `fourth`. `schemas`:
    their schemas, see `schema_text`; a stream without tuples is an empty table then. It ends after `times`
    periods (0: never). DuckDB runs it in a process of its own, which reads no file. It may take `memory_mb`
    megabytes, and a period may have as many. At most `rows` rows come out of a period. SQL that takes longer
    than `seconds` is interrupted.

    A failure ends the query and nothing else: it never fails a window. Results are on the driver, see
    `QueryResults`. A query is inserted by `handle.query()` and `ridgeline query`, which remove it again.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import SqlQuery
        >>> from ridgeline.testing import ListInput, run_local
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> app = Application("prices")
        >>> source = ListInput(Price, [("IBM", 12.0), ("SAP", 101.0), ("IBM", 14.0)])
        >>> prices = app.add_operator("prices", source)
        >>> sql = "select symbol, avg(price) as price from prices group by symbol order by symbol"
        >>> query = app.add_operator("query", SqlQuery(sql, ["prices"]))
        >>> app.add_stream("prices", prices.output, query.first)
    """

    leaves_with_streams: ClassVar[bool] = True
    parallelizable: ClassVar[bool] = False

    first = InputPort(Any, optional=True)
    second = InputPort(Any, optional=True)
    third = InputPort(Any, optional=True)
    fourth = InputPort(Any, optional=True)

    sql: str
    tables: list[str] = Field(default=["input"], min_length=1, max_length=MOST_STREAMS)
    schemas: list[str] = Field(default=[], kw_only=True)
    every_windows: int = Field(default=1, ge=1, kw_only=True)
    times: int = Field(default=0, ge=0, kw_only=True)
    rows: int = Field(default=10_000, ge=1, kw_only=True)
    seconds: float = Field(default=1.0, gt=0, le=30, kw_only=True)
    memory_mb: int = Field(default=256, ge=32, kw_only=True)

    held = ListState(bytes)
    """The batches of the period: a byte with the number of the port, then Arrow IPC."""
    held_bytes = State(0)
    began = State(-1)
    done = State(0)
    ended = State(False)  # noqa: FBT003  its first value

    def setup(self, context: OperatorContext) -> None:
        """Make what lives as long as the container; DuckDB's process starts with the first SQL."""
        self._engine = SqlEngine(self.memory_mb, self.rows)

    def begin_window(self, window_id: int) -> None:
        """Begin the first period."""
        if self.began < 0:
            self.began = window_id - self.context.passed_over

    def end_window(self) -> None:
        """Run the SQL at the end of a period."""
        window = self.context.window_id
        if self.ended or (window - self.context.passed_over - self.began + 1) % self.every_windows:
            return
        clock = self.context.clock
        began = clock.monotonic()
        held, size, first = list(self.held), self.held_bytes, window - self.every_windows + 1
        self._forget()
        self.done += 1
        last = 0 < self.times <= self.done
        try:
            tables = self._tables(held)
            answer = self._engine.run(self.sql, tables, self.seconds)
            tuples = sum(table.num_rows for table in tables.values())
            spent = clock.monotonic() - began
            data = to_ipc(answer.table)
            found = QueryResult(self.done, first, window, data, answer.more, tuples, size, spent, "", last)
        except Exception as error:  # noqa: BLE001  it is the query's, never the application's
            # `_end` reports the period that failed, `done + 1`
            self.done -= 1
            self._end(_error_text(error))
            return
        self.ended = last
        self.context.hand_over(found)
        if last:
            self._engine.close()

    def teardown(self) -> None:
        """End DuckDB's process."""
        self._engine.close()

    def publisher(self) -> QueryResults:
        """The driver's half."""
        return QueryResults()

    def _take(self, port: int, batch: pa.RecordBatch) -> None:
        """Keep a batch until the end of the period; too many bytes end the query."""
        if self.ended or port >= len(self.tables):
            return
        if holds_pickles(batch):
            self._end(f"the tuples of `{self.tables[port]}` are Python objects without columns")
            return
        data = bytes([port]) + to_ipc(pa.Table.from_batches([batch]))
        if self.held_bytes + len(data) > self.memory_mb * _MB:
            self._end(f"a period has more than {self.memory_mb} MB; ask for a shorter one")
            return
        self.held.append(data)
        self.held_bytes += len(data)

    _take_first = handed_on(first, _take, 0)
    _take_second = handed_on(second, _take, 1)
    _take_third = handed_on(third, _take, 2)
    _take_fourth = handed_on(fourth, _take, 3)

    def _tables(self, held: Sequence[bytes]) -> dict[str, pa.Table]:
        """The tables of a period, by name."""
        found: dict[str, pa.Table] = {}
        for number, name in enumerate(self.tables):
            batches = [
                batch for one in held if one[0] == number for batch in pa.ipc.open_stream(memoryview(one)[1:])
            ]
            schema = schema_of_text(self.schemas[number]) if number < len(self.schemas) else None
            if batches:
                parts = [pa.Table.from_batches([batch]).replace_schema_metadata() for batch in batches]
                found[name] = pa.concat_tables(parts, promote_options="permissive")
            elif schema is not None:
                found[name] = schema.empty_table()
        return found

    def _forget(self) -> None:
        """Hold no batches any more."""
        self.held.clear()
        self.held_bytes = 0

    def _end(self, error: str) -> None:
        """End the query, not the application."""
        self.ended = True
        self._forget()
        self._engine.close()
        window = self.context.window_id
        self.context.hand_over(QueryResult(self.done + 1, window, window, error=error, last=True))


def _error_text(error: Exception) -> str:
    return str(error) if isinstance(error, QueryError) else f"{type(error).__name__}: {error}"


def schema_text(schema: pa.Schema) -> str:
    """A schema as a text, for `SqlQuery.schemas`."""
    return base64.b64encode(schema.remove_metadata().serialize().to_pybytes()).decode()


def schema_of_text(text: str) -> pa.Schema:
    """The schema that `schema_text` wrote."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


class QueryResults(Publisher):
    """The results of a query, on the driver, for who reads them: the last 100, up to 64 MB.

    A reader that is slower loses the oldest, and sees that by their numbers. Windows never wait for a reader.
    """

    groups_windows = True
    lasting = False

    def __init__(self) -> None:
        self.news = Condition()
        self.closed = False
        self._kept: deque[QueryResult] = deque()
        self._staged: list[QueryResult] = []

    def stage(self, window_id: int, values: Sequence[Any]) -> None:
        """Keep results until their window is committed."""
        # a window may be staged again
        self._staged = [one for one in self._staged if one.window < window_id]
        self._staged += values

    def publish(self, window_id: int) -> None:
        """Show the staged results."""
        with self.news:
            self._kept += self._staged
            while len(self._kept) > _MOST_KEPT or self._size() > _MOST_KEPT_BYTES:
                self._kept.popleft()
            self._staged = []
            self.news.notify_all()

    def rewind(self, window_id: int, state: Any, at: int) -> None:
        """Take nothing back: results were read already, and the query ends, as it has no reader any more."""

    def close(self) -> None:
        """The query is removed, or the application ends."""
        with self.news:
            self.closed = True
            self.news.notify_all()

    def after(self, seen: int) -> list[QueryResult]:
        """The results after one number."""
        with self.news:
            return [result for result in self._kept if result.number > seen]

    @property
    def last(self) -> QueryResult | None:
        """The result after which no other one comes, if it is there."""
        with self.news:
            newest = self._kept[-1] if self._kept else None
            return newest if newest is not None and newest.last else None

    def _size(self) -> int:
        # the newest result stays, however large it is
        return sum(len(result.rows) for result in self._kept) if len(self._kept) > 1 else 0
