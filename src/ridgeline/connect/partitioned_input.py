"""The base of inputs that read a source of several partitions, each with a position."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field
from typing_extensions import TypeVar

from ridgeline.api.attributes import OnError
from ridgeline.api.clock import SystemClock
from ridgeline.api.columns.schema import Schema
from ridgeline.api.context import OperatorContext
from ridgeline.api.enumerator import Enumerator
from ridgeline.api.errors import RidgelineError, shorten
from ridgeline.api.ports import OutputPort
from ridgeline.api.push_input import PushInput
from ridgeline.api.state import State
from ridgeline.api.support.duration import Duration, parse_duration
from ridgeline.api.support.emitting import Emits
from ridgeline.api.support.event_time import EventTime
from ridgeline.api.support.masking import masked_and_shortened
from ridgeline.api.times import EARLIEST, LATEST, NO_TIME, Mark, Microseconds, Times, column_times
from ridgeline.connect._enumerating import PartitionedEnumerator, begin_of
from ridgeline.connect._watching import RETRIED
from ridgeline.connect.outage import Outage
from ridgeline.connect.reader import Lost, ReaderContext, Records, SourceRange, SourceReader
from ridgeline.connect.source import Source

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_SAID_FIRST_SECONDS = 5.0
_log = logging.getLogger(__name__)
Given = Times | str | None
"""The times of records: as such, or as the name of a column."""


class Reading:
    """The reader of a container. `attempt`: the one that has emitted last."""

    def __init__(self, reader: SourceReader, context: ReaderContext) -> None:
        self.reader = reader
        self.context = context
        self.attempt: tuple[int, str] | None = None
        self._opened = False

    def read(self, parts: Sequence[SourceRange]) -> list[tuple[str, Any]]:
        """Read; where the other side cannot be reached, again and again from the start of the window."""
        notes = [part.note for part in parts]
        pause, clock = _FIRST_PAUSE, SystemClock()
        outage, began = Outage(clock, _SAID_FIRST_SECONDS), clock.monotonic()
        engine, name = self.context.operator.engine, self.context.operator.name
        while True:
            left_out, handed_over = len(engine.left_out), len(engine.handed_over)
            try:
                if not self._opened:
                    self.reader.open(self.context)
                    self._opened = True
                found = list(self.reader.read_all(parts))
            except RETRIED as error:
                self.close()
                if outage.goes_on(clock.monotonic()):
                    what = "`%s` has read nothing for %.0f s, and tries again: %s"
                    _log.warning(what, name, clock.monotonic() - began, masked_and_shortened(error))
                del engine.left_out[left_out:]
                del engine.handed_over[handed_over:]
                for part, note in zip(parts, notes, strict=True):
                    part.note = note
                clock.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                if (lasted := outage.end()) is not None:
                    _log.warning("`%s` reads again, after %.0f s", name, lasted)
                return found

    def close(self) -> None:
        """Close the reader."""
        self._opened = False
        with contextlib.suppress(*RETRIED):
            self.reader.close()


def batches(records: Records, schema: Schema) -> Iterable[tuple[pa.RecordBatch, Given]]:
    """Records as Arrow batches in the schema, with their times. Raises SchemaError for those that misfit."""
    rows, times = records
    if not isinstance(rows, pa.Table):
        rows = pa.Table.from_batches([rows if isinstance(rows, pa.RecordBatch) else schema.encode(rows)])
    if isinstance(times, pa.ChunkedArray):
        times = times.combine_chunks()
    first = 0
    for batch in rows.to_batches():
        given: Given = times
        if times is not None and not isinstance(times, str):
            part = times[first : first + batch.num_rows]
            given = Times(column_times(part) if isinstance(part, pa.Array) else np.asarray(part, np.int64))
        yield schema.conform(batch), given
        first += batch.num_rows


def times_of(batch: pa.RecordBatch, times: Given) -> Microseconds | None:
    """The times of records; None if they have none."""
    if isinstance(times, str):
        index = batch.schema.get_field_index(times)
        return column_times(batch.column(index)) if index >= 0 else None
    return times.newest if isinstance(times, Times) else None


T = TypeVar("T", default=Any)
_CLOSED = ""
"""The name of the mark of all source partitions that are closed."""
Kept = dict[str, tuple[int, Any]]
"""By source partition: its newest time, and the reader's note."""


def _united(values: Sequence[Kept], partitions: int) -> list[Kept]:
    """Each partition gets all; it drops what is not its own in its next window."""
    every: Kept = {}
    for name, (newest, note) in (item for value in values for item in value.items()):
        known = every.get(name, (NO_TIME, None))
        every[name] = max(known[0], newest), known[1] if note is None else note
    return [every] * partitions


class PartitionedInput(EventTime, PushInput, Emits[T]):
    """Emit the records of a source that has partitions with positions, each exactly once and in order.

    A subclass returns the two halves of a connector. `source` says on the driver which source partitions
    there are and how far each is. `reader` reads them in the containers. The driver decides what a window
    reads, and the window's commit keeps it. Source partition `n`, in the order in which they were found, is
    read by partition `n` modulo their number.

    - `begin`: where a fresh run begins. `"earliest"`, `"latest"`, a time (a `datetime`, or ISO 8601 text), or
      a position by source partition. Those that are found later begin with their earliest record;
    - `until="end"`: ends with the records that were there when the run began;
    - `timestamp`: the column with the records' times, a `datetime`. Without it they have those of the source;
    - `lateness` ("5s", or seconds) promises that no record is older by more than the newest before it in its
      source partition. The watermark is that of the source partition that is most behind;
    - `idle_after`: a source partition without a record for that time holds no watermark up;
    - `discover_every`: how often it looks for new source partitions;
    - `window_records`, `window_bytes`: a window reads no more.

    While the source cannot be reached the application waits for it, and says so.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.connect import PartitionedInput, Source, SourceReader
        >>> from ridgeline.testing import CollectorSink, run_local
        >>> class Number(NamedTuple):
        ...     partition: str
        ...     value: int
        >>> class Numbers(Source):
        ...     def partitions(self):
        ...         return ["a", "b"]
        ...
        ...     def ends(self, wait):
        ...         return {"a": 2, "b": 1}
        ...
        ...     def start(self, partitions, begin):
        ...         return dict.fromkeys(partitions, 0)
        >>> class ReadNumbers(SourceReader):
        ...     def read(self, part):
        ...         yield [Number(part.partition, value) for value in range(part.start, part.end)]
        >>> class NumbersInput(PartitionedInput[Number]):
        ...     output = OutputPort(Number)
        ...
        ...     def source(self) -> Source:
        ...         return Numbers()
        ...
        ...     def reader(self) -> SourceReader:
        ...         return ReadNumbers()
        >>> app = Application("numbers")
        >>> numbers = app.add_operator("numbers", NumbersInput(until="end"), partitions=2)
        >>> sink = app.add_operator("sink", CollectorSink(Number))
        >>> app.add_stream("numbers", numbers.output, sink.input)
        >>> sorted(run_local(app).collected("sink"))
        [Number(partition='a', value=0), Number(partition='a', value=1), Number(partition='b', value=0)]
    """

    progress_unit = "records"
    leaves_out_records = True
    waits_for_unread: ClassVar[bool] = True
    """Whether a source partition of which no record was read yet holds the watermark back."""
    needs_until: ClassVar[bool] = False
    """Whether `finished` of the source is true with `until` only."""
    output = OutputPort[T](Any)

    begin: str | datetime | dict[str, Any] | None = Field(default=None, kw_only=True)
    until: Literal["end"] | None = Field(default=None, kw_only=True)
    discover_every: Duration = Field(default=10.0, kw_only=True)
    window_records: int = Field(default=4_000_000, gt=0, kw_only=True)
    window_bytes: int = Field(default=256 * 2**20, gt=0, kw_only=True)

    _kept = State[Kept]({}, moves=_united)

    # What a connector overrides -----------------------------------------------------------------------------

    def source(self) -> Source:
        """The half that runs on the driver. Called on the driver, once a run."""
        raise NotImplementedError

    def reader(self) -> SourceReader:
        """The half that reads records in a container. Called in each container."""
        raise NotImplementedError

    # What the base does -------------------------------------------------------------------------------------

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a place to begin at that is none."""
        faults = super().property_faults()
        try:
            begin_of(self.begin)
        except ValueError:
            rule = 'must be "earliest", "latest", a time (ISO 8601), or a position by source partition'
            faults.append(("begin", self.begin, rule))
        return faults

    def enumerator(self) -> Enumerator:
        """The part that runs on the driver."""
        return PartitionedEnumerator(self.source(), self)

    def setup(self, context: OperatorContext) -> None:
        """Make the readers; they connect when there is something to read."""
        skips = context.attributes.get("on_error") is OnError.SKIP
        surroundings = ReaderContext(context, self.output.schema, self._leave_out, skips, self._lose)
        self._reading = Reading(self.reader(), surroundings)

    def teardown(self) -> None:
        """Close the readers."""
        self._reading.close()

    def emit_tuples(self) -> None:
        """Emit this partition's share of what the window reads. Raises what the reader does."""
        attempt, offsets = (self.context.window_id, self.context.container_attempt), self.context.offsets
        if attempt == self._reading.attempt or offsets is None or offsets.end is None:
            return
        self._reading.attempt = attempt
        start, end, kept = offsets.start, offsets.end, dict(self._kept)
        parts = [] if start == end else list(self._parts(start, end, kept))
        if parts:
            for name, records in self._reading.read(parts):
                newest = self._emit(records)
                if newest != NO_TIME:
                    kept[name] = max(newest, kept.get(name, (NO_TIME, None))[0]), None
        for part in parts:
            kept[part.partition] = kept.get(part.partition, (NO_TIME, None))[0], part.note
        self._keep(self._own(kept, end), end)
        if end["ended"]:
            self.finish()

    def progress(self) -> tuple[float, float | None] | None:
        """Records, or bytes where these are what is known: this partition's share of them."""
        offsets = self.context.offsets
        if offsets is None or offsets.end is None:
            return None
        end, count = offsets.end, self.context.partitions
        unit = "bytes" if self.progress_unit == "bytes" else "records"
        return end[unit] / count, end["ahead"][unit == "bytes"] / count

    def _parts(self, start: Any, end: Any, kept: Kept) -> Iterable[SourceRange]:
        """The ranges of this partition in what the window reads."""
        before = {} if start is None else start["at"]
        new = end.get("new", {})
        for name, (number, position) in (end["at"] | end.get("closed", {})).items():
            if number % self.context.partitions != self.context.partition:
                continue
            begin = new[name] if name in new else before[name][1]
            if begin != position:
                yield SourceRange(name, begin, position, kept.get(name, (NO_TIME, None))[1])

    def _emit(self, records: Any) -> int:
        """Emit records. Returns their newest time in microseconds, or NO_TIME."""
        if not isinstance(records, Records):
            records = Records(records)
        newest = NO_TIME
        for batch, given in batches(records, self.output.schema):
            times = given if self.timestamp is None else self.timestamp
            self.output.emit_timed(batch, times)
            if self.lateness is not None:
                newest = max(newest, self._newest(batch, times))
        return newest

    def _newest(self, batch: pa.RecordBatch, times: Given) -> int:
        """The newest time that is not further ahead of the clock than `time_ahead_limit`."""
        found = times_of(batch, times)
        if found is None or not len(found):
            return NO_TIME
        limit = self.context.clock.wall() + self.context.attributes["time_ahead_limit"]
        within = found[found <= min(round(limit * 1e6), LATEST - 1)]
        return int(within.max(initial=NO_TIME))

    def _own(self, kept: Kept, end: Any) -> Kept:
        """Times and notes of what is this partition's, with the newest time of what is closed."""
        at, closed = end["at"], end.get("closed", {})
        floor = kept.pop(_CLOSED, (NO_TIME, None))[0]
        own: Kept = {}
        for name, (newest, note) in kept.items():
            if name in closed or name not in at:
                floor = max(floor, newest)
            elif at[name][0] % self.context.partitions == self.context.partition:
                own[name] = newest, note
        own = {name: value for name, value in own.items() if value != (NO_TIME, None)}
        if floor != NO_TIME:
            own[_CLOSED] = floor, None
        return own

    def _keep(self, own: Kept, end: Any) -> None:
        """Keep times and notes of what is this partition's, and pass on the watermark."""
        if self.lateness is not None:
            self.context.engine.marks_read = self._marks(own, end, parse_duration(self.lateness))
        if own != self._kept:
            self._kept = own

    def _marks(self, own: Kept, end: Any, lateness: float) -> list[Mark]:
        """The watermarks: that of the source partition that is most behind counts."""
        late = round(lateness * 1_000_000)
        marks: list[Mark] = []
        for name, (number, _) in end["at"].items():
            if number % self.context.partitions == self.context.partition:
                at = own.get(name, (NO_TIME, None))[0]
                if at == NO_TIME and not self.waits_for_unread:
                    continue
                marks.append((EARLIEST if at == NO_TIME else at - late, name in end["idle"]))
        floor = own.get(_CLOSED, (NO_TIME, None))[0]
        if not marks and floor != NO_TIME:  # others are read on, or all is read
            marks.append((floor - late, bool(end["at"])))
        return marks

    def _lose(self, partition: str, records: int, text: str) -> None:
        """Let the driver say that records are gone, once the window is committed."""
        self.context.hand_over(Lost(partition, records, text))

    def _leave_out(self, partition: str, position: Any, record: str, reason: str) -> None:
        """Leave out a record that cannot be read. Raises RidgelineError unless `on_error` is SKIP."""
        what = f"record {position} of `{partition}` cannot be read: {reason}"
        if self.context.attributes.get("on_error") is OnError.SKIP:
            self.context.leave_out(record, what)
            return
        remedy = "fix it, or leave such records out with `on_error=SKIP`"
        raise RidgelineError(f"`{self.context.name}`: {what}; got {shorten(record)}; {remedy}")
