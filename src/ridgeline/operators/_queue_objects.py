"""A durable queue on an object store or HDFS, where nothing is appended to: objects are written as a whole.

| object | what is in it |
|---|---|
| `segments/p<partition>-<random>.segment` | the rows of one partition in one window |
| `log/<number>.entry` | an entry |
| `log/<number>.jsonl` | the entries from this number on; they replace those of their own once they are many |

A reader knows the number of the next entry, and asks for its object. It lists the log only at the start, or
once it finds none. All drivers of a run write the same entry under a number, since the commit has it. So one
that was replaced, and does not know, does no harm.
"""

from __future__ import annotations

import logging
import threading
import uuid
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyarrow.fs import FileSelector

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.files import is_local, local_path, resolve
from ridgeline.api.support.masking import mask_text
from ridgeline.operators._queue_files import (
    Entry,
    LogFile,
    LogReader,
    LogWriter,
    LostError,
    Part,
    QueueFolder,
    SegmentReader,
    SegmentWriter,
    as_stream,
    damaged,
    entry_of,
)

_log = logging.getLogger(__name__)
_ENTRY, _BUNDLE = ".entry", ".jsonl"
_BUNDLE_ENTRIES = 256
_AT_ONCE = 8
"""Requests that are under way at the same time."""
_TRIES = 20
_TRY_SECONDS = 0.05
_LIST_SECONDS = 0.5
_MOST_LIST_SECONDS = 16.0


def folder_of(path: str) -> QueueFolder:
    """The folder of a queue, on a disk or elsewhere. Raises RidgelineError if it cannot be reached."""
    return QueueFolder(local_path(path)) if is_local(path) else ObjectFolder(path)


def settled_path(path: str | Path) -> str:
    """The path of a queue for all processes: absolute, if it is on a disk."""
    return local_path(str(path)) if is_local(str(path)) else str(path)


class ObjectFolder(QueueFolder):
    """Where a queue's objects lie."""

    look_seconds = 0.25
    readers_look_seconds = 2.0
    reads_ahead = True

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.clock = SystemClock()
        self._files, self._base = resolve(path)
        self._pool: ThreadPoolExecutor | None = None

    @property
    def lasting(self) -> str:
        """No mount can go."""
        return ""

    @property
    def pool(self) -> ThreadPoolExecutor:
        """Threads for requests that need not wait for each other."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_AT_ONCE, "ridgeline-queue")
        return self._pool

    def close(self, *, wait: bool = False) -> None:
        """Let go of threads. `wait`: for what they have begun. It may be used again."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=wait)

    def name(self, name: str) -> str:
        """The object of this name, for people."""
        return f"{self.path.partition('?')[0].rstrip('/')}/{name}"

    def get(self, name: str) -> bytes | None:
        """A whole object; None if there is none. Raises OSError."""
        try:
            with self._files.open_input_stream(f"{self._base}/{name}") as stream:
                data: bytes = stream.read()
        except FileNotFoundError:
            return None
        return data

    def put(self, name: str, data: bytes | pa.Buffer, *, sync: bool = False) -> None:
        """Write an object. Raises OSError."""
        with self._files.open_output_stream(f"{self._base}/{name}") as out:
            out.write(data)

    def create(self, name: str, data: bytes) -> None:
        """Write an object of which no other content can be, so that no reader sees half of it.

        Raises RidgelineError if there is another one, OSError.
        """
        if self._files.type_name == "s3":
            self.put(name, data)
            return
        beside = f"{uuid.uuid4().hex}.tmp"
        self.put(beside, data)
        try:
            self._files.move(f"{self._base}/{beside}", f"{self._base}/{name}")
        except OSError:
            found = self.get(name)
            if found is None:
                raise
            self._remove(beside)
            if name.endswith(_ENTRY) and not _same(found, data):
                what = f"`{self.name(name)}` was written by another driver"
                raise RidgelineError(f"{what}; give each writer a `path` of its own") from None

    def names(self, folder: str) -> list[str]:
        """The sorted names of the objects in a folder. Raises OSError."""
        found = self._files.get_file_info(FileSelector(f"{self._base}/{folder}", allow_not_found=True))
        return sorted(info.base_name for info in found if info.is_file)

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects; those that are not there are passed over. Raises OSError."""
        list(self.pool.map(self._remove, names))

    def remove_later(self, names: Iterable[str]) -> Future[None]:
        """The same in a thread. The next driver removes those that an error has left."""
        return self.pool.submit(self._remove_each, list(names))

    def _remove_each(self, names: Sequence[str]) -> None:
        for name in names:
            with suppress(OSError):
                self._remove(name)

    def _remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._files.delete_file(f"{self._base}/{name}")

    def settled(self, name: str) -> bytes | None:
        """A small object that is replaced now and then: on HDFS it is empty for a moment."""
        data = self.get(name)
        for _ in range(_TRIES):
            if data is None or _is_whole(data):
                break
            self.clock.wait(_TRY_SECONDS)
            data = self.get(name)
        return data

    def make(self) -> None:
        """Make the folders, where the file system has any. Raises OSError."""
        for folder in ("log", "segments", "readers"):
            self._files.create_dir(f"{self._base}/{folder}", recursive=True)

    def logs(self) -> list[int]:
        """The number of the first entry of each object of the log, ascending."""
        return sorted({int(name.partition(".")[0]) for name in self.names("log")})

    def log_reader(self, number: int) -> LogReader:
        """Reads from this entry on."""
        return ObjectLogReader(self, number)

    def log_writer(self, unsynced: int | None = None) -> LogWriter:
        """Appends to the log, which needs no sync. Raises OSError, RidgelineError."""
        return ObjectLogWriter(self)

    def segment_writer(self, partition: int) -> SegmentWriter:
        """Writes the rows of a partition."""
        return ObjectSegmentWriter(self, partition)

    def segment_reader(self) -> SegmentReader:
        """Reads rows."""
        return ObjectSegmentReader(self)


class ObjectLogReader(LogReader):
    """Reads the entries of a log in order, as they are written."""

    def __init__(self, folder: ObjectFolder, number: int) -> None:
        super().__init__(folder, number)
        self._objects = folder
        self._bundled: list[Entry] = []
        """The next entries, of a bundle that was read."""
        self._exhausted = -1
        """The first entry of the last bundle that was read."""
        self._lists_at = 0.0
        self._list_seconds = _LIST_SECONDS

    def read(self, limit: int = _BUNDLE_ENTRIES) -> list[Entry]:
        """The next entries that are there, at most so many.

        Raises LostError if the next one was dropped, RidgelineError for a damaged line, OSError.
        """
        found: list[Entry] = []
        while len(found) < limit:
            if not self._bundled and (entry := self._single()) is not None:
                self._bundled = [entry]
            if not self._bundled and not self._find_bundle():
                break
            more, self._bundled = self._bundled[: limit - len(found)], self._bundled[limit - len(found) :]
            found += more
            self.next = found[-1].number + 1
        return found

    def _single(self) -> Entry | None:
        name = f"log/{self.next:012d}{_ENTRY}"
        data = self._objects.get(name)
        return _entry(self._objects.name(name), data, self.next) if _is_whole(data) else None

    def _find_bundle(self) -> bool:
        """Look for an object with the next entry among others; False if there is none yet.

        Lists the log, the more seldom the longer there is nothing. Raises LostError.
        """
        if (now := self._objects.clock.monotonic()) < self._lists_at:
            return False
        names = self._objects.names("log")
        bundles = [int(name.removesuffix(_BUNDLE)) for name in names if name.endswith(_BUNDLE)]
        first = max((number for number in bundles if number <= self.next), default=None)
        if first is None and names and (oldest := int(names[0].partition(".")[0])) > self.next:
            raise LostError(self._objects.path, self.next, oldest)
        if first is not None and first != self._exhausted:
            name = f"log/{first:012d}{_BUNDLE}"
            self._bundled = [
                entry for entry in _entries(self._objects, name, first) if entry.number >= self.next
            ]
            if self._bundled:
                self._exhausted, self._lists_at, self._list_seconds = first, 0.0, _LIST_SECONDS
                return True
        self._lists_at = now + self._list_seconds
        self._list_seconds = min(_MOST_LIST_SECONDS, 2 * self._list_seconds)
        return False


def _same(one: bytes, other: bytes) -> bool:
    """Whether two lines are the same entry: the window and where its rows are."""
    first, second = map(Entry.of_line, (one, other))
    return (first.window, first.parts) == (second.window, second.parts)


def _is_whole(data: bytes | None) -> bool:
    """Whether an object was written to its end: on HDFS one may see half of it."""
    return data is not None and data.endswith(b"\n")


def _entry(name: str, line: bytes | None, number: int) -> Entry:
    return entry_of(line or b"", number, partial(damaged, name))


def _entries(folder: ObjectFolder, name: str, first: int) -> list[Entry]:
    """Those of a bundle."""
    lines = (folder.get(name) or b"").split(b"\n")[:-1]
    return [_entry(folder.name(name), line, first + place) for place, line in enumerate(lines)]


class ObjectLogWriter(LogWriter):
    """Appends entries to a log: each as an object, and many together as another one later."""

    def __init__(self, folder: ObjectFolder) -> None:  # does what that of its base does, elsewhere
        """Read what is there. Raises OSError, RidgelineError."""
        self._folder = self._objects = folder
        self.files: dict[int, LogFile] = {}
        self.next = self.total = 0
        self.marks = None
        self._newest = {}
        self._tail: list[Entry] = []
        """The entries after the last bundle."""
        self._unwritten: list[Entry] = []
        """Those of them that may not be there yet, since their request has failed."""
        names = folder.names("log")
        bundles = [name for name in names if name.endswith(_BUNDLE)]
        firsts = [int(name.removesuffix(_BUNDLE)) for name in bundles]
        self.next = min(map(int, (name.partition(".")[0] for name in names)), default=0)
        read = folder.pool.map(_entries, [folder] * len(bundles), (f"log/{name}" for name in bundles), firsts)
        for entries in read:
            self._note([entry for entry in entries if entry.number >= self.next], firsts)
        self._read_tail([name for name in names if name.endswith(_ENTRY)])

    def _read_tail(self, names: Sequence[str]) -> None:
        """Read the entries after the last bundle; remove the others. Called by the constructor."""
        numbers = {int(name.removesuffix(_ENTRY)) for name in names}
        self._objects.remove(_name(number) for number in numbers if number < self.next)
        wanted: list[int] = []
        while self.next + len(wanted) in numbers:
            wanted.append(self.next + len(wanted))
        for number, data in zip(
            wanted, self._objects.pool.map(self._objects.get, map(_name, wanted)), strict=True
        ):
            if not _is_whole(data):
                break
            entry = _entry(self._objects.name(_name(number)), data, number)
            self._note([entry], [number] if not self._tail else ())
            self._tail.append(entry)

    def append(self, entries: Sequence[Entry], roll_bytes: int, roll_seconds: float) -> None:
        """Write entries that are not there yet; they are durable.

        A bundle ends where a file of `LogWriter` does. Raises OSError.
        """
        self._write_rest()
        for entry in self._following(entries):
            last = self.files[max(self.files)] if self._tail else None
            rolls = last is None or len(self._tail) >= _BUNDLE_ENTRIES
            if last is None or rolls or last.is_full(entry, roll_bytes, roll_seconds):
                self._write_rest()
                self._bundle()
                if entry.marks is None:  # who begins to read here needs them
                    entry = entry._replace(marks=self.marks)  # noqa: PLW2901  as it is written
            self._note([entry], () if self._tail else [entry.number])
            self._tail.append(entry)
            self._unwritten.append(entry)
        self._write_rest()

    def _write_rest(self) -> None:
        """Write the entries that are not there yet; again, if that has failed."""
        names = [_name(entry.number) for entry in self._unwritten]
        list(self._objects.pool.map(self._objects.create, names, [entry.line for entry in self._unwritten]))
        self._unwritten = []

    def _bundle(self) -> None:
        """Put the entries after the last bundle into one."""
        if self._tail:
            name = f"log/{self._tail[0].number:012d}{_BUNDLE}"
            self._objects.create(name, b"".join(entry.line for entry in self._tail))
            self._objects.remove_later(_name(entry.number) for entry in self._tail)
            self._tail = []

    def sync(self) -> None:
        """Nothing: all is durable."""

    def drop(self, first: int) -> None:
        """Remove a bundle, the oldest one, and the segments that no other names. Raises OSError.

        After an error it may be called again.
        """
        self._objects.remove([f"log/{first:012d}{_BUNDLE}"])
        dropped = self.files.pop(first)
        unnamed = dropped.segments - self.segments
        self._objects.remove_later(f"segments/{name}" for name in unnamed)


def _name(number: int) -> str:
    return f"log/{number:012d}{_ENTRY}"


class ObjectSegmentWriter(SegmentWriter):
    """Writes the rows of each window as an object. For one partition."""

    def __init__(self, folder: ObjectFolder, partition: int) -> None:
        super().__init__(folder, partition)
        self._objects = folder

    def write(self, batches: Sequence[pa.RecordBatch]) -> Part:
        """Write the rows of a window, at least one batch; returns once they are durable. Raises OSError."""
        data = as_stream(batches)
        name = f"p{self._partition}-{uuid.uuid4().hex}.segment"
        self._objects.put(f"segments/{name}", data)
        return Part(self._partition, name, 0, data.size, sum(map(len, batches)), zlib.crc32(data))


class ObjectSegmentReader(SegmentReader):
    """Reads rows of objects, several at the same time."""

    def __init__(self, folder: ObjectFolder) -> None:
        super().__init__(folder)
        self._objects = folder

    def read_all(self, parts: Sequence[Part]) -> Iterator[tuple[Part, pa.RecordBatch]]:
        """The batches of some parts, in order. Raises RidgelineError if one is damaged, OSError."""
        names = [f"segments/{part.segment}" for part in parts]
        for part, data in zip(parts, self._objects.pool.map(self._objects.get, names), strict=True):
            name = self._objects.name(f"segments/{part.segment}")
            if data is None or len(data) != part.size:
                found = "it is missing" if data is None else f"it has {len(data)} bytes"
                raise damaged(name, f"{found}, {part.size} are named")
            if zlib.crc32(data) != part.crc32:
                raise damaged(name, f"the checksum of {part.size} bytes is another one")
            for batch in pa.ipc.open_stream(data):
                yield part, batch


class ReadAhead:
    """Reads a log in a thread, so that who takes its entries need not wait for requests."""

    def __init__(self, reader: LogReader, most: int, seconds: float, wake: Callable[[], None]) -> None:
        """`most`: entries held. `wake`: called once there are more, by the thread."""
        self.next = reader.next
        self._reader, self._most, self._seconds, self._wake = reader, most, seconds, wake
        self._found: deque[Entry] = deque()
        self._error: BaseException | None = None
        self.problem = ""
        """Why nothing can be read now; "" if it can."""
        self._changed = threading.Condition()
        self._ended = self._hurries = False
        self._thread = threading.Thread(target=self._run, name="ridgeline-queue-read", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """Read until `end`, or an error that `read` raises. OSErrors are tried again."""
        while not self._ended:
            try:
                entries = self._reader.read(_BUNDLE_ENTRIES)
                self.problem = ""
            except OSError as error:
                if not self.problem:
                    _log.warning("%s", mask_text(str(error)))
                self.problem = " ".join(str(error).split())
                entries = []
            except BaseException as error:  # noqa: BLE001  `read` raises it
                self._error = error
                self._wake()
                return
            self._found.extend(entries)
            if entries:
                self._wake()
            with self._changed:
                if not entries and not self._hurries and not self._ended:
                    self._changed.wait(self._seconds)
                self._hurries = False
                while len(self._found) >= self._most and not self._ended:
                    self._changed.wait()

    def hurry(self) -> None:
        """There are more entries now."""
        with self._changed:
            self._hurries = True
            self._changed.notify()

    def read(self, limit: int) -> list[Entry]:
        """Those that were read, at most so many; returns at once. Raises what reading has raised."""
        found = [self._found.popleft() for _ in range(min(limit, len(self._found)))]
        if found:
            self.next = found[-1].number + 1
            with self._changed:
                self._changed.notify()
        elif self._error is not None:
            raise self._error
        return found

    def end(self) -> None:
        """Read no more. Called once."""
        with self._changed:
            self._ended = True
            self._changed.notify()
