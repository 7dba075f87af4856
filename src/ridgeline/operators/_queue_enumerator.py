"""The driver's half of `QueueInput`: which entries a window reads, and how far the reader is."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ridgeline.api.clock import SystemClock
from ridgeline.api.enumerator import Enumerator, EnumeratorContext
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.files import FULL, may_recover
from ridgeline.api.support.masking import mask_text
from ridgeline.api.support.secrets.addresses import mask_addresses
from ridgeline.api.times import Mark
from ridgeline.connect.window_output import write_failure
from ridgeline.operators._queue_files import Entry, LostError, ReaderPosition, folder_of, reader_name
from ridgeline.operators._queue_log import BUNDLE_ENTRIES, LogReader
from ridgeline.operators._queue_publisher import is_opened, listen

if TYPE_CHECKING:
    from ridgeline.operators.queue_input import QueueInput

_log = logging.getLogger(__name__)
_REGISTER_LOOKS = 20
"""The position is registered once in the time of this number of looks."""
_SEEN_SECONDS = 10.0
"""The registration says at least so often that the reader is alive."""
_WRITER_SECONDS = 60.0
"""How long a reader waits at most until the writer, a region of its application, has opened the queue."""
_WINDOW_ROWS = 1_000_000
_WINDOW_BYTES = 64 * 2**20
_WHOLE = 2
"""An entry with more than so many times the budget is read in pieces."""
_AHEAD = 65_536
"""The most entries that the driver holds in memory."""


class Offset(NamedTuple):
    """Where a window ends, as JSON has it.

    `queue`: the id of the queue. `reader`: the name of the registration. `first`: the first entry that it
    reads. `next`: the first one that it does not read to its end. `skip`: the rows of `first` that were read
    before. `rest`: the rows of `next` that are read: of an entry with far more than the budget a window reads
    a piece. `rows`: all rows that were read up to its end. `ahead`: the rows that were left in the queue when
    it began. `ended`: the writer has finished, and all is read. `marks`: the watermark of each partition of
    the writer at its end, and whether that is idle. `last`: what the last entry was that was read, see
    `Entry.digest`.
    """

    queue: str | None
    reader: str
    first: int
    next: int
    skip: int = 0
    rest: int = 0
    rows: int = 0
    ahead: int = 0
    ended: bool = False
    marks: Sequence[Mark] = ()
    last: int | None = None


@dataclass
class _Log:
    """A log that is read from an entry on.

    `waiting`: the entries that the thread has read, and that no window has. `over`: it has found nothing
    behind them. `lost`: why it reads no more.
    """

    reader: LogReader
    waiting: deque[Entry] = field(default_factory=deque)
    over: bool = False
    lost: Exception | None = None


class QueueEnumerator(Enumerator):
    """Reads the log on the driver. A window takes what is there, up to its budget, a million rows or 64 MiB.

    A thread reads ahead, so that windows wait neither for a disk nor for a store.

    The offset of a window is an `Offset` by names, as people see it in the page.
    """

    def __init__(self, operator: QueueInput[Any]) -> None:
        self._operator = operator
        self._log: _Log
        self._look = threading.Event()
        """Whether the thread is to look at once."""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._committed: int | None = None
        self._registered: tuple[int, float] | None = None
        """The position and the time that the registration says."""
        self._error: OSError | None = None
        """Why the queue cannot be read, or the position not be registered."""

    @property
    def _path(self) -> str:
        return str(self._operator.path)

    @property
    def _queue(self) -> str | None:
        """The id of the queue; None as long as it is not there."""
        return self._description.get("id")

    def open(self, context: EnumeratorContext, offset: Any) -> None:
        """Find the place in the log, and register as a reader. Raises RidgelineError if there is no queue."""
        self._context = context
        self._folder = folder_of(self._path)
        if self._operator.when_missing == "wait":
            self._folder.make()
        self._description = self._folder.description
        last = None if offset is None else Offset(**offset)
        if self._queue is None and self._operator.when_missing == "fail":
            msg = f"`{context.operator}`: there is no queue in `{self._path}`; start the application "
            msg += "that writes to it (`QueueOutput`) first, or correct `path`"
            raise RidgelineError(msg)
        if last is not None and last.queue not in (None, self._queue):
            what = f"`{self._path}` holds another queue than the one that this run has read"
            msg = f"`{context.operator}`: {what}; put the former one back, "
            msg += "or begin with the new one on a fresh checkpoint"
            raise RidgelineError(msg)
        self._marks: Sequence[Mark] = ()
        self._waits_for_writer, self._is_fresh = self._is_of_application(), last is None
        self._opened_at = context.clock.monotonic()
        if last is not None:
            self._first = last.next
        else:  # rows stay as long as it has said nothing else
            self._first = 0 if self._waits_for_writer else self._beginning()
        self._begin_at(self._first)
        self._name = f"{reader_name(context.application, context.operator)}-{context.run_id}"
        self._committed = self._first
        if last is not None:
            self._check_last(last)
            if last.reader != self._name:  # it was renamed
                self._folder.forget(last.reader)
        self._register_first()
        self._end_listening = listen(self._path, self._on_append)
        with contextlib.suppress(OSError):  # the thread tries again
            while len(self._log.waiting) < BUNDLE_ENTRIES and self._read_ahead():  # for the first window
                pass
        self._thread = threading.Thread(target=self._watch, name="ridgeline-queue", daemon=True)
        self._thread.start()

    def _check_last(self, offset: Offset) -> None:
        """Raise RidgelineError if the log has another entry where the last one was that was read.

        One that is not there yet is no fault: after a power cut the writer appends it again.
        """
        if offset.last is None:
            return
        with contextlib.suppress(LostError):
            for entry in LogReader(self._folder, offset.next - 1).read(1):
                if entry.digest != offset.last:
                    path = self._path
                    raise RidgelineError(
                        f"`{self._context.operator}`: entry {entry.number} of queue `{path}` is not the one "
                        "that was read: the queue and its writer were restored from an older copy; restore "
                        "the checkpoint of this application from a copy of that time, too"
                    )

    def _register_first(self) -> None:
        """Register. Raises RidgelineError if that is not possible, and was not done before."""
        try:
            self._register()
        except OSError as error:
            if self._name not in self._folder.readers_known():
                raise write_failure(self._context.operator, self._path, error) from error
            self._log_failure(error)  # an older position is there

    def _begin_at(self, first: int) -> None:
        """Read from this entry on."""
        self._position = first
        self._follow(first)

    def _follow(self, first: int) -> None:
        self._log = _Log(LogReader(self._folder, first))
        self._look.set()

    def _on_append(self) -> None:
        """Entries were appended. From any thread."""
        self._log.reader.hurry()
        self._look.set()

    def _is_of_application(self) -> bool:
        """Whether the writer is a region of this application, and its log may be broken by a power cut."""
        own = self._description.get("application") == self._context.application
        return own and self._operator.when_missing == "wait" and not self._folder.is_remote

    def _look_for_writer(self) -> None:
        """Begin to read once the writer has fixed its log.

        After a while it reads without: there is no such writer any more.
        """
        waited = self._context.clock.monotonic() - self._opened_at
        if is_opened(self._path) or waited >= _WRITER_SECONDS:
            if self._is_fresh:
                self._first = self._committed = self._beginning()
            self._begin_at(self._first)
            self._waits_for_writer = False

    def _beginning(self) -> int:
        """Where a fresh run begins: with the oldest entry, or after the newest one."""
        firsts = self._folder.logs()
        if not firsts:
            return 0
        if self._operator.begin == "earliest":
            return firsts[0]
        reader = LogReader(self._folder, firsts[-1])
        while entries := reader.read():
            self._marks = entries[-1].marks
        return reader.next

    def advance(self, window_id: int, start: Any) -> Any:
        """The entries that are there, as many as a window may have."""
        if self._waits_for_writer:
            return start
        known = None if start is None else Offset(**start)
        first = self._first if known is None else known.next
        if first != self._position:  # windows that were begun are void: they are read again
            self._begin_at(first)
        self._pass_lost()
        before = known or Offset(self._queue, self._name, first, first, marks=self._marks)
        skip, waiting = before.rest, self._log.waiting
        if waiting and waiting[0].number != first:  # what has come before was dropped
            first, skip = waiting[0].number, 0
        read, rows, rest = self._fitting(skip)
        if not read and not rows:
            if start is not None:
                return before._replace(ahead=0)._asdict() if before.ahead else start
            # a restart begins here, also at the latest one
            return before._replace(first=first, next=first)._asdict()
        self._position = read[-1].number + 1 if read else first
        ahead = 0
        if waiting:
            ahead = waiting[-1].total - waiting[0].total + waiting[0].rows - rest
        return Offset(
            queue=self._queue,
            reader=self._name,
            first=first,
            next=self._position,
            skip=skip,
            rest=rest,
            rows=before.rows + rows,
            ahead=ahead,
            ended=bool(read) and read[-1].end and not waiting,
            marks=read[-1].marks if read else before.marks,
            last=read[-1].digest if read else before.last,
        )._asdict()

    def _fitting(self, skip: int) -> tuple[list[Entry], int, int]:
        """The entries that a window reads, all their rows, and those of a piece that it reads in their place.

        `skip`: so many rows of the first one are read. One with far more than the budget is read in pieces.
        """
        most = min(_WINDOW_ROWS, self._context.budget())
        read: list[Entry] = []
        rows, size, waiting = -skip, 0, self._log.waiting
        while waiting and rows < most and size < _WINDOW_BYTES:
            entry = waiting[0]
            if entry.end and len(waiting) == 1 and not self._log.over:
                break  # a writer that was started anew may have gone on behind it
            if read and (entry.begins or rows + entry.rows > _WHOLE * most):
                break
            if rows + entry.rows > _WHOLE * most:
                return read, math.ceil(most), skip + math.ceil(most)
            read.append(waiting.popleft())
            rows += entry.rows
            size += entry.size
            if entry.closes:
                break
        return read, max(0, rows), 0

    def _pass_lost(self) -> None:
        """Go on after entries that were dropped, if the operator does. Raises why no more can be read."""
        log = self._log
        if log.waiting or log.lost is None:
            return
        lost = log.lost
        if not isinstance(lost, LostError) or self._operator.when_lost == "fail":
            raise lost
        what = f"queue `{self._path}`: entries {lost.number} to {lost.first - 1} were dropped"
        self._context.warn(f"{what} before `{self._context.operator}` has read them; they are left out")
        self._follow(lost.first)

    def _read_ahead(self) -> bool:
        """Read some entries; True if there may be more. Raises OSError where a later try may succeed."""
        log = self._log
        if log.lost is not None or len(log.waiting) >= _AHEAD:
            return False
        entries: list[Entry] = []
        try:
            if self._queue is None:
                self._description = self._folder.description
            if self._waits_for_writer:
                self._look_for_writer()
                log = self._log
            if not self._waits_for_writer:
                entries = log.reader.read()
        except Exception as error:
            if isinstance(error, OSError) and (self._folder.is_remote or may_recover(error)):
                raise
            log.lost = error  # the next window raises it
        was_over, log.over = log.over, not entries  # before a window sees the entries
        log.waiting.extend(entries)
        if entries or log.lost is not None or (log.waiting and not was_over):
            self._context.wake()
        return bool(entries)

    @property
    def problem(self) -> str:
        """Why the queue cannot be read now."""
        error = self._error
        if error is None or error.errno in FULL:  # a full disk can be read
            return ""
        return mask_text(f"queue `{self._path}` cannot be read: {' '.join(str(error).split())}")

    def unreachable(self, context: EnumeratorContext, offset: Any, last: Any) -> str:
        """Entries that were dropped. Those that are there stay from now on, as the registration says."""
        if offset is None:
            return ""
        reader, place = offset["reader"], offset["next"]
        folder = folder_of(self._path)
        first = min(folder.logs(), default=0)
        if place >= first:
            folder.register(ReaderPosition(reader, place, context.clock.wall()))
            first = min(folder.logs(), default=0)  # the writer may have dropped it before it saw that
        if place >= first:
            return ""
        return f"queue `{self._path}` has no entry {place} any more, it begins with {first}"

    def committed(self, window_id: int, offset: Any) -> None:
        """Note the position; the thread registers it."""
        if offset is not None:
            self._committed = offset["next"]

    def close(self) -> None:
        """Register the position, and stop looking."""
        self._stop.set()
        self._look.set()
        if self._thread is not None:
            self._end_listening()
            self._thread.join()
            self._thread = None
            with contextlib.suppress(OSError):
                if self._name in self._folder.readers_known():  # else it has another name now
                    self._register()

    def _watch(self) -> None:
        """Read entries as they come, and register the position."""
        clock, pause = SystemClock(), _REGISTER_LOOKS * self._folder.look_seconds
        register_at = clock.monotonic() + pause
        while not self._stop.is_set():
            self._look.wait(self._folder.look_seconds)
            self._look.clear()
            is_read = False
            try:
                if self._read_ahead():
                    self._look.set()
                is_read = True
                if clock.monotonic() >= register_at:  # also while it reads without a pause
                    register_at = clock.monotonic() + pause
                    self._register()
                    self._error = None
            except OSError as error:
                if self._error is None:
                    self._log_failure(error)
                self._error = error
                if not is_read:  # else it reads on: a full disk can be read
                    register_at = 0.0
                    self._stop.wait(1.0)

    def _log_failure(self, error: OSError) -> None:
        _log.warning("queue `%s`: %s", mask_addresses(self._path), mask_text(str(error)))

    def _register(self) -> None:
        """Write how far the reader has committed, if that has changed, and that it is alive.

        Raises OSError, FileNotFoundError also if the queue is gone.
        """
        position, now = self._committed, self._context.clock.wall()
        assert position is not None  # noqa: S101  `open` has set it
        before = self._registered
        if before is None or before[0] != position or now - before[1] >= _SEEN_SECONDS:
            if self._queue is not None and self._folder.lasting and not self._folder.description:
                raise FileNotFoundError(
                    f"`{self._folder.lasting}` is not there any more: is its folder mounted?"
                )
            self._folder.register(ReaderPosition(self._name, position, now))
            self._registered = position, now
