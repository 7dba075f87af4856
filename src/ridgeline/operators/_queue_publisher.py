"""The driver's half of `QueueOutput`: appends committed windows to the queue's log, and drops old ones.

Exactly once rests on the order of operations. A container has its rows on the disk before it reports. The
commit keeps the entries of its windows (`stage`). Only after it they are appended to the log, without a sync.
The state keeps each entry until the log is synced. So `open` can append entries that a power cut has taken.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from ridgeline.api.context import Control
from ridgeline.api.errors import RidgelineError
from ridgeline.api.publisher import Publisher, PublisherContext
from ridgeline.api.support.duration import parse_duration
from ridgeline.api.support.files import StoreAwayError
from ridgeline.api.support.masking import mask_text
from ridgeline.api.support.secrets.addresses import mask_addresses
from ridgeline.api.times import EARLIEST, Mark
from ridgeline.connect.window_output import GONE, explaining, publish_failure
from ridgeline.operators._queue_files import Entry, Part, ReaderPosition, folder_of, reader_of
from ridgeline.operators._queue_log import LogWriter

if TYPE_CHECKING:
    from ridgeline.operators.queue_output import QueueOutput

_SYNC_ENTRIES = 32
_SYNC_SECONDS = 1.0
_FILES = 16
"""About so many bundles of the log share `keep` and `keep_bytes`: the least that is dropped is a share."""
_LISTENERS: dict[str, list[Callable[[], None]]] = {}
_OPENED: set[str] = set()
"""The queues that a writer of this process has opened."""


def listen(path: str, wake: Callable[[], None]) -> Callable[[], None]:
    """Have `wake` called when this process appends to a queue; returns what ends that."""
    listeners = _LISTENERS.setdefault(path, [])
    listeners.append(wake)
    return partial(listeners.remove, wake)


def is_opened(path: str) -> bool:
    """Whether a writer has opened a queue in this process: what a power cut broke before is fixed then."""
    return path in _OPENED


def _notify(path: str) -> None:
    for wake in list(_LISTENERS.get(path, ())):
        wake()


class Written(NamedTuple):
    """One value that a partition hands over: rows of a window and their schema, or the end of its input.

    `place`: the partition, and how many there are. `mark`: its watermark after the window; None: it has none.
    `control`: a control tuple that has come to it.
    """

    place: tuple[int, int]
    part: Part | None = None
    schema: str = ""
    ended: bool = False
    mark: Mark | None = None
    control: Control | None = None


def _moved(known: tuple[Mark, ...], written: Sequence[Written]) -> tuple[Mark, ...]:
    """The marks of all partitions after a window, from those before it."""
    if not written:
        return known
    if all(one.mark is None for one in written):
        return ()
    partitions = written[0].place[1]
    found = [*known[:partitions], *[(EARLIEST, False)] * (partitions - len(known))]
    for one in written:
        if one.mark is not None:
            found[one.place[0]] = one.mark
    return tuple(found)


def _unsynced(state: Any) -> int:
    """The first entry that a power cut may have taken: the state has it."""
    return int(state["entries"][0][0]) if state["entries"] else int(state["next"])


class QueuePublisher(Publisher):
    """Appends the windows of a `QueueOutput` to the queue's log."""

    groups_windows = True
    only_files = True

    def __init__(self, output: QueueOutput) -> None:
        self._path, self._keep, self._output = str(output.path), parse_duration(output.keep), output

    def place(self) -> str:
        """The folder."""
        return f"queue {self._path}"

    def open(self, context: PublisherContext, state: Any) -> None:
        """Bring the log to the last committed window. Raises RidgelineError if it is of another run."""
        self._context, self._folder = context, folder_of(self._path)
        self._full: str | None = None
        self._moved = True
        """Whether keys may be in other partitions than in the entries that were published."""
        self._looked = self._synced_at = context.clock.monotonic()
        with explaining(self._failure):
            self._folder.make()
            self._description = self._folder.description
            context.check_owner()
            continues = state is not None and state["path"] == self._path
            self._log = LogWriter(self._folder, _unsynced(state) if continues else None)
            if not continues:
                self._begin()
            else:
                self._resume(state)
            if self._description.get("epoch") != context.epoch:  # no container of this driver writes yet
                self._remove_strays()
                self._description["epoch"] = context.epoch
                self._folder.describe(self._description)
            self._forget_former_readers()
        self._look()
        _OPENED.add(self._path)
        _notify(self._path)

    def _begin(self) -> None:
        """Become the writer, after the entries that are there."""
        self._staged: list[Entry] = []
        self._recent: list[Entry] = []
        self._ended: set[int] = set()
        self._marks: tuple[Mark, ...] | None = None
        """Those of the last entry of this run; None before its first window."""
        if self._description.get("run_id") == self._context.run_id and self._context.committed < 0:
            self._check_end(self._log.next, self._description.get("began", self._log.next))
        self._description["began"] = self._log.next
        self._take_over()

    def _take_over(self) -> None:
        self._description |= {
            "application": self._context.application,
            "operator": self._context.operator,
            "run_id": self._context.run_id,
        }
        self._description.setdefault("id", uuid.uuid4().hex)
        self._folder.describe(self._description)

    def _resume(self, state: Any) -> None:
        """Append the entries of the last commit that are not in the log. Called by `open`."""
        self._check_writer(state["operator"])
        if state["operator"] != self._context.operator:  # it was renamed
            self._take_over()
        self._staged = []
        self._recent = [Entry.of(entry) for entry in state["entries"]]
        self._ended = set(state["ended"])
        missing = [entry for entry in self._recent if entry.number >= self._log.next]
        self._check_end(self._log.next + len(missing), state["next"])
        self._append(missing)
        self._marks = self._log.marks

    def _check_end(self, end: int, known: int) -> None:
        """Raise RidgelineError if the log does not end with the entries that the checkpoint knows."""
        if end != known:
            there = f"its log ends with entry {self._log.next - 1}"
            msg = f"queue `{self._path}`: {there}, the checkpoint with entry {known - 1}; "
            msg += "one of them is an older copy: restore both from copies of the same time"
            raise RidgelineError(msg)

    def _check_writer(self, operator: str) -> None:
        """Raise RidgelineError if another run or operator writes to the queue now, or it cannot be read."""
        with explaining(self._failure):
            found = self._folder.description
        if not found:
            raise self._failure(FileNotFoundError("`queue.json` is not there any more"))
        if found.get("run_id") != self._context.run_id or found.get("operator") != operator:
            who = f"`{found.get('operator')}` of `{found.get('application')}`"
            msg = f"`{self._context.operator}` does not write to queue `{self._path}` any more: "
            msg += f"{who} does; give each writer a `path` of its own"
            raise RidgelineError(msg)

    def _remove_strays(self) -> None:
        """Remove segments that no entry names: of attempts that were void."""
        named = self._log.segments | {part.segment for entry in self._recent for part in entry.parts}
        strays = [name for name in self._folder.names("segments") if name not in named]
        if strays:
            self._context.check_owner()
            self._folder.remove(f"segments/{name}" for name in strays)

    def stage(self, window_id: int, values: Sequence[Any]) -> Any:
        """Make the entry of a window. Raises RidgelineError for rows of another schema than the queue's."""
        written: Sequence[Written] = values
        self._check_schema(written)
        self._staged = [entry for entry in self._staged if entry.window < window_id]
        parts = tuple(one.part for one in written if one.part is not None)
        self._ended |= {one.place[0] for one in written if one.ended}
        ends = any(one.ended and len(self._ended) >= one.place[1] for one in written)
        last = self._staged[-1] if self._staged else None
        known = self._marks if last is None else last.marks
        marks = _moved(known or (), written)
        number, total = (self._log.next, self._log.total) if last is None else (last.number + 1, last.total)
        taken = [one.control for one in written if one.control is not None]
        controls = {(one.origin, one.number): one for one in taken}
        if parts or ends or controls or marks != known:
            rows = sum(part.rows for part in parts)
            now = self._context.clock.wall()
            packed = tuple((one.at_end, base64.b64encode(one.value).decode()) for one in controls.values())
            moved = self._moved and not any(entry.moved for entry in self._staged)
            self._staged.append(
                Entry(number, window_id, now, total + rows, parts, ends, marks, packed, moved)
            )
            number += 1
        with explaining(self._failure):
            self._sync_if_due()
        return {
            "path": self._path,
            "operator": self._context.operator,
            "next": number,
            "ended": sorted(self._ended),
            "entries": [list(entry) for entry in (*self._recent, *self._staged)],
        }

    def _check_schema(self, written: Sequence[Written]) -> None:
        """Note the schema of the first rows. Raises RidgelineError for rows of another one."""
        for schema in {one.schema for one in written if one.schema}:
            known = self._description.get("schema")
            if known is not None and known != schema:
                what = f"`{self._context.operator}` writes other columns than queue"
                msg = f"{what} `{self._path}` has; "
                msg += "give it another `path`, or its rows the columns of before"
                raise RidgelineError(msg)
            if known is None:
                described = {**self._description, "schema": schema}
                with explaining(self._failure):
                    self._folder.describe(described)
                self._description = described

    def _sync_if_due(self) -> None:
        now = self._context.clock.monotonic()
        if self._recent and (len(self._recent) >= _SYNC_ENTRIES or now - self._synced_at >= _SYNC_SECONDS):
            self._log.sync()
            self._recent, self._synced_at = [], now

    def publish(self, window_id: int) -> None:
        """Append what was staged up to this window."""
        due = [entry for entry in self._staged if entry.window <= window_id]
        if due:
            self._context.check_owner()
            self._check_writer(self._context.operator)
            self._append(due)  # before all that follows: after an error the call is made again
            self._staged = [entry for entry in self._staged if entry.window > window_id]
            self._recent += due
            self._moved = self._moved and not any(entry.moved for entry in due)
            self._marks = due[-1].marks
            _notify(self._path)
        if self._look_is_due:
            self._look()

    @property
    def _look_is_due(self) -> bool:
        return self._context.clock.monotonic() - self._looked >= self._folder.readers_look_seconds

    def _append(self, entries: Sequence[Entry]) -> None:
        with explaining(self._failure):
            self._log.append(entries, self._output.keep_bytes // _FILES, self._keep / _FILES)

    def plan_changed(self) -> None:
        """Keys may be in other partitions from the next window on."""
        self._moved = True

    def rewind(self, window_id: int, state: Any, at: int) -> Any:
        """Refuse to take entries back: readers may have them. Raises RidgelineError."""
        if state is not None and state["next"] == self._log.next:
            return {**state, "entries": [list(entry) for entry in self._recent]}
        given = self._log.next - (0 if state is None else state["next"])
        msg = f"`{self._context.operator}`: {given} entries of queue `{self._path}` were given to "
        msg += f"readers after window {window_id}, and would be given twice"
        raise RidgelineError(msg)

    # Readers, and what is dropped ---------------------------------------------------------------------------

    def idle(self) -> None:
        """Drop old entries."""
        self._look()

    @property
    def full(self) -> str | None:
        """Why no window may begin: a reader has not read what would have to be dropped."""
        if self._full is not None and self._look_is_due:
            with suppress(StoreAwayError):  # the next call that may wait says so
                self._look()
        return self._full

    def _look(self) -> None:
        """Read the positions of the readers, and drop old entries."""
        self._looked = self._context.clock.monotonic()
        with explaining(self._failure):
            self._check_writer(self._context.operator)
            self._full = self._drop(self._readers())

    def _readers(self) -> list[ReaderPosition]:
        """All readers that have registered, the slowest first."""
        found = []
        for name in self._folder.readers_known():
            try:
                found.append(self._folder.registered(name))
            except FileNotFoundError:
                continue
            except RidgelineError as error:
                self._warn(f"queue `{self._path}`: {error}")
                found.append(ReaderPosition(name, 0, 0.0))
        first, known = next(iter(self._log.files), 0), {reader_of(one.name) for one in found}
        absent = [reader for reader in self._output.readers if reader not in known]
        found += [ReaderPosition(reader, first, self._context.clock.wall()) for reader in absent]
        return sorted(found, key=lambda one: one.next)

    def _forget_former_readers(self) -> None:
        """Remove the registrations of operators of this application that do not read the queue any more."""
        readers = self._output.readers
        if not readers:
            return
        own = readers[0].partition(".")[0]
        for name in self._folder.readers_known():
            if name.startswith(f"{own}.") and reader_of(name) not in readers:
                self._context.check_owner()
                self._folder.forget(name)

    def _drop(self, readers: Sequence[ReaderPosition]) -> str | None:
        """Drop what is too old or too much. Returns why that is not possible, if it is not."""
        keep, keep_bytes, now = self._keep, self._output.keep_bytes, self._context.clock.wall()
        while self._log.files:
            first, oldest = next(iter(self._log.files.items()))
            too_old, too_much = now - oldest.ended > keep, self._log.size > keep_bytes
            behind = readers[0] if readers and readers[0].next < oldest.next else None
            if behind is not None and self._output.when_full == "wait":
                late = self._late(behind, now)
                return self._reason(behind, late) if late > keep or too_much else None
            if not (too_old or too_much) or len(self._log.files) == 1:  # the last one keeps the count
                return None
            if oldest.next > self._log.next - len(self._recent):
                return None  # the state still names its entries
            if behind is not None:
                lost = f"entries {max(first, behind.next)} to {oldest.next - 1} are dropped"
                self._warn(f"queue `{self._path}`: {lost}, reader `{behind.name}` has not read them")
            self._context.check_owner()
            self._log.drop(first)
        return None

    def _late(self, reader: ReaderPosition, now: float) -> float:
        """Seconds since the oldest file was begun that a reader has not read."""
        began = [one.began for one in self._log.files.values() if one.next > reader.next]
        return max(0.0, now - began[0]) if began else 0.0

    def _reason(self, reader: ReaderPosition, late: float) -> str:
        seen = max(0.0, self._context.clock.wall() - reader.seen)
        path = self._folder.registration(reader.name)
        return (
            f"queue `{self._path}` is full: reader `{reader.name}` has {self._log.next - reader.next} "
            f"entries before it, {late:.0f} s of them, and was alive {seen:.0f} s ago; start it, raise "
            f"`keep` or `keep_bytes`, or remove `{path}` if it is gone for good"
        )

    def close(self) -> None:
        """Sync the log."""
        with explaining(self._failure):
            self._log.sync()

    def _warn(self, text: str) -> None:
        self._context.console.print(Text(mask_addresses(text), "yellow"), soft_wrap=True)

    def _failure(self, error: OSError) -> RidgelineError:
        """StoreAwayError if the call may be made again: also if what was there is gone, as with a mount."""
        operator, path = self._context.operator, self._path
        failure = publish_failure(operator, path, error)
        if isinstance(error, FileNotFoundError) and self._is_gone():
            return StoreAwayError(str(failure), mask_text(path), GONE)
        return failure

    def _is_gone(self) -> bool:
        """Whether the queue is not there, which this publisher has opened."""
        with suppress(OSError, ValueError):
            return self._path in _OPENED and not self._folder.description
        return False
