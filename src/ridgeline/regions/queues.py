"""The queues between regions: their ends, how much waits in each, how old it is, when no room is left."""

from __future__ import annotations

import logging
import math
import threading
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from ridgeline.api.clock import SystemClock
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.duration import parse_duration
from ridgeline.api.support.masking import mask_text
from ridgeline.measure.answers.regions import WaitingAnswer
from ridgeline.measure.events import ApplicationPlanned, RunEvent, SourceProgress, WindowCommitted
from ridgeline.operators._queue_files import LostError, QueueFolder, folder_of, reader_name
from ridgeline.operators._queue_log import LogReader
from ridgeline.operators.queue_input import QueueInput
from ridgeline.operators.queue_output import QueueOutput
from ridgeline.plan.region import QueueEdge
from ridgeline.regions.region_run import RegionRun

_log = logging.getLogger(__name__)
_CLOCK = SystemClock()
RATE_SECONDS = 10.0
"""Rates are over so long."""
_MOST_KEPT = 1_000_000
_WINDOWS = 1000
GROWS = 0.05
"""The share of what is written that must stay unread for a backlog to grow."""


def queue_writer(path: str, keep: float | str, readers: Sequence[str], application: str) -> QueueOutput:
    """The writer of a queue that these operators of the application read, each in a run of its own.

    Rows wait for each of them, also for one that has not started yet.
    """
    names = tuple(reader_name(application, reader) for reader in readers)
    return QueueOutput(path=path, keep=keep, readers=names)


def queue_reader(path: str, schema: Schema) -> QueueInput[object]:
    """A reader that waits for its queue until the writer has made it."""
    return QueueInput(path=path, schema=schema.type, when_missing="wait")


def is_read(path: str, application: str, reader: str) -> bool:
    """Whether an operator has committed all that is in a queue. Raises OSError."""
    folder = folder_of(path)
    positions = [folder.registered(one).next for one in folder.runs_of(reader_name(application, reader))]
    return not _holds_rows(folder, max(positions, default=None))


def is_read_by_all(path: str) -> bool:
    """Whether all operators that have registered have committed all that is in a queue. Raises OSError."""
    folder = folder_of(path)
    positions = [folder.registered(one).next for one in folder.readers_known()]
    return not _holds_rows(folder, min(positions, default=None))


def _holds_rows(folder: QueueFolder, position: int | None) -> bool:
    """Whether there is anything from a position on; None: from the first entry on."""
    return bool(folder.logs()) if position is None else bool(LogReader(folder, position).read(1))


class Place(NamedTuple):
    """An entry of a queue: the window that wrote it, and when."""

    window: int
    time: float


class QueueLog:
    """Follows the log of a queue: when its entries were written, and how large they are.

    It reads what was appended since the last question, and keeps the last million entries. `lock` is to be
    held from `read` to the last question about what was read.
    """

    def __init__(self, path: str) -> None:
        self.folder = folder_of(path)
        self.lock = threading.RLock()
        self._reader: LogReader | None = None
        self._looked = -math.inf
        self._failing = False
        self._clear(0)

    def _clear(self, first: int) -> None:
        self.first = first
        """The number of the first entry that is kept."""
        self._before = 0, 0
        """The tuples and bytes of the entries before it."""
        self._times, self._windows = array("d"), array("q")
        self._totals, self._sizes = array("q"), array("q")

    def read(self) -> None:
        """Take in what was appended. A queue that is not there yet is empty."""
        with self.lock:
            now = _CLOCK.monotonic()
            if now - self._looked < self.folder.look_seconds:
                return
            self._looked = now
            try:
                self._read()
                self._failing = False
            except (OSError, ValueError, RidgelineError) as error:
                if not self._failing:  # once, however long it lasts
                    text = mask_text(str(error))
                    _log.warning("queue `%s` cannot be read for its figures: %s", self.folder.path, text)
                self._failing = True

    def _read(self) -> None:
        """Take in what was appended; the caller holds the lock. Raises OSError, ValueError."""
        if self._reader is None:
            if not (firsts := self.folder.logs()):
                return
            self._begin(firsts[0])
        assert self._reader is not None  # noqa: S101  begun above
        self._reader.hurry()
        try:
            while entries := self._reader.read():
                for entry in entries:
                    if not self._times and self.first == entry.number:
                        self._before = entry.total - entry.rows, 0
                    size = (self._sizes[-1] if self._sizes else self._before[1]) + entry.size
                    self._times.append(entry.time)
                    self._windows.append(entry.window)
                    self._totals.append(entry.total)
                    self._sizes.append(size)
        except LostError as lost:
            self._begin(lost.first)
        if len(self._times) > _MOST_KEPT:
            count = len(self._times) // 4
            self._before = self._totals[count - 1], self._sizes[count - 1]
            self.first += count
            for values in (self._times, self._windows, self._totals, self._sizes):
                del values[:count]

    def _begin(self, first: int) -> None:
        self._reader = LogReader(self.folder, first)
        self._clear(first)

    @property
    def end(self) -> int:
        """The number of the entry that will be appended next."""
        return self.first + len(self._times)

    def sums(self, position: int) -> tuple[int, int]:
        """The tuples and bytes of all entries before this one, as far as they are known."""
        at = position - self.first
        if at <= 0 or not self._times:
            return self._before
        at = min(at, len(self._times)) - 1
        return self._totals[at], self._sizes[at]

    def position_of(self, rows: int) -> int:
        """The number of the first entry that is not within the first `rows` tuples."""
        return self.first + bisect_right(self._totals, rows)

    def entry(self, position: int) -> Place | None:
        """An entry; None if it is not kept, or not there yet."""
        at = position - self.first
        if not 0 <= at < len(self._times):
            return None
        return Place(self._windows[at], self._times[at])

    def rates(self, now: float) -> tuple[float, float]:
        """Tuples and bytes written per second over the last `RATE_SECONDS`."""
        at = bisect_right(self._times, now - RATE_SECONDS)
        if at >= len(self._times):
            return 0.0, 0.0
        before = (self._totals[at - 1], self._sizes[at - 1]) if at else self._before
        span = RATE_SECONDS if at else max(1e-3, now - self._times[0])
        return (self._totals[-1] - before[0]) / span, (self._sizes[-1] - before[1]) / span


class ReadWindow(NamedTuple):
    """A committed window of a reader: the tuples that it has read before it and by its end."""

    began: float
    before: int
    rows: int


class QueueMeter:
    """One reader of a queue: how far it is, by its committed windows and by what it has registered."""

    def __init__(self, edge: QueueEdge, writer: RegionRun, reader: RegionRun, log: QueueLog) -> None:
        self.edge = edge
        self.writer = writer
        self.reader = reader
        self.log = log
        output = queue_of(edge, writer)
        self.keep_seconds, self.keep_bytes = parse_duration(output.keep), output.keep_bytes
        self._path = str(output.path)
        self._name = reader_name(reader.plan.logical.application, edge.reader)
        self._lock = threading.Lock()
        self._partitions: dict[int, int] = {}
        """Of each id that the reader has had, how many partitions it had then."""
        self._pending: dict[int, int] = {}
        self._windows: dict[int, ReadWindow] = {}
        self._rows = 0
        self._position = 0
        self._looked = -math.inf
        reader.watch.subscribe(self.observe)

    def observe(self, event: RunEvent) -> None:
        """Take in how far the reader is, in the thread of its region."""
        if isinstance(event, SourceProgress):
            count = self._partitions.get(event.operator)
            if count is not None and event.consumed is not None:
                self._pending[event.window_id] = round(event.consumed * count)
        elif isinstance(event, WindowCommitted):
            with self._lock:
                rows = self._pending.pop(event.window_id, self._rows)
                self._pending = {w: rows for w, rows in self._pending.items() if w > event.window_id}
                self._windows[event.window_id] = ReadWindow(event.began, self._rows, rows)
                self._rows = rows
                while len(self._windows) > _WINDOWS:
                    del self._windows[next(iter(self._windows))]
        elif isinstance(event, ApplicationPlanned):
            nodes = event.topology.partitions_of(self.edge.reader)
            self._partitions |= {node.id: len(nodes) for node in nodes}

    def window(self, window_id: int) -> ReadWindow | None:
        """The part of the queue that a window of the reader's region has read; None if it is not kept."""
        with self._lock:
            return self._windows.get(window_id)

    def read_per_second(self, now: float) -> float:
        """Tuples read per second over the last `RATE_SECONDS`; 0 while its region does not run."""
        if self.reader.state != "RUNNING":
            return 0.0
        with self._lock:
            windows = [one for one in self._windows.values() if one.began > now - RATE_SECONDS]
        if not windows:
            return 0.0
        span = min(RATE_SECONDS, max(1e-3, now - windows[0].began))
        return sum(one.rows - one.before for one in windows) / span

    @property
    def is_full(self) -> bool:
        """True while the writer's region begins no window, since this reader has not read the queue."""
        run = self.writer.run
        why = None if run is None or self.writer.state != "RUNNING" else run.outputs.why_held
        return why is not None and f"`{self._path}`" in why and f"`{self._name}-" in why

    def position(self) -> int:
        """The first entry that the reader has not committed."""
        log = self.log
        return max(log.first, log.position_of(self._rows) if self._rows else 0, self._registered())

    def _registered(self) -> int:
        """The position that the reader has written into the queue's folder; 0 without."""
        log, now = self.log, _CLOCK.monotonic()
        if now - self._looked < log.folder.readers_look_seconds:
            return self._position
        self._looked = now
        try:
            found = [log.folder.registered(name) for name in log.folder.runs_of(self._name)]
        except (OSError, RidgelineError):
            return self._position  # it is being replaced, or out of reach for a moment
        self._position = max(((one.seen, one.next) for one in found), default=(0.0, 0))[1]
        return self._position


def queue_of(edge: QueueEdge, writer: RegionRun) -> QueueOutput:
    """The writer of a queue."""
    output = writer.plan.logical.operator(edge.writer).operator
    assert isinstance(output, QueueOutput)  # noqa: S101  regions are planned so
    return output


def waiting(meter: QueueMeter, now: float) -> WaitingAnswer:
    """The backlog of a reader, and when the queue will have no room at the present rates."""
    log, written, bytes_written = meter.log, 0.0, 0.0
    with log.lock:
        log.read()
        position = meter.position()
        (before, bytes_before), (total, whole) = log.sums(position), log.sums(log.end)
        tuples, size = max(0, total - before), max(0, whole - bytes_before)
        oldest = log.entry(max(position, log.position_of(before))) if tuples else None
        if meter.writer.state == "RUNNING":
            written, bytes_written = log.rates(now)
    seconds = 0.0 if oldest is None else max(0.0, now - oldest.time)
    read, full = meter.read_per_second(now), meter.is_full
    share = 1.0 - read / written if written > 0 else 0.0
    ends = [0.0] if full else []
    if tuples and not full and share > GROWS:
        ends.append(max(0.0, meter.keep_seconds - seconds) / share)
        if bytes_written > 0:
            ends.append(max(0.0, meter.keep_bytes - size) / (bytes_written * share))
    return {
        "backlogRecords": tuples,
        "backlogBytes": size,
        "backlogSeconds": seconds,
        "writtenPerSecond": written,
        "readPerSecond": read,
        "full": full,
        "fullInSeconds": min(ends, default=None),
    }
