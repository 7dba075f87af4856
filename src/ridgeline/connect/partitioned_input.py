"""The base of inputs that read a source of several partitions, each with a position."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field
from pydantic.fields import FieldInfo
from typing_extensions import TypeVar

from ridgeline.api.attributes import OnError
from ridgeline.api.context import OperatorContext
from ridgeline.api.enumerator import Enumerator
from ridgeline.api.errors import RidgelineError, SchemaError, shorten
from ridgeline.api.operator import operator_type, port_schema
from ridgeline.api.ports import OutputPort
from ridgeline.api.push_input import PushInput
from ridgeline.api.state import State
from ridgeline.api.support.duration import duration_faults, parse_duration
from ridgeline.api.support.emitting import Emits
from ridgeline.api.support.properties import check_properties
from ridgeline.api.times import EARLIEST, LATEST, NO_TIME, Mark
from ridgeline.connect._enumerating import PartitionedEnumerator, Settings, begin_of
from ridgeline.connect._history import AtSeam, HistoryEnumerator, Seam
from ridgeline.connect._reading import Bounds, Given, Reading, batches, bounded, times_of
from ridgeline.connect.reader import Lost, ReaderContext, Records, SourceRange, SourceReader
from ridgeline.connect.source import Source

T = TypeVar("T", default=Any)
_CLOSED = ""
"""The name of the mark of all source partitions that are closed."""
_OF_HISTORY = "\n"
"""In the state the names of source partitions of a history begin with it."""
_EVERYTHING = Bounds()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MARGIN = timedelta(hours=1)
"""A record's own time may be so much later than the time by which a source finds it."""
Kept = dict[str, tuple[int, Any]]
"""By source partition: its newest time, and the reader's note."""


def _united(values: Sequence[Kept], partitions: int) -> list[Kept]:
    """Each partition gets all; it drops what is not its own in its next window."""
    every: Kept = {}
    for name, (newest, note) in (item for value in values for item in value.items()):
        known = every.get(name, (NO_TIME, None))
        every[name] = max(known[0], newest), known[1] if note is None else note
    return [every] * partitions


class PartitionedInput(PushInput, Emits[T]):
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
    - `window_records`, `window_bytes`: a window reads no more;
    - `history`: another input with the same columns. It is read first, up to what it has when the run begins.
      Then this one follows, whose positions are held from the start. Without `begin` it begins after the
      newest record of the history. With a time, records before it are those of the history, later ones those
      of this input. With positions, "earliest" or "latest" all of both is read.

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
    gives_record_times: ClassVar[bool] = False
    """Whether `Records` of the reader have times: then `lateness` needs no `timestamp`."""
    waits_for_unread: ClassVar[bool] = True
    """Whether a source partition of which no record was read yet holds the watermark back."""
    needs_until: ClassVar[bool] = False
    """Whether `finished` of the source is true with `until` only."""
    output = OutputPort[T](Any)

    begin: str | datetime | dict[str, Any] | None = Field(default=None, kw_only=True)
    until: Literal["end"] | None = Field(default=None, kw_only=True)
    timestamp: str | None = Field(default=None, kw_only=True)
    lateness: float | str | None = Field(default=None, kw_only=True)
    idle_after: float | str | None = Field(default=None, kw_only=True)
    discover_every: float | str = Field(default=10.0, kw_only=True)
    window_records: int = Field(default=4_000_000, gt=0, kw_only=True)
    window_bytes: int = Field(default=256 * 2**20, gt=0, kw_only=True)
    history: PartitionedInput | None = Field(default=None, kw_only=True)

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
        """Refuse times that are none, and a `lateness` of records without times."""
        faults = duration_faults(self, "lateness", "idle_after", "discover_every")
        if self.lateness is not None and self.timestamp is None and not self.gives_record_times:
            rule = "needs `timestamp`, the column with the records' times"
            faults.append(("lateness", self.lateness, rule))
        try:
            begin_of(self.begin)
        except ValueError:
            rule = 'must be "earliest", "latest", a time (ISO 8601), or a position by source partition'
            faults.append(("begin", self.begin, rule))
            return faults
        return faults if self.history is None else [*faults, *self._history_faults(self.history)]

    def _history_faults(self, history: PartitionedInput) -> list[tuple[str, object, str]]:
        """Refuse a history that cannot be read, or that does not fit."""
        trial = copy.copy(history)
        trial.timestamp, trial.until = history.timestamp or self.timestamp, "end"
        validated, problems = check_properties(trial)
        if problems:
            return [(f"history.{name}", value, rule) for name, value, rule in problems]
        kept = {"timestamp": history.timestamp, "until": history.until}
        vars(history).update({**validated, **kept}, _given={})
        faults: list[tuple[str, object, str]] = []
        usual = PartitionedInput.enumerator
        if type(self).enumerator is not usual:
            faults.append(("history", history, "cannot be: this input says by itself what each window reads"))
        if type(history).enumerator is not usual:
            rule = "cannot be read as one: it says by itself what each window reads"
            faults.append(("history", history, rule))
        if history.history is not None:
            faults.append(("history.history", history.history, "cannot be: a history has none itself"))
        if history.lateness is not None and self.lateness is None:
            rule = "needs a `lateness` of the input that has this history"
            faults.append(("history.lateness", history.lateness, rule))
        if history.timestamp is not None and self.timestamp not in (None, history.timestamp):
            rule = f"must be `{self.timestamp}`, the column of the input that has this history"
            faults.append(("history.timestamp", history.timestamp, rule))
        try:
            own, other = port_schema(self, "output"), port_schema(history, "output")
        except SchemaError:
            return faults  # reported with the port
        if own is not None and other is not None and own.arrow != other.arrow:
            rule = f"must have the columns of the input: {own.describe()}"
            faults.append(("history.schema", other.describe(), rule))
        if (self.begin is None or isinstance(begin_of(self.begin), datetime)) and not self._timed:
            rule = "must be positions, or give `timestamp`: without times of all records nobody knows "
            faults.append(("begin", self.begin, f"{rule}which ones the history has"))
        return faults

    @property
    def _timed(self) -> bool:
        """Whether the records of both, history and live source, have times."""
        history = self.history
        return self.timestamp is not None or (
            history is not None
            and self.gives_record_times
            and (history.timestamp is not None or history.gives_record_times)
        )

    def shown_parts(self) -> dict[str, object]:
        """The properties that differ from their defaults, for views of an input that is a history."""
        found: dict[str, object] = {"class": type(self).__name__}
        for name, default in operator_type(type(self)).properties.items():
            value = vars(self).get(name, default)
            usual = default.default if isinstance(default, FieldInfo) else default
            if name != "context" and (type(value), repr(value)) != (type(usual), repr(usual)):
                found[name] = value
        return found

    def settle_properties(self) -> None:
        """Let the history resolve what depends on the driver's environment."""
        if self.history is not None:
            self.history.settle_properties()

    def timestamp_of(self, port: str) -> str | None:
        """The column that `timestamp` names."""
        return self.timestamp

    def lateness_of(self, port: str) -> float | None:
        """The `lateness` in seconds."""
        return None if self.lateness is None else parse_duration(self.lateness)

    def idle_seconds(self) -> float | None:
        """`idle_after` in seconds."""
        return None if self.idle_after is None else parse_duration(self.idle_after)

    def enumerator(self) -> Enumerator:
        """The part that runs on the driver."""
        settings = self._window_settings()
        if self.history is None:
            return PartitionedEnumerator(self.source(), settings)
        follows = settings.begin is None or (self.begin is None and settings.begin == "earliest")
        margin = timedelta(0) if self.timestamp is None else _MARGIN
        if settings.begin is None:  # what comes while the history is read must not be lost
            settings = settings._replace(begin="latest")
        elif isinstance(begin := begin_of(settings.begin), datetime):
            settings = settings._replace(begin=begin - margin)
        before = copy.copy(self.history)
        before.until = "end"
        history = PartitionedEnumerator(before.source(), before._window_settings())  # noqa: SLF001  alike
        live = PartitionedEnumerator(self.source(), settings)
        return HistoryEnumerator(history, live, Seam(follows, self._seam_time, self._timed, margin))

    @property
    def _seam_time(self) -> datetime | None:
        """The time at which the live source begins; None if `begin` is none."""
        begin = begin_of(self.begin)
        return begin if isinstance(begin, datetime) else None

    def _window_settings(self) -> Settings:
        return Settings(
            self.begin,
            self.until,
            self.idle_seconds() if self.lateness is not None else None,
            parse_duration(self.discover_every),
            self.window_records,
            self.window_bytes,
        )

    def setup(self, context: OperatorContext) -> None:
        """Make the readers; they connect when there is something to read."""
        skips = context.attributes.get("on_error") is OnError.SKIP
        surroundings = ReaderContext(context, self.output.schema, self._leave_out, skips, self._lose)
        self._reading = Reading(self.reader(), surroundings)
        if self.history is not None:
            self._reading_history = Reading(self.history.reader(), surroundings)

    def teardown(self) -> None:
        """Close the readers."""
        self._reading.close()
        if self.history is not None:
            self._reading_history.close()

    def emit_tuples(self) -> None:
        """Emit this partition's share of what the window reads. Raises what the reader does."""
        attempt, offsets = (self.context.window_id, self.context.container_attempt), self.context.offsets
        if attempt == self._reading.attempt or offsets is None or offsets.end is None:
            return
        self._reading.attempt = attempt
        start, end, kept = offsets.start, offsets.end, dict(self._kept)
        if "history" in end:
            before = {"history": None, "live": None} if start is None else start
            if end["seam"] is None:
                self._emit_history(kept, before["history"], end)
                return
            start, end, seam = before["live"], end["live"], end["seam"]
            kept = {name: value for name, value in kept.items() if name[:1] != _OF_HISTORY}
            bounds = Bounds(least=seam["from"], known=seam["newest"])
            said = self._read(self._reading, kept, start, end, bounds)
            said = AtSeam(early=0 if seam["passing"] else said.early, between=said.between)
            if said != AtSeam():
                self.context.hand_over(said)
            self._keep(self._own(kept, end), end, NO_TIME if seam["from"] is None else seam["from"])
        else:
            self._read(self._reading, kept, start, end, _EVERYTHING)
            self._keep(self._own(kept, end), end)
        if end["ended"]:
            self.finish()

    def _emit_history(self, kept: Kept, start: Any, offset: Any) -> None:
        """Emit this partition's share of what a window reads of the history."""
        history, end = self.history, offset["history"]
        assert history is not None  # noqa: S101  its offset is there
        own = {name[1:]: value for name, value in kept.items() if name[:1] == _OF_HISTORY}
        late = history.lateness_of("output")
        self.context.engine.marks_read = None if self.lateness is None else [(EARLIEST, False)]
        if end is not None:
            at = self._seam_time
            until = None if at is None else round((at - _EPOCH) / timedelta(microseconds=1))
            said = self._read(self._reading_history, own, start, end, Bounds(end=until))
            own = self._own(own, end)
            if offset["asks"]:
                said = said._replace(newest=max((newest for newest, _ in own.values()), default=NO_TIME))
            if said != AtSeam():
                self.context.hand_over(said)
            if late is not None:
                self.context.engine.marks_read = self._marks(
                    own, end, late, NO_TIME, waits=history.waits_for_unread
                )
        live = {name: value for name, value in kept.items() if name[:1] != _OF_HISTORY}
        self._set_kept(live | {f"{_OF_HISTORY}{name}": value for name, value in own.items()})

    def _read(self, reading: Reading, kept: Kept, start: Any, end: Any, bounds: Bounds) -> AtSeam:
        """Emit this partition's share of what is between two offsets, and note times in `kept`."""
        parts = [] if start == end else list(self._parts(start, end, kept))
        if not parts:
            return AtSeam()
        total = AtSeam()
        for name, records in reading.read(parts):
            newest, one = self._emit(records, bounds, of_history=reading is not self._reading)
            if newest != NO_TIME:
                kept[name] = max(newest, kept.get(name, (NO_TIME, None))[0]), None
            total = total.plus(one)
        for part in parts:
            newest = kept.get(part.partition, (NO_TIME, None))[0]
            kept[part.partition] = newest, part.note
        return total

    def progress(self) -> tuple[float, float | None] | None:
        """Records, this partition's share of them."""
        return self._share(0, "records")

    def _share(self, place: int, name: str) -> tuple[float, float | None] | None:
        offsets = self.context.offsets
        if offsets is None or offsets.end is None:
            return None
        end, count = offsets.end, self.context.partitions
        if "history" in end:
            left = end["left"][place]
            return end["done"][place] / count, None if left is None else left / count
        return end[name] / count, end["ahead"][place] / count

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

    def _emit(self, records: Any, bounds: Bounds, *, of_history: bool) -> tuple[int, AtSeam]:
        """Emit records. Returns their newest time in microseconds, or NO_TIME; and how many these were."""
        if not isinstance(records, Records):
            records = Records(records)
        newest, total = NO_TIME, AtSeam()
        column = self.timestamp
        if of_history and column is None and self.history is not None:
            column = self.history.timestamp
        for read, given in batches(records, self.output.schema):
            batch, times, found, between = read, given if column is None else column, 0, 0
            if bounds != _EVERYTHING:
                batch, times, found, between = bounded(batch, times, column, bounds)
            self.output.emit_timed(batch, times)
            if of_history:
                left = read.num_rows - batch.num_rows
                total = total.plus(AtSeam(None, batch.num_rows, batch.nbytes, found, left))
            else:
                total = total.plus(AtSeam(early=found, between=between))
            if self.lateness is not None or of_history:
                newest = max(newest, self._newest(batch, times, column))
        return newest, total

    def _newest(self, batch: pa.RecordBatch, times: Given, column: str | None) -> int:
        """The newest time that is not further ahead of the clock than `time_ahead_limit`."""
        found = times_of(batch, times, column)
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

    def _keep(self, own: Kept, end: Any, unread: int = NO_TIME) -> None:
        """Keep times and notes of what is this partition's, and pass on the watermark."""
        if self.lateness is not None:
            self.context.engine.marks_read = self._marks(
                own, end, parse_duration(self.lateness), unread, waits=self.waits_for_unread
            )
        self._set_kept(own)

    def _set_kept(self, kept: Kept) -> None:
        if kept != self._kept:
            self._kept = kept

    def _marks(self, own: Kept, end: Any, lateness: float, unread: int, *, waits: bool) -> list[Mark]:
        """The watermarks: that of the source partition that is most behind counts.

        `unread`: no record of a source partition of which none was read is older. `waits`: such ones count.
        """
        late = round(lateness * 1_000_000)
        marks: list[Mark] = []
        for name, (number, _) in end["at"].items():
            if number % self.context.partitions == self.context.partition:
                at = own.get(name, (NO_TIME, None))[0]
                if at == NO_TIME and not waits:
                    continue
                at = unread if at == NO_TIME else at
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
        remedy = "mend it, or leave such records out with `on_error=SKIP`"
        raise RidgelineError(f"`{self.context.name}`: {what}; got {shorten(record)}; {remedy}")
