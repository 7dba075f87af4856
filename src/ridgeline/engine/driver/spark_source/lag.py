"""Asks the query's sources, on a timer and beside the windows, how much waits at them.

The query's own streams must not be touched: they belong to its thread, and asking moves them. Only the
offsets of the running batch are read, which any thread may do. Of Kafka a second stream is asked, made from
the same table and options, with time-outs of a few seconds. Other sources are not asked: for them the account
of the last micro-batch is the newest. A failure in here loses metrics and never fails the run.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ridgeline.api.clock import Clock
from ridgeline.api.support.masking import mask_text
from ridgeline.engine.driver.spark_source.offset_log import FOLDER
from ridgeline.engine.driver.spark_source.offsets import distance
from ridgeline.engine.files.storage import Storage
from ridgeline.measure.events import RunEvent, SourceAsked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from ridgeline.engine.spark.java_object import JavaObject

_EVERY_SECONDS = 1.0
_PATIENT = {  # Kafka's own are a minute, several times
    "kafka.request.timeout.ms": "3000",
    "kafka.default.api.timeout.ms": "4000",
    "fetchOffset.numRetries": "1",
    "fetchOffset.retryIntervalMs": "10",
}
_CAUSE_LENGTH = 300


@dataclass(slots=True)
class _Asked:
    """One source: its operator, the stream that is asked (None: none can be), and what was seen of it."""

    operator: int
    stream: Any = None
    first: str | None = None
    base: str | None = None
    taken: float = 0.0
    problem: bool = False


class BatchShare(NamedTuple):
    """How a micro-batch is divided: the window that runs (-1: none does), and how many rows that may have.

    `rest`: the rows in no committed window, once its first window is committed.
    """

    window_id: int
    most: float
    rest: int


class SourceLagMonitor:
    """Emits a `SourceAsked` for each source that can be asked, every second, from a thread of its own.

    `committed`: the last micro-batch that is in committed windows; `storage`: of the checkpoint, in which
    Spark notes where a query begins. `share`: of the last micro-batch of a source, by its place.
    """

    def __init__(
        self,
        observe: Callable[[RunEvent], None],
        clock: Clock,
        committed: int,
        storage: Storage,
        share: Callable[[int], BatchShare],
    ) -> None:
        self._observe = observe
        self._clock = clock
        self._committed = committed
        self._storage = storage
        self._share = share
        self._running: int | None = None
        self._stop = threading.Event()

    @contextlib.contextmanager
    def window(self, batch: int) -> Iterator[None]:
        """The first window with a micro-batch runs; committed if nothing is raised."""
        self._running = batch
        try:
            yield
            self._committed = batch
        finally:
            self._running = None

    def start(self, query: StreamingQuery, operators: Sequence[int], frames: Sequence[DataFrame]) -> None:
        """Ask from now on. `frames`: the sources' DataFrames, before they are joined to one query."""
        try:
            found = [_source_of(frame) for frame in frames]
            asked = [
                _asked(operator, *source)
                for operator, source in zip(operators, found, strict=True)
                if source is not None
            ]
        except Exception:  # noqa: BLE001  a form that a new Spark gives: no figures
            return
        if len(asked) == len(frames) and any(one.stream is not None for one in asked):
            threading.Thread(
                target=self._run, args=(query, asked), name="ridgeline-sources", daemon=True
            ).start()

    def stop(self) -> None:
        """Ask no more; does not wait for an answer."""
        self._stop.set()

    def _run(self, query: StreamingQuery, asked: Sequence[_Asked]) -> None:
        """The thread: ask all sources once a second until `stop`, then end their streams."""
        while not self._clock.wait(_EVERY_SECONDS, self._stop):
            batch = None
            with contextlib.suppress(Exception):
                batch = _batch(query)
            for number, one in enumerate(asked):
                if one.stream is not None and not self._stop.is_set():
                    self._measure(one, batch, number)
        for one in asked:
            with contextlib.suppress(Exception):
                if one.stream is not None:
                    one.stream.stop()

    def _measure(
        self, one: _Asked, batch: tuple[int, list[tuple[str | None, str | None]]] | None, number: int
    ) -> None:
        """Ask one source and emit what it answers. The thread of `_run` calls it; it must not raise.

        `batch`: the last planned batch, with start and end of each source; `number`: the source's place.
        An answer during which a window began or ended is dropped.
        """
        start, end = batch[1][number] if batch is not None and number < len(batch[1]) else (None, None)
        planned = batch[0] if batch is not None else -1
        running, share = self._running, self._share(number)
        rest = 0.0  # of the micro-batch, in no committed window
        if planned == 0 and start is None:
            start = self._first(one, number)
        if planned == running and start is not None:
            rest = distance(start, end) or 0.0
        elif planned != running and planned > self._committed:
            end = start  # planned, but not begun
        elif running is None:
            rest = share.rest
        held = min(rest, share.most)
        try:
            stream = one.stream
            known = stream.deserializeOffset(end or start or "{}")
            latest = str(stream.latestOffset(known, _all_available()).json())
        except Exception as error:  # noqa: BLE001  the broker is away, or a form that a new Spark gives
            if self._stop.is_set():
                return
            text = mask_text(" ".join(_cause(error).split()))[:_CAUSE_LENGTH]
            one.problem = True
            self._emit(SourceAsked(self._clock.wall(), share.window_id, one.operator, problem=text))
            return
        waiting = distance(end, latest)
        if waiting is None or end is None or (planned == running and start is None):
            if one.problem:  # it answers again
                self._emit(SourceAsked(self._clock.wall(), -1, one.operator))
            one.problem = False
            return
        one.problem = False
        one.base = one.base or start or end
        one.taken = max(one.taken, distance(one.base, end) or 0.0)
        event = SourceAsked(
            self._clock.wall(),
            share.window_id,
            one.operator,
            max(0.0, one.taken - (rest - held)),
            held,
            waiting + rest - held,
            cut=rest > held,
        )
        # Else a window has begun or ended meanwhile: the next answer is a second away.
        if self._running == running and self._share(number) == share:
            self._emit(event)

    def _first(self, one: _Asked, number: int) -> str | None:
        """The offset where the query's first batch begins, which Spark does not report; None if unknown."""
        if one.first is None:
            with contextlib.suppress(Exception):  # Spark's notes: a form that a new Spark gives
                note = self._storage.read(f"{FOLDER}/sources/{number}/0").decode()
                one.first = note[note.index("\n") + 1 :].strip() or None  # behind the line with the version
        return one.first

    def _emit(self, event: SourceAsked) -> None:
        with contextlib.suppress(Exception):
            self._observe(event)


def _source_of(frame: DataFrame) -> tuple[str, JavaObject] | None:
    """The name and the relation of the only source of a DataFrame."""
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()  # noqa: SLF001  there is no public way
    if leaves.size() != 1:
        return None
    leaf = leaves.apply(0)
    name = str(leaf.sourceName()) if str(leaf.getClass().getSimpleName()) == "StreamingRelationV2" else ""
    return name, leaf


def _asked(operator: int, name: str, relation: JavaObject) -> _Asked:
    """How to ask a source: by a stream of its own, if it is Kafka, else not at all."""
    if name != "kafka":
        return _Asked(operator)
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm  # noqa: SLF001  as above
    options = jvm.java.util.HashMap(relation.extraOptions().asCaseSensitiveMap())
    for option, value in _PATIENT.items():
        options.putIfAbsent(option, value)
    scan = (
        relation.table()
        .newScanBuilder(jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(options))
        .build()
    )
    # the folder is for first offsets only, which are never asked for
    return _Asked(operator, scan.toMicroBatchStream(""))


def _all_available() -> JavaObject:
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm  # noqa: SLF001  as above
    return jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit.allAvailable()


def _batch(query: StreamingQuery) -> tuple[int, list[tuple[str | None, str | None]]] | None:
    """The last batch that was planned: its number, and start and end of each source as text."""
    execution = query._jsq.streamingQuery()  # noqa: SLF001  as above
    context = execution.getLatestExecutionContext()
    if context is None:
        return None
    sources, starts, ends = execution.sources(), context.startOffsets(), context.endOffsets()
    found = [
        (_offset(starts, sources.apply(number)), _offset(ends, sources.apply(number)))
        for number in range(sources.size())
    ]
    return int(context.batchId()), found


def _offset(progress: JavaObject, source: JavaObject) -> str | None:
    found = progress.get(source)
    return str(found.get().json()) if found.isDefined() else None


def _cause(error: Exception) -> str:
    """The innermost text of what Java raised."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    text = str(error)
    while java is not None:
        text = str(java.getMessage() or java.toString())
        java = java.getCause()
    return text
