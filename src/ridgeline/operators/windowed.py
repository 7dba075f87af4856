"""Aggregates by key and window of record time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import compress
from operator import attrgetter
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from ridgeline.api import (
    InputPort,
    KeyedState,
    OutputPort,
    State,
)
from ridgeline.api.cells.cell import Declaration
from ridgeline.api.columns.combined import Combined, Combiner, Combines
from ridgeline.api.context import OperatorContext
from ridgeline.api.support.duration import Duration, PositiveDuration, parse_duration
from ridgeline.api.times import EARLIEST, LATEST
from ridgeline.operators import _vectors as vectors
from ridgeline.operators._divided import TogetherCodec
from ridgeline.operators.aggregate import Aggregate
from ridgeline.operators.aggregate.exact import rules_of
from ridgeline.operators.windows import (
    Counted,
    Global,
    RollingCount,
    RollingTime,
    Session,
    Sliding,
    Windows,
)
from ridgeline.operators.windows.columns import (
    NEVER,
    AggregatingOperator,
    Columns,
    Parts,
    Records,
    Result,
    WindowKind,
)
from ridgeline.operators.windows.fixed import FixedWindows, WindowCombiner
from ridgeline.operators.windows.rolling_windows import RollingCountWindows, RollingTimeWindows
from ridgeline.operators.windows.sessions import CountedWindows, SessionWindows

_FAR = 2 * LATEST
_KINDS: Mapping[type, type[WindowKind]] = {
    Sliding: FixedWindows,
    Session: SessionWindows,
    Counted: CountedWindows,
    RollingTime: RollingTimeWindows,
    RollingCount: RollingCountWindows,
    Global: SessionWindows,
}


def _last(count: int, name: tuple[Any, ...]) -> tuple[Any, ...]:
    """The last columns of a name of state."""
    return name[len(name) - count :]


class Windowed(AggregatingOperator, Combines):
    """Aggregate records by key and window of record time; emit each window once its time is over.

    Input: any stream with record times, of inputs that declare a `lateness`. Output, when the watermark has
    passed the end of a window: the key's columns, and those of `values`. A null is no value of a column.
    Windows come in the order of their ends. At the end of the input all are emitted.

    `windows`: `tumbling("1d", zone="Europe/Berlin")`, `sliding("1h", "15m")`, `session(gap="30s")`,
    `rolling("5m")`, `tumbling(count=100)`, `rolling(count=100)` or `global_window()`. `key`: a column, or
    several; `()`: all records together. `values`: the aggregates by the name of their column, see
    `ridgeline.operators.aggregate`. `lateness`: a window stays open for so much longer. `timestamp`: the
    column of the output that holds the results' times.

    Rolling windows have a result for each record once the watermark has passed it. They begin a `span`
    before the record, exclusively, and end with it. Windows by count take records in the order in which they
    come, and are emitted once they are full. They begin and end with their oldest and newest records, as the
    global window does.

    `close_after="10s"`: once nothing has come for 10 s of the clock, all open windows close, whatever the
    watermark is. Records that come later for such a window are late. A new process waits again.

    Open windows may have early results, at the end of a streaming window. `early="5s"` emits those with new
    records every 5 s of the clock, `early_count=100` those with so many new ones. With `accumulation` as
    `"accumulating"` a result has all records so far, with `"discarding"` those since the result before. The
    last result comes when the window ends; if discarding, only for new records. `aggregate.is_final()` marks
    the last. An early session may join another one later: then its results begin at another time.

    A record is late if all its windows had ended, by the watermark less `lateness`, when its streaming window
    began. A session of it alone ends `gap` after it. Late records are counted, and go to the error port
    `late`. So do those without a time, or with one before the year 1000 or after the year 8998. Raises
    RidgelineError for a stream whose records have no times, or without a watermark.

    Partitions: by key. Round robin and `partition_parallel` are refused with RidgelineError when a key comes
    to another partition than by key. The order of records matters only to `first` and `last`, and there only
    of those of one time. Sums are exact, and rounded once.

    `combine=False`: partitions get each record. Else tumbling and sliding windows are aggregated in part
    before records are sent, where many of them have few keys. Results are the same.

    Example:
        >>> from datetime import UTC, datetime
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Windowed, aggregate, tumbling
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> Click = NamedTuple("Click", [("user", str), ("time", datetime)])
        >>> def at(minute, second):
        ...     return datetime(2026, 1, 1, 12, minute, second, tzinfo=UTC)
        >>> clicks = [("ann", at(0, 5)), ("ann", at(1, 2)), ("bob", at(0, 59)), ("ann", at(0, 58))]
        >>> app = Application("clicks")
        >>> source = app.add_operator("source", ListInput(Click, clicks, "time", lateness="5s"))
        >>> values = {"minute": aggregate.window_start(), "clicks": aggregate.count()}
        >>> windowed = app.add_operator("windowed", Windowed(tumbling("1m"), key="user", values=values))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("clicks", source.output, windowed.input)
        >>> app.add_stream("counts", windowed.output, sink.input)
        >>> for row in run_local(app).collected("sink"):
        ...     print(row["user"], row["minute"].strftime("%H:%M"), row["clicks"])
        ann 12:00 2
        bob 12:00 1
        ann 12:01 1
    """

    state_depends_on = ("key", "windows", "values", "has_early")

    input = InputPort(Any, codec=TogetherCodec())
    output = OutputPort(Any)
    late = OutputPort(Any, late=True, optional=True)

    windows: Windows
    key: str | tuple[str, ...]
    values: dict[str, Aggregate] = Field(min_length=1)
    lateness: Duration = 0.0
    timestamp: str | None = None
    early: PositiveDuration | None = None
    early_count: int | None = Field(default=None, ge=1)
    accumulation: Literal["accumulating", "discarding"] = "accumulating"
    close_after: PositiveDuration | None = None
    combine: bool = True

    open = KeyedState(tuple, moves_by=partial(_last, 0))
    """By (start, *key) the parts of a window; of sessions, by key the open ones, the oldest first."""
    due = State(NEVER, moves="least")
    """When the first open window ends, in microseconds since 1970; it may be before that."""
    fired = State(0.0, moves="least")
    """When early results were emitted, seconds since 1970; 0: not since the first record."""
    waiting = KeyedState(tuple, moves_by=tuple)
    """Of rolling windows by key the records that the watermark has not passed."""
    shut = State(EARLIEST, moves="greatest")
    """When the last window ends that the clock has closed, in microseconds since 1970."""

    @classmethod
    def states_of(cls, keys: Mapping[str, Sequence[str]]) -> dict[str, Declaration]:
        """Windows move with their keys."""
        return {"open": KeyedState(tuple, moves_by=partial(_last, len(keys["input"])))}

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse options that do not fit the windows, and columns of one name."""
        faults = super().property_faults()
        for name, value in (("early", self.early), ("early_count", self.early_count)):
            if value is not None and isinstance(self.windows, (Counted, RollingTime, RollingCount)):
                faults.append(
                    (name, value, "must be left out: windows by count and rolling ones have no early results")
                )
        if self.accumulation == "discarding" and self.early is None and self.early_count is None:
            faults.append(("accumulation", self.accumulation, "needs `early` or `early_count`"))
        if isinstance(self.windows, Session):
            for name, one in self.values.items():
                if one.kind == "reduce" and one.option("initial") is not None and one.option("merge") is None:
                    faults.append(("values", name, "needs `merge=` of `reduce`: two sessions may become one"))
        if self.timestamp is not None and self.timestamp not in self.values:
            faults.append(("timestamp", self.timestamp, "must be one of `values`"))
        return faults

    def needs_times(self) -> str:
        """For all kinds of windows."""
        return "puts records into windows"

    def timestamp_of(self, port: str) -> str | None:
        """The column that `timestamp` names."""
        return self.timestamp if port == "output" else None

    def setup(self, context: OperatorContext) -> None:
        """Results are as old as `lateness` allows."""
        self.wait = context.watermark_delay = round(parse_duration(self.lateness) * 1_000_000)
        # early results ask for the records since the last one, windows by count for theirs
        counted = self.has_early or isinstance(self.windows, Counted)
        self.columns = Columns(self, self.values, counted=counted)
        self.kind = _KINDS[type(self.windows)](self, self.columns, self.windows)
        self.silence = None if self.close_after is None else Silence(parse_duration(self.close_after))

    @property
    def has_early(self) -> bool:
        """Whether windows may have early results: then they count new records."""
        return self.early is not None or self.early_count is not None

    @property
    def _closed(self) -> int:
        """Windows that end by then are over, in microseconds since 1970."""
        watermark = self.context.watermark_microseconds
        return NEVER if watermark >= LATEST else max(watermark - self.wait, self.shut)

    def combiner(self, outputs: Collection[str]) -> Combiner | None:
        """Of windows whose borders times alone decide, and aggregates with small parts.

        None where late records are read: then they must come as they are.
        """
        small = all(rules_of(one).combines for one in self.values.values())
        own = type(self).add is Windowed.add
        if not (self.combine and own and small and isinstance(self.windows, Sliding)) or "late" in outputs:
            return None
        return WindowCombiner(self.windows, self.key_names, tuple(self.values.values()))

    @input.process_batch
    def add(self, batch: pa.RecordBatch | Combined) -> None:
        """Add the records of a batch to their windows; late ones go to `late`. Or merge partial results.

        All records of a partial result are late, or none: they have a key and their last window in common.
        """
        counts, parts = None, None
        if isinstance(batch, Combined):
            times, counts, parts = batch.starts, batch.counts, batch.parts
            if self.columns.counted:
                parts = [(*one, count) for one, count in zip(parts, counts.tolist(), strict=True)]
            batch, timed = batch.batch, np.ones(len(times), np.bool_)
        else:
            times = self.record_times(batch, "puts records into windows")
            timed = vectors.timed(times)
            if not timed.all():
                # any valid time: arithmetic on `NO_TIME` would overflow; `there` drops these rows
                times = np.where(timed, times, EARLIEST)
        starts, ends = self.kind.bounds(times)
        closed = self._closed
        there = timed & vectors.later(ends, closed)
        if not there.all():
            if counts is None:
                self.late.emit_batch(vectors.filtered(batch, ~there), rows=~there)
            else:
                # nothing reads the port: how many there are is all that counts
                nothing = pa.nulls(int(counts[~there].sum()), pa.int8())
                self.late.emit_batch(pa.record_batch([nothing], ["late"]))
            batch, times = vectors.filtered(batch, there), times[there]
            starts = starts[there]
            parts = None if parts is None else list(compress(parts, there.tolist()))
        if len(times):
            if self.silence is not None:
                self.silence.broken = True
            codes, keys = np.zeros(len(times), np.int64), list[tuple[Any, ...]]([()])
            if self.key_names:
                codes, keys = vectors.key_codes([batch.column(name) for name in self.key_names])
            self.refuse_stray_keys(batch, self.key_names, codes, len(keys))
            self.kind.add(Records(batch, times, starts, codes, keys, closed, parts))

    def end_window(self) -> None:
        """Emit the windows whose time is over, and early results of others."""
        closed = self._closed
        if closed >= self.due:
            self.emit_final(self.kind.close(closed))
        if self.silence is not None:
            self._end_silence(self.silence)
        if self.has_early:
            self._emit(self._early(), final=False)

    def emit_final(self, over: list[Result]) -> None:
        """Emit the results of windows whose time is over; those without new records not, if discarding."""
        if self.accumulation == "discarding":
            over = [one for one in over if one.parts[-1]]
        self._emit(over, final=True)

    def _end_silence(self, silence: Silence) -> None:
        """Close all windows once nothing has come for so long, as if the watermark had passed them."""
        if silence.is_over(self.context.watermark_microseconds, self.context.window_time_microseconds):
            last = self.kind.last_end()
            self.emit_final(self.kind.close(last))
            if last < LATEST:  # else no record is ever late
                self.shut = max(self.shut, last)

    def _early(self) -> list[Result]:
        """The open windows that have new records for an early result, which then are new no more."""
        least, changed = self.early_count or NEVER, self.open.changed()
        now = self.context.clock.wall()
        if self.early is not None and len(self.open):
            # the second: the wall clock was set back, so the period starts again
            if not self.fired or self.fired > now:
                self.fired = now
            elif now - self.fired >= parse_duration(self.early):
                self.fired, least, changed = now, 1, iter(list(self.open.items()))
        found: list[Result] = []
        # a copy, as results set their windows again below
        for name, value in list(changed):
            due, after = self.kind.early(name, value, least, self._after_result)
            if due:
                found += due
                self.open[name] = after
        return found

    def _after_result(self, parts: Parts) -> Parts:
        """The parts that are kept of a window whose result was emitted."""
        return (None,) * len(parts) if self.accumulation == "discarding" else (*parts[:-1], None)

    def _emit(self, results: Sequence[Result], *, final: bool) -> None:
        """Emit results, in the order of their ends."""
        self.columns.emit(sorted(results, key=attrgetter("end", "start")), final=final)


class Silence:
    """How long nothing has come to an operator, by the times at which windows begin.

    It is no state: a new process waits again.
    """

    def __init__(self, seconds: float) -> None:
        self.microseconds = round(seconds * 1_000_000)
        self.watermark: int | None = None
        self.broken = False
        self.since = 0
        self.over_at = _FAR

    def is_over(self, watermark: int, now: int) -> bool:
        """Whether nothing came for so long; called once a window. `now`: microseconds since 1970.

        True in one window of a silence only, in all attempts at it.
        """
        if self.broken or watermark != self.watermark or now < self.since:
            self.broken, self.watermark, self.since, self.over_at = False, watermark, now, _FAR
        if now - self.since < self.microseconds or now > self.over_at:
            return False
        self.over_at = now
        return True
