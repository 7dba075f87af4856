"""Triggers, which make windows begin: STRAM's clock, or the micro-batches of one streaming query."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from pyspark.sql.pandas.types import to_arrow_schema

from ridgeline.api.attributes import OnError
from ridgeline.api.clock import Clock
from ridgeline.api.errors import CheckpointError, RidgelineError
from ridgeline.api.operator import SparkSource
from ridgeline.engine.driver.checkpoint.manifest import SourceOffsets
from ridgeline.engine.driver.run.run import IDLE_SECONDS, ApplicationRun
from ridgeline.engine.driver.slots.feed import SourceBatch
from ridgeline.engine.driver.slots.spark_errors import query_cause
from ridgeline.engine.driver.spark_source.lag import BatchShare, SourceLagMonitor
from ridgeline.engine.driver.spark_source.offset_log import SparkLog
from ridgeline.engine.driver.spark_source.offsets import QueryProgress
from ridgeline.engine.spark.java_object import call_each_batch
from ridgeline.plan.execution import Plan
from ridgeline.plan.logical import LogicalOperator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ridgeline.engine.spark.java_object import JavaObject

_T = TypeVar("_T")
IDLE_WINDOW_SECONDS = 0.5
"""How long a window is held back for inputs that have nothing."""
_MOST_LATE = 10
"""The most windows that are begun at once since they are late; those before them never are."""
_READ_SECONDS = 0.1
"""How often Spark's account of windows is read: each read costs the JVM some work."""


class Limits:
    """When to stop: `stop` is set (Ctrl-C), `windows` are committed in this run, or all inputs have ended."""

    def __init__(self, run: ApplicationRun, windows: int | None, stop: threading.Event) -> None:
        self._run = run
        self._last = run.master.committed + windows if windows is not None else None
        self._stop = stop

    @property
    def reached(self) -> bool:
        """True if no further window is to be committed that is not under way."""
        done = self._last is not None and self._run.master.committed >= self._last
        return done or self._run.master.ended or self._asked

    @property
    def _asked(self) -> bool:
        return self._run.stopping or self._stop.is_set()

    def over(self) -> bool:
        """True if no window is waited for any more; those that are still under way are void."""
        late = self._run.lets_go(asked=self._asked)
        return self.reached and (late or not self._run.master.under_way)

    @property
    def may_begin(self) -> bool:
        """True if a further window is to begin, once STRAM allows it."""
        return not self.reached and (self._last is None or self._run.master.next_window <= self._last)


class TickTrigger:
    """Begins a window every `window_seconds` (no Spark sources), while others may be under way.

    Late ones begin at once; none is skipped, unless one may stand for several (`PlanTraits.merges_late`).
    While all inputs wait for their tuples, the next window is held back until one of them has some, for
    `IDLE_WINDOW_SECONDS` at most. Where operators count windows none is.
    """

    def __init__(self, run: ApplicationRun, clock: Clock, stop: threading.Event) -> None:
        self._run = run
        self._clock = clock
        self._stop = stop

    def drive(self, limits: Limits) -> None:
        """Run windows until the limits are over. Raises what a window raises."""
        run = self._run
        run.executor.open()
        width = run.plan.logical.window_seconds
        due = began = self._clock.monotonic()
        held = False
        while not limits.over():
            run.take_changes()
            master = run.master
            now = self._clock.monotonic()
            may_wait = master.idle and not master.traits.counts_windows
            begins = max(due, began + IDLE_WINDOW_SECONDS) if may_wait else due
            if not (limits.may_begin and run.may_begin):
                waits = limits.may_begin and not (master.can_begin and master.held)
                held = held or run.paused
                if run.paused and not master.under_way:
                    run.wait_until_due(_READ_SECONDS, self._stop)
                elif waits or not run.commit_held():
                    run.poll_windows(IDLE_SECONDS)
            elif now >= begins:
                if held:  # it is not late: there was nothing to do, or nobody wanted it
                    due, held = now, False
                began = now
                run.begin(master.next_window, due=self._clock.wall() - (now - due))
                latest = 0 if master.traits.merges_late else _MOST_LATE
                due = max(due + width, self._clock.monotonic() - latest * width)
            else:
                held = held or now >= due
                if master.under_way > master.held:
                    run.poll_windows(begins - now)
                else:
                    run.wait_until_due(begins - now, self._stop)


class QueryTrigger:
    """Begins a window with each micro-batch of one query over all Spark sources.

    Its containers keep what is beyond the window's budget. Windows without a micro-batch follow until none of
    it is left, and only then Spark plans the next one. Python inputs of the application run in the same
    windows.
    """

    def __init__(self, run: ApplicationRun, session: SparkSession, checkpoint: str, clock: Clock) -> None:
        self._run = run
        self._session = session
        self._checkpoint = checkpoint
        self._sources = [
            logical for logical in run.plan.logical.operators if isinstance(logical.operator, SparkSource)
        ]
        self._names = ", ".join(f"`{logical.name}`" for logical in self._sources)
        first_partitions = [_partitions(run.plan, logical.name)[0] for logical in self._sources]
        self._progress = QueryProgress(run.observe, clock, first_partitions)
        self._first_partitions = first_partitions
        last = run.checkpoint.last()
        self._lag_monitor = SourceLagMonitor(
            run.observe,
            clock,
            -1 if last is None or last.offsets is None else last.offsets.batch,
            run.checkpoint.storage,
            self._share,
        )
        self._log = SparkLog(run.checkpoint.storage, [logical.name for logical in self._sources])
        self._clock = clock
        self._idled = clock.monotonic()

    def drive(self, limits: Limits) -> None:
        """Start the query and block until the limits are reached.

        Raises what a window raises; RidgelineError if the query fails by itself.
        """
        errors: list[BaseException] = []
        over = threading.Event()
        busy = threading.Lock()

        def each_batch(rows: JavaObject, batch_id: int) -> None:
            with busy:
                try:
                    run_window(rows, batch_id)
                except BaseException as error:
                    errors.append(error)
                    over.set()
                    raise
            if limits.reached:
                over.set()

        def run_window(rows: JavaObject, batch_id: int) -> None:
            if limits.reached or errors:
                raise _StopQueryError
            self._wait_while_paused(limits)
            self._run_windows(SourceBatch(rows, schema, self._containers), batch_id, limits)

        trigger = {"processingTime": f"{self._run.plan.logical.window_seconds} seconds"}
        self._resume(limits)
        frame = _union(frames := self._frames())
        schema: bytes = to_arrow_schema(frame.schema, timezone="UTC").serialize().to_pybytes()
        writer = frame.writeStream.option("checkpointLocation", self._checkpoint).trigger(**trigger)
        call_each_batch(writer, self._session, each_batch)
        query = self._start(writer, frames)
        try:
            while not over.wait(_READ_SECONDS) and query.isActive and not limits.reached:
                self._progress.read(query)
                self._idle(busy)
        except RidgelineError as error:  # of a publisher: raised below, once the query has stopped
            errors.append(error)
        self._lag_monitor.stop()
        with busy:  # the window that runs must end, publication included: stopping the query interrupts it
            pass
        self._progress.finish(query)
        failure = None if errors or query.isActive else query.exception()
        _stop(query)
        self._raise(errors, failure)

    def _raise(self, errors: list[BaseException], failure: Exception | None) -> None:
        """Raise what has ended the query, if that was no limit."""
        for error in errors:
            if not isinstance(error, _StopQueryError):
                raise error
        if failure is not None:
            remedy = "fix the source and run again with the same `--checkpoint`"
            raise RidgelineError(
                f"operator {self._names}: its Spark source failed: {query_cause(failure)}; {remedy}"
            )

    def _resume(self, limits: Limits) -> None:
        """Compare Spark's log with the last commit, and work off what was left of its micro-batch."""
        self._log.check(self._run.checkpoint.last())
        self._run.executor.open()
        if self._log.last is not None:
            self._run.inputs.waiting[self._first_partitions[0]] = self._log.last.waiting
            self._work_off(limits)

    def _start(self, writer: DataStreamWriter, frames: list[DataFrame]) -> StreamingQuery:
        """Start the query, and ask its sources beside it."""
        query = _guard(self._names, writer.start)
        self._lag_monitor.start(query, self._first_partitions, frames)
        return query

    def _run_windows(self, batch: SourceBatch, batch_id: int, limits: Limits) -> None:
        """Run the windows of a micro-batch. Raises _StopQueryError if the limits are over before."""
        window_id, offsets = self._run.next_window, self._offsets(batch_id)
        with self._lag_monitor.window(batch_id):
            if not self._run.window(window_id, batch, offsets, limits.over):
                raise _StopQueryError
        if not self._work_off(limits):
            raise _StopQueryError
        batch.finish()
        self._progress.committed(batch_id, window_id, batch.jobs)

    def _work_off(self, limits: Limits) -> bool:
        """Run windows until nothing is left of the last micro-batch; False if the limits are over before."""
        run, sources = self._run, range(len(self._sources))
        while any(left := list(map(self._left, sources))) or run.master.under_way:
            if limits.over():
                return False
            run.take_changes()
            if any(left) and limits.may_begin and run.may_begin:
                run.begin(run.master.next_window, offsets=self._log.last)
            elif any(left) or not run.commit_held():
                self._progress.left(run.master.committed, left)
                run.poll_windows(_READ_SECONDS)
        return True

    def _left(self, number: int) -> int:
        """How many rows of a source's last micro-batch are in no window yet. Any thread may ask."""
        waiting = self._run.inputs.waiting
        return sum(waiting.get(one, 0) for one in _partitions(self._run.plan, self._sources[number].name))

    def _share(self, number: int) -> BatchShare:
        """Of a source's last micro-batch. Any thread may ask."""
        running, name = next(iter(self._run.master.windows.all), None), self._sources[number].name
        if running is None:
            return BatchShare(-1, 0.0, self._left(number))
        budget = running.budgets.get(name)
        return BatchShare(
            running.window_id, math.inf if budget is None else budget.records, self._left(number)
        )

    def _containers(self) -> tuple[tuple[int, ...], ...]:
        """The containers that read each source, in the plan of now."""
        return tuple(_containers(self._run.plan, logical.name) for logical in self._sources)

    def _wait_while_paused(self, limits: Limits) -> None:
        """A micro-batch has come: hold it back while no window is wanted, or an output is full."""
        self._run.take_changes()
        while (self._run.paused or self._run.outputs.full is not None) and not limits.reached:
            self._run.wait_until_due(_READ_SECONDS)
            self._run.take_changes()
        if limits.reached:
            raise _StopQueryError

    def _idle(self, busy: threading.Lock) -> None:
        """Take in what has come of slots and what was asked for, and let outputs publish once a second.

        Skipped while a micro-batch runs.
        """
        if not busy.acquire(blocking=False):
            return
        try:
            self._run.turn(0.0)
            self._run.take_changes()
            if self._clock.monotonic() - self._idled >= IDLE_SECONDS:
                self._idled = self._clock.monotonic()
                self._run.idle()
        finally:
            busy.release()

    def _offsets(self, batch_id: int) -> SourceOffsets:
        """Where a micro-batch ends. Raises CheckpointError if it is not the next one."""
        last = self._log.last
        following = 0 if last is None else last.batch + 1
        if batch_id != following:
            found = f"Spark's offset log is at micro-batch {batch_id}, the journal at {following}"
            raise CheckpointError(f"{found}; restore the whole checkpoint folder from a copy")
        return self._log.offsets(batch_id)

    def _frames(self) -> list[DataFrame]:
        """The sources' streaming DataFrames."""
        return [
            _guard(f"`{logical.name}`", partial(_frame, logical, self._session)) for logical in self._sources
        ]


def _union(frames: list[DataFrame]) -> DataFrame:
    """The source's streaming DataFrame; of several, the union whose rows the feed takes apart."""
    if len(frames) == 1:
        return frames[0]
    from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

    kinds = [frame.schema for frame in frames]
    tagged = []
    for number, frame in enumerate(frames):
        columns = [
            F.struct(*frame.columns).alias(f"source{other}")
            if other == number
            else F.lit(None).cast(kind).alias(f"source{other}")
            for other, kind in enumerate(kinds)
        ]
        tagged.append(frame.select(F.lit(number).alias("number"), *columns))
    union = tagged[0]
    for frame in tagged[1:]:
        union = union.unionAll(frame)
    return union


class _StopQueryError(Exception):
    """Raised in a micro-batch that must not run any more. Spark repeats it after the next start."""


def _stop(query: StreamingQuery) -> None:
    """Stop the query. A micro-batch that has begun meanwhile is refused and repeated after the restart."""
    with contextlib.suppress(Exception):  # what counts is committed; Spark complains about what it was doing
        query.stop()


def _source(logical: LogicalOperator) -> SparkSource:
    return cast("SparkSource", logical.operator)


def _frame(logical: LogicalOperator, session: SparkSession) -> DataFrame:
    """The streaming DataFrame of a source, as its `on_error` wants it."""
    source = _source(logical)
    if source.leaves_out_records and logical.attributes["on_error"] is OnError.SKIP:
        return source.sifting_frame(session)
    return source.frame(session)


def _containers(plan: Plan, name: str) -> tuple[int, ...]:
    """The containers that hold the partitions of an operator, in their order."""
    return tuple(plan.execution.homes[operator] for operator in _partitions(plan, name))


def _partitions(plan: Plan, name: str) -> tuple[int, ...]:
    """The physical operators that are the partitions of an operator, in their order."""
    return tuple(
        physical.id for physical in plan.physical.operators if physical.name == name and not physical.unifier
    )


def _guard(name: str, function: Callable[[], _T]) -> _T:
    try:
        return function()
    except RidgelineError:
        raise
    except Exception as error:
        what = f"Spark cannot read its source: {query_cause(error)}"
        raise RidgelineError(f"operator {name}: {what}; check `format`, `options` and `schema`") from error
