"""Queries on a running application: SQL is checked, inserted, read, and removed when it has no reader."""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ridgeline.api.clock import SystemClock
from ridgeline.api.columns.schema import holds_pickles
from ridgeline.api.errors import ChangeError, did_you_mean
from ridgeline.api.support.duration import parse_duration
from ridgeline.engine.driver.run.changes import REFUSED, WITHDRAWN
from ridgeline.operators._sql_engine import QueryError, SqlEngine
from ridgeline.operators.sql_query import MOST_STREAMS, QueryResult, QueryResults, SqlQuery, schema_text
from ridgeline.plan.edits import AddOperator, AddSink, Edit, RemoveOperator
from ridgeline.plan.execution import Plan
from ridgeline.plan.spec.writer import spec_of_operator
from ridgeline.regions.joined_changes import AnyAsked, region_of
from ridgeline.regions.joined_run import JoinedRun
from ridgeline.stram.changes import EditPlan

if TYPE_CHECKING:
    from ridgeline.regions.joined_run import AnyRun

LEASE_SECONDS = 30.0
"""Seconds that a query without a reader stays."""
MOST_QUERIES = 20
_MOST_KNOWN = 1_000
"""Of so many queries that have ended it is known why."""
_CHECK_SECONDS = 5.0
_POLL_SECONDS = 0.5
_LAST_SECONDS = 2.0
"""Seconds that the last result stays for its reader."""
_PORTS = ("first", "second", "third", "fourth")
_CLOCK = SystemClock()
_queries: weakref.WeakKeyDictionary[Any, Queries] = weakref.WeakKeyDictionary()
_making = threading.Lock()


def queries_of(run: AnyRun) -> Queries:
    """The queries of a run."""
    with _making:
        found = _queries.get(run)
        if found is None:
            found = _queries[run] = Queries(run)
        return found


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """A query: SQL, its period in seconds of windows, and the number of periods (0: unlimited)."""

    sql: str
    every: float = 0.0
    times: int = 0
    rows: int = 10_000
    seconds: float = 1.0
    memory_mb: int = 256


class Queries:
    """The queries that a run has. A thread removes those that have ended or have no reader any more."""

    def __init__(self, run: AnyRun, lease: float = LEASE_SECONDS) -> None:
        self.lease = lease
        self._run = weakref.ref(run)
        self._lock = threading.Lock()
        self._read_at: dict[str, float] = {}
        self._removed: dict[str, AnyAsked] = {}
        self._ended: dict[str, str] = {}
        self._count = 0
        self._thread: threading.Thread | None = None
        if any(True for _ in _operators(run.plan)):  # of a run before
            self._watch()

    def add(self, request: QueryRequest, who: str, timeout: float) -> str:
        """Check the SQL, insert the query, and return its name once the change is committed.

        Raises QueryError if the SQL is wrong, ChangeError if the change is refused, TimeoutError.
        """
        run = self._living()
        names, schemas = checked(run.plan, request)
        streams = [_streams(run.plan)[name].name for name in names]
        width = run.plan.logical.window_seconds
        if isinstance(run, JoinedRun):  # raises unless all streams are of one region
            reads: list[Edit] = [
                AddOperator("query", {}),
                *(AddSink(stream, "query.data") for stream in streams),
            ]
            width = region_of(run.regions, reads).plan.logical.window_seconds
        with self._lock:
            if len(list(_operators(run.plan))) >= MOST_QUERIES:
                raise ChangeError(f"{MOST_QUERIES} queries run already; end some of them")
            taken = {one.name for one in run.plan.logical.operators}
            self._count += 1
            while f"query_{self._count}" in taken:
                self._count += 1
            name = f"query_{self._count}"
            self._read_at[name] = _CLOCK.monotonic() + timeout
        windows = max(1, math.ceil(request.every / width - 1e-6))
        query = SqlQuery(
            request.sql,
            names,
            schemas=schemas,
            every_windows=windows,
            times=request.times,
            rows=request.rows,
            seconds=request.seconds,
            memory_mb=request.memory_mb,
        )
        sinks = [AddSink(stream, f"{name}.{port}") for stream, port in zip(streams, _PORTS, strict=False)]
        added = AddOperator(name, spec_of_operator(name, query, {}))
        asked = run.changes.ask(EditPlan((added, *sinks), f"query: {request.sql[:200]}"), who)
        if not asked.done.wait(timeout):
            run.changes.withdraw(asked.number)
            if not asked.done.is_set():  # claimed for a window that has not begun: too late to withdraw it
                raise TimeoutError(f"no window began within {timeout:g} s")
        if asked.state in {REFUSED, WITHDRAWN}:
            raise ChangeError(asked.reason or "no window began in time; the query is not inserted")
        self._touch(name)
        self._watch()
        return name

    def read(self, name: str, seen: int, wait: float) -> tuple[list[QueryResult], str | None]:
        """The results after the number `seen`, waiting for the next one; and why it has ended, if it has.

        Raises KeyError if there is no such query.
        """
        deadline = _CLOCK.monotonic() + wait
        while True:
            run = self._run()
            publisher = None if run is None else run.publishers.get(name)
            if not isinstance(publisher, QueryResults):
                if name in self._ended:
                    return [], self._ended[name]
                raise KeyError(
                    f"there is no query `{name}`; it has ended, or nobody read it for {self.lease:g} s"
                )
            self._touch(name)
            found = publisher.after(seen)
            if found or publisher.closed:
                last = publisher.last
                why = "the application or a change has ended it" if publisher.closed else None
                return found, (last.error if last is not None else why)
            if (left := deadline - _CLOCK.monotonic()) <= 0:
                return [], None
            with publisher.news:
                if not publisher.closed:  # asked again under the lock: its end would not wake us
                    publisher.news.wait(min(left, _POLL_SECONDS))

    def remove(self, name: str, who: str = "query", why: str = "") -> AnyAsked | None:
        """Ask for the removal of a query; None if it is not there, or is being removed."""
        run = self._run()
        with self._lock:
            if run is None or name in self._removed or name not in {one.name for one in _operators(run.plan)}:
                return None
            self._ended[name] = why
            while len(self._ended) > _MOST_KNOWN:
                oldest = next(iter(self._ended))
                del self._ended[oldest]
                self._read_at.pop(oldest, None)
            asked = self._removed[name] = run.changes.ask(
                EditPlan((RemoveOperator(name),), why or "the query has ended"), who
            )
        return asked

    def rows(self) -> list[Any]:
        """The queries that run, as REST shows them."""
        run = self._run()
        found = []
        for one in [] if run is None else _operators(run.plan):
            query: Any = one.operator
            publisher = run.publishers.get(one.name) if run is not None else None
            newest = publisher.after(-1)[-1:] if isinstance(publisher, QueryResults) else []
            found.append(
                {
                    "name": one.name,
                    "sql": query.sql,
                    "streams": list(query.tables),
                    "everyWindows": query.every_windows,
                    "results": newest[0].number if newest else 0,
                    "seconds": newest[0].seconds if newest else None,
                    "bytes": newest[0].bytes if newest else None,
                }
            )
        return found

    def _living(self) -> AnyRun:
        run = self._run()
        if run is None or run.changes.closed:
            raise ChangeError("the application runs no more; a query needs one that runs")
        return run

    def _touch(self, name: str) -> None:
        self._read_at[name] = _CLOCK.monotonic()

    def _watch(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._sweep, name="ridgeline-queries", daemon=True)
                self._thread.start()

    def _sweep(self) -> None:
        """Remove queries that have ended, have no reader, or lack a stream, until there are none."""
        began = _CLOCK.monotonic()
        while True:
            run = self._run()
            with self._lock:
                here = [] if run is None or run.changes.closed else list(_operators(run.plan))
                self._removed = {name: one for name, one in self._removed.items() if not one.done.is_set()}
                if not here:
                    self._thread = None
                    return
            for one in here:
                assert run is not None  # noqa: S101  else there were none
                publisher = run.publishers.get(one.name)
                last = publisher.last if isinstance(publisher, QueryResults) else None
                idle = _CLOCK.monotonic() - self._read_at.get(one.name, began)
                if last is not None:
                    if idle > _LAST_SECONDS:
                        self.remove(one.name, why=last.error)
                elif idle > self.lease:
                    self.remove(one.name, why=f"nobody has read it for {self.lease:g} s")
                elif _inputs(run.plan, one.name) < len(_query(one).tables):
                    self.remove(one.name, why="a stream that it reads is gone")
            del run  # a run that is over must not live on for this thread
            _CLOCK.wait(_POLL_SECONDS)


def checked(plan: Plan, request: QueryRequest) -> tuple[list[str], list[str]]:
    """The streams that the SQL names, and their schemas as texts. Raises QueryError."""
    tables, objects = {}, []
    for name, stream in _streams(plan).items():
        batch = stream.schema.encode([])
        if holds_pickles(batch):
            objects.append(name)
        else:
            tables[name] = pa.Table.from_batches([batch]).replace_schema_metadata()
    engine = SqlEngine(request.memory_mb, request.rows)
    try:
        named = engine.run(request.sql, tables, _CHECK_SECONDS, names=True).tables
    except QueryError as error:
        for name in objects:
            if name.lower() in request.sql.lower():
                raise QueryError(
                    f"{error}; the tuples of `{name}` are Python objects, which have no columns"
                ) from None
        raise
    finally:
        engine.close()
    known = [stream.name for stream in plan.logical.streams]
    if not named:
        raise QueryError(f"the SQL names no stream; {did_you_mean('', known)}")
    if len(named) > MOST_STREAMS:
        raise QueryError(
            f"a query reads up to {MOST_STREAMS} streams; this one names {len(named)}: {', '.join(named)}"
        )
    return named, [schema_text(tables[name].schema) for name in named]


def seconds_of(value: object) -> float:
    """A duration. Raises QueryError."""
    try:
        return parse_duration(value)
    except ValueError as error:
        raise QueryError(str(error)) from None


def tables_of(
    queries: Queries, name: str, seconds: float | None, times: int, alive: Any
) -> Iterator[pa.Table]:
    """The results of a query as they come; it is removed when the iterator ends or is closed.

    Raises QueryError if it ends by an error.
    """
    deadline = None if seconds is None else _CLOCK.monotonic() + seconds
    seen, count = 0, 0
    try:
        while True:
            left = _POLL_SECONDS if deadline is None else deadline - _CLOCK.monotonic()
            if left <= 0 or not alive():
                return
            try:
                found, why = queries.read(name, seen, min(left, _POLL_SECONDS))
            except KeyError as error:
                raise QueryError(str(error.args[0])) from None
            for result in found:
                seen = result.number
                if result.error:
                    raise QueryError(result.error)
                yield result.table().replace_schema_metadata(metadata_of(result))
                count += 1
                if 0 < times <= count or result.last:
                    return
            if why is not None:
                if why and not found:
                    raise QueryError(why)
                return
    finally:
        queries.remove(name, "Python")


def metadata_of(result: QueryResult) -> Mapping[str, str]:
    """The metadata of a result's schema."""
    return {
        "ridgeline.number": str(result.number),
        "ridgeline.first_window": str(result.first_window),
        "ridgeline.window": str(result.window),
        "ridgeline.tuples": str(result.tuples),
        "ridgeline.bytes": str(result.bytes),
        "ridgeline.seconds": f"{result.seconds:.6f}",
        "ridgeline.more": str(result.more).lower(),
    }


def _streams(plan: Plan) -> dict[str, Any]:
    """The streams, by name and by `operator.port`."""
    found: dict[str, Any] = {}
    for stream in plan.logical.streams:
        found[stream.name] = stream
    for stream in plan.logical.streams:
        found.setdefault(str(stream.source), stream)
    return found


def _operators(plan: Plan) -> Iterator[Any]:
    return (one for one in plan.logical.operators if isinstance(one.operator, SqlQuery))


def _query(logical: Any) -> SqlQuery:
    query: SqlQuery = logical.operator
    return query


def _inputs(plan: Plan, name: str) -> int:
    return sum(sink.operator == name for stream in plan.logical.streams for sink in stream.sinks)
