"""The files of a durable queue: rows in segments, and a log of the committed windows that names them.

| file | what is in it |
|---|---|
| `queue.json` | who writes, and the schema of the rows |
| `segments/p<partition>-<random>.segment` | rows of windows, each an Arrow stream; one instance appends |
| `log/<number>.jsonl` | entries from this number on, a line each, appended after the commit of its window |
| `readers/<name>.json` | how far a reader has committed |

An entry is written after the commit of its window. So all that stands in the log is committed, and readers
look at nothing else. Its line ends with a line feed: what has none is still being written. Numbers have no
gaps.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.files import FULL, sync_above, sync_folder
from ridgeline.api.support.sealed import checked, checksum, seal, unseal
from ridgeline.api.times import Mark

FORMAT = 3
"""Of the files. 1: without record times and watermarks. 2: without checksums."""
ROLL_ENTRIES = 4096
"""A file of the log has at most so many entries: what is dropped is dropped by the file."""
_COPIED_BYTES = 2**20
"""Fewer are copied before they are written: a call for each buffer takes longer."""
SEGMENT_BYTES = 64 * 2**20
"""A segment is not appended to once it has so many."""


class Part(NamedTuple):
    """The rows that one partition of the writer has for a window: a piece of a segment."""

    partition: int
    segment: str
    offset: int
    size: int
    rows: int
    crc32: int


class Entry(NamedTuple):
    """The rows of one committed window. `time`: when it was committed, seconds since 1970.

    `total`: the rows of the queue up to the end of this entry. `end`: the writer's inputs have finished.
    `marks`: the watermark of each partition of the writer after the window, and whether that is idle. None:
    as in the entry before. Empty: it has no watermark. `controls`: the control tuples of the window, each
    once: whether it comes at the end, and its pickled value as base64. `moved`: keys may be in other
    partitions than in the entries before.
    """

    number: int
    window: int
    time: float
    total: int
    parts: tuple[Part, ...]
    end: bool
    marks: tuple[Mark, ...] | None = None
    controls: tuple[tuple[bool, str], ...] = ()
    moved: bool = False

    @classmethod
    def of(cls, values: Sequence[Any]) -> Entry:
        """From what `packed` returned, as JSON has it. Raises TypeError or ValueError."""
        number, window, time, total, parts, end, *more = values
        marks = more[0] if more else None
        controls: Sequence[Any] = more[1] if len(more) > 1 else ()
        return cls(
            number,
            window,
            time,
            total,
            tuple(Part(*part) for part in parts),
            end,
            None if marks is None else tuple((int(time), bool(idle)) for time, idle in marks),
            tuple((bool(at_end), str(value)) for at_end, value in controls),
            bool(more[2]) if len(more) > 2 else False,  # noqa: PLR2004  the place
        )

    @classmethod
    def of_line(cls, line: bytes) -> Entry:
        """From what `line` returned. Raises TypeError or ValueError for anything else."""
        return cls.of(checked("entry", line))

    @property
    def line(self) -> bytes:
        """For the log."""
        return seal("entry", list(self.packed()))

    def packed(self) -> Sequence[Any]:
        """For JSON, without what it does not have at the end."""
        length = 9 if self.moved else 8 if self.controls else 7 if self.marks is not None else 6
        return self[:length]

    @property
    def digest(self) -> int:
        """The same for the same rows of the same window, wherever the entry stands."""
        return checksum("entry", json.dumps([self.number, self.window, self.parts]).encode())

    @property
    def rows(self) -> int:
        """Those of all partitions."""
        return sum(part.rows for part in self.parts)

    @property
    def begins(self) -> bool:
        """A reader's window begins with it: a control tuple comes before its rows, or keys have moved.

        In one window partitions of the reader do not wait for each other. So a key may not be in two of them.
        """
        return self.moved or any(not at_end for at_end, _ in self.controls)

    @property
    def closes(self) -> bool:
        """A reader's window ends with it: a control tuple comes after its rows, or nothing more."""
        return self.end or any(at_end for at_end, _ in self.controls)

    @property
    def size(self) -> int:
        """The bytes of its rows."""
        return sum(part.size for part in self.parts)


class QueueFolder:
    """Where a queue's files lie, on a disk; `ObjectFolder` is the same elsewhere."""

    look_seconds = 0.01
    """How often a reader looks for entries of another process."""
    readers_look_seconds = 0.2
    """How often the writer reads the readers' positions."""
    reads_ahead = False
    """Whether a reader's driver reads the log in a thread, since it would have to wait."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.root = Path(path)
        self.log = self.root / "log"
        self.segments = self.root / "segments"
        self.readers = self.root / "readers"

    @property
    def lasting(self) -> str:
        """The path of a file that is always there; "" where no mount can go."""
        return f"{self.path}/queue.json"

    def close(self, *, wait: bool = False) -> None:
        """Let go of threads. `wait`: for what they have begun. It may be used again."""

    def make(self) -> None:
        """Make the folders; their names outlive a power cut. Raises OSError."""
        for folder in (self.log, self.segments, self.readers):
            folder.mkdir(parents=True, exist_ok=True)
        sync_folder(str(self.root))
        sync_above(str(self.root))

    # A small file or object, by its name within the queue. `ObjectFolder` has others of these. --------------

    def name(self, name: str) -> str:
        """The file of this name, for people."""
        return f"{self.path}/{name}"

    def get(self, name: str) -> bytes | None:
        """A whole file; None if there is none. Raises OSError."""
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError:
            return None

    def settled(self, name: str) -> bytes | None:
        """As `get`, of one that is replaced now and then."""
        return self.get(name)

    def put(self, name: str, data: bytes | pa.Buffer, *, sync: bool = False) -> None:
        """Write a file as a whole. `sync`: it outlives a power cut. Raises OSError."""
        path = self.root / name
        if path.parent != self.root:  # a copy of the queue may have left an empty folder out
            path.parent.mkdir(exist_ok=True)
        replace_file(path, data, sync=sync)

    def names(self, folder: str) -> list[str]:
        """The sorted names in a folder; none if it is not there. Raises OSError."""
        return sorted(path.name for path in (self.root / folder).glob("*"))

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; those that are not there are passed over. Raises OSError."""
        for name in names:
            (self.root / name).unlink(missing_ok=True)

    # What a queue has, and its readers ----------------------------------------------------------------------

    @property
    def description(self) -> dict[str, Any]:
        """The content of `queue.json`; empty if there is none. Raises OSError, RidgelineError."""
        data = self.settled("queue.json")
        return {} if data is None else unsealed(self.name("queue.json"), data)

    def describe(self, description: dict[str, Any]) -> None:
        """Write `queue.json`. Raises OSError."""
        self.put("queue.json", sealed("queue.json", description), sync=True)

    def segment_names(self) -> list[str]:
        """All segments that are there. Raises OSError."""
        return self.names("segments")

    def remove_segments(self, names: Iterable[str]) -> None:
        """Remove segments; those that are not there are passed over. Raises OSError."""
        self.remove(f"segments/{name}" for name in names)

    def registration(self, reader: str) -> str:
        """The file of a reader, for people."""
        return self.name(f"readers/{reader}.json")

    def readers_known(self) -> list[str]:
        """The names of all readers that have registered. Raises OSError."""
        return [name.removesuffix(".json") for name in self.names("readers") if name.endswith(".json")]

    def registered(self, reader: str) -> Registered:
        """What a reader has registered. Raises OSError, RidgelineError."""
        if (data := self.settled(f"readers/{reader}.json")) is None:
            raise FileNotFoundError(self.registration(reader))
        return Registered.of(unsealed(self.registration(reader), data))

    def register(self, reader: str, said: Registered) -> None:
        """Say where a reader is. Raises OSError."""
        self.put(f"readers/{reader}.json", sealed(f"{reader}.json", said._asdict()))

    def forget(self, reader: str) -> None:
        """Remove what a reader has registered. Raises OSError."""
        self.remove([f"readers/{reader}.json"])

    # Its log and its segments -------------------------------------------------------------------------------

    def logs(self) -> list[int]:
        """The first numbers of the log's files, ascending."""
        return sorted(int(path.stem) for path in self.log.glob("*.jsonl"))

    def log_file(self, first: int) -> Path:
        """The file of the log that begins with this entry."""
        return self.log / f"{first:012d}.jsonl"

    def log_reader(self, number: int) -> LogReader:
        """Reads from this entry on."""
        return LogReader(self, number)

    def log_writer(self, unsynced: int | None = None) -> LogWriter:
        """Appends to the log. Raises OSError, RidgelineError. `unsynced`: see `LogWriter`."""
        return LogWriter(self, unsynced)

    def segment_writer(self, partition: int) -> SegmentWriter:
        """Writes the rows of a partition."""
        return SegmentWriter(self, partition)

    def segment_reader(self) -> SegmentReader:
        """Reads rows."""
        return SegmentReader(self)

    def newest(self) -> object:
        """A value that differs once there are more entries; None if there are none. Raises OSError."""
        firsts = self.logs()
        return (firsts[-1], self.log_file(firsts[-1]).stat().st_size) if firsts else None


def sealed(name: str, content: Mapping[str, Any]) -> bytes:
    """A small file of a queue, with a checksum over its content and name."""
    return seal(name, {"format": FORMAT, **content})


def unsealed(path: str, data: bytes) -> dict[str, Any]:
    """What `sealed` was given. Raises RidgelineError for a damaged file, or one of another format."""
    return unseal(path.rpartition("/")[2], data, f"`{path}`", FORMAT)


class Registered(NamedTuple):
    """Where a reader is: the first entry that it has not committed. `seen`: when it said so."""

    next: int
    seen: float

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Registered:
        """From what `unsealed` returned."""
        return cls(int(said["next"]), float(said["seen"]))


def replace_file(path: Path, data: bytes | pa.Buffer, *, sync: bool = False) -> None:
    """Write a small file as a whole. `sync`: it outlives a power cut. Raises OSError."""
    beside = path.with_suffix(f".{os.getpid()}.tmp")
    with beside.open("wb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    beside.replace(path)
    if sync:
        sync_folder(str(path.parent))


class LogReader:
    """Reads the entries of a log in order, as they are written."""

    def __init__(self, folder: QueueFolder, number: int) -> None:
        """`number`: of the first entry to read."""
        self.next = number
        self._folder = folder
        self._first: int | None = None
        """The file that it is in, by its first entry."""
        self._place = 0

    def read(self, limit: int = ROLL_ENTRIES) -> list[Entry]:
        """The next entries that are there, at most so many.

        Raises LostError if the next one was dropped, RidgelineError for a damaged line, OSError.
        """
        found: list[Entry] = []
        while len(found) < limit:
            first = self._find() if self._first is None else self._first
            if first is None:
                break
            try:
                more = self._read_file(first, limit - len(found))
            except DamagedLogError:
                if not found:
                    raise
                break
            found += more
            if not more and not self._follow(first):
                break
        return found

    @property
    def place(self) -> tuple[int, int]:
        """The file that it is in, by its first entry, and the byte after the last entry that it has read."""
        return self.next if self._first is None else self._first, self._place

    def _find(self) -> int | None:
        """Find the file with the next entry; None if there is none yet."""
        firsts = self._folder.logs()
        if not firsts:
            return None
        if firsts[0] > self.next:
            raise LostError(self._folder.root, self.next, firsts[0])
        self._first = max(first for first in firsts if first <= self.next)
        self._place = 0
        return self._first

    def _follow(self, first: int) -> bool:
        """Take the file after this one, whose end was read; False if there is none yet."""
        if self._first is None:  # it was dropped
            return True
        if first == self.next or not self._folder.log_file(self.next).exists():
            return False
        self._first, self._place = self.next, 0
        return True

    def _read_file(self, first: int, limit: int) -> list[Entry]:
        """Read on in a file. Called by `read`."""
        path = self._folder.log_file(first)
        found: list[Entry] = []
        try:
            with path.open("rb") as file:
                file.seek(self._place)
                while len(found) < limit and (line := file.readline()).endswith(b"\n"):
                    if self._number(path, line) >= self.next:  # else it was read, or a driver wrote it again
                        found.append(entry_of(line, self.next, partial(DamagedLogError, path)))
                        self.next += 1
                    self._place += len(line)
        except DamagedLogError:
            if not found:
                raise
        except FileNotFoundError:  # dropped: another one may have the next entry
            self._first = None
            return []
        return found

    def _number(self, path: Path, line: bytes) -> int:
        """The number of an entry, without the rest of it."""
        try:
            return int(line[1 : line.index(b",")])
        except ValueError as error:
            raise DamagedLogError(path, f"a line before entry {self.next} is no entry ({error})") from None


def entry_of(line: bytes, number: int, damaged: Callable[[str], RidgelineError]) -> Entry:
    """The entry with this number, from its line. Raises what `damaged` makes of what is wrong."""
    try:
        entry = Entry.of_line(line)
    except (TypeError, ValueError, RecursionError) as error:
        raise damaged(f"line of entry {number} is no entry ({error})") from None
    if entry.number != number:
        raise damaged(f"entry {entry.number} stands where entry {number} should")
    return entry


class LostError(RidgelineError):
    """Entries were dropped before this reader has read them. `first`: the oldest that is there, if any."""

    def __init__(self, root: Path | str, number: int, first: int | None) -> None:
        there = "none is there" if first is None else f"the oldest that is there is entry {first}"
        super().__init__(
            f"queue `{root}` has no entry {number} any more, {there}: it was dropped, since it was not read "
            "in time (`keep`, `keep_bytes`); to go on with the oldest one, set `when_lost` to `skip`"
        )
        self.number, self.first = number, first


def damaged(path: Path | str, what: str) -> RidgelineError:
    """The error for a file of a queue that is not as it was written."""
    return RidgelineError(f"`{path}` is damaged: {what}; restore the queue's folder from a copy")


class DamagedLogError(RidgelineError):
    """A line of a log is no entry. After a power cut the writer mends that, as far as it was not synced."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(
            f"`{path}` is damaged: {what}; after a power cut start the application that writes to the queue "
            "first, which mends that; else restore the queue's folder from a copy"
        )


class LogWriter:
    """Appends entries to a log. One process at a time."""

    def __init__(self, folder: QueueFolder, unsynced: int | None = None) -> None:
        """Read what is there, and cut off a line that a crash left. Raises OSError, RidgelineError.

        `unsynced`: the first entry that may be broken, since a power cut may have come before it was synced.
        All from there on is cut off. None: no entry may be broken.
        """
        self._folder = folder
        self.files: dict[int, LogFile] = {}
        """All files, by the number of their first entry, ascending."""
        self.next = 0
        self.total = 0
        self.marks: tuple[Mark, ...] | None = None
        """As of the last entry; None if the queue was never written to with a watermark, or without."""
        self._newest: dict[int, str] = {}
        """The last segment of each partition that an entry names: its writer may still append to it."""
        self._unnamed: set[str] = set()
        """Segments that no entry names any more, but of which that is so."""
        self._unsynced: dict[Path, list[bytes]] = {}
        """Lines that a power cut may take."""
        self._torn: set[Path] = set()
        """Files that may end with a part of a line, since a write has failed."""
        self._doubtful = False
        """Whether a sync has failed: the system reports it once, and what it had to write may be lost."""
        firsts = folder.logs()
        if unsynced is not None and firsts and firsts[0] > unsynced:  # a power cut took the files before
            for first in firsts:
                self._folder.log_file(first).unlink(missing_ok=True)
            self.next, firsts = unsynced, []
        if firsts:
            self.next = firsts[0]
            self._read(firsts, unsynced)
        if unsynced is not None:  # a writer before has appended them, and has ended before it could sync
            late = (first for first, file in self.files.items() if file.next > unsynced)
            self._unsynced = {folder.log_file(first): [] for first in late}

    def _read(self, firsts: Sequence[int], unsynced: int | None) -> None:
        """Read all entries, and cut off what is none. Called by the constructor."""
        reader = LogReader(self._folder, firsts[0])
        try:
            while entries := reader.read():
                self._note(entries, firsts)
        except DamagedLogError:
            if unsynced is None or self.next < unsynced:
                raise
        mends = unsynced is not None and self.next >= unsynced
        at, place = reader.place
        for first in firsts if mends else firsts[-1:]:
            path = self._folder.log_file(first)
            if first == at and (place or len(firsts) == 1):
                if path.stat().st_size > place:
                    os.truncate(path, place)
            elif first >= max(at, self.next):  # it has no entry
                path.unlink(missing_ok=True)

    def _note(self, entries: Iterable[Entry], firsts: Sequence[int] = ()) -> None:
        for entry in entries:
            if entry.number in firsts or not self.files:
                self.files[entry.number] = LogFile(entry.number)
            self.files[max(self.files)].add(entry)
            self.next, self.total = entry.number + 1, entry.total
            self.marks = self.marks if entry.marks is None else entry.marks
            self._newest.update((part.partition, part.segment) for part in entry.parts)

    def append(self, entries: Sequence[Entry], roll_bytes: int, roll_seconds: float) -> None:
        """Write entries that are not there yet, without a sync.

        A file ends once it has `ROLL_ENTRIES` entries, or its rows so many bytes, or spans so much time.
        Raises OSError.
        """
        for entry in self._following(entries):
            last = self.files[max(self.files)] if self.files else None
            rolls = last is None or last.is_full(entry, roll_bytes, roll_seconds)
            first = entry.number if last is None or rolls else last.first
            if first == entry.number and entry.marks is None:  # who begins to read here needs them
                entry = entry._replace(marks=self.marks)  # noqa: PLW2901  as it is written
            self._write(self._folder.log_file(first), entry)
            self._note([entry], [first])

    def _following(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Those that are not there yet, one after the other has been noted."""
        for entry in entries:
            if entry.number > self.next:
                raise AssertionError(f"entry {entry.number} cannot follow entry {self.next - 1}")
            if entry.number == self.next:
                yield entry

    def _write(self, path: Path, entry: Entry) -> None:
        """Append a line, and nothing of it if that fails. Raises OSError."""
        line = entry.line
        if path in self._torn:
            if path.exists():
                os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
            self._torn.discard(path)
        try:
            with path.open("ab") as file:
                file.write(line)
        except OSError:
            self._torn.add(path)
            raise
        self._unsynced.setdefault(path, []).append(line)

    def sync(self) -> None:
        """Let all that was appended outlive a power cut. Raises OSError."""
        if not self._unsynced:
            return
        again, self._doubtful = self._doubtful, True
        for path, lines in self._unsynced.items():
            if again:
                write_again(path, lines)
            with path.open("rb") as file:
                os.fsync(file.fileno())
        sync_folder(str(self._folder.log))
        self._unsynced.clear()
        self._doubtful = False

    @property
    def size(self) -> int:
        """The bytes of all rows."""
        return sum(one.size for one in self.files.values())

    def drop(self, first: int) -> None:
        """Remove a file of the log, the oldest one, and the segments that no other names. Raises OSError.

        Not those to which a partition may still append: they stay until it has another one. After an error it
        may be called again.
        """
        path = self._folder.log_file(first)
        sync_folder(str(self._folder.log))  # it is there: nothing is passed over since a mount is gone
        path.unlink(missing_ok=True)
        dropped = self.files.pop(first)
        self._unsynced.pop(path, None)
        self._unnamed = (dropped.segments | self._unnamed) - self.segments
        removed = self._unnamed.difference(self._newest.values())
        self._folder.remove_segments(removed)
        self._unnamed -= removed

    @property
    def segments(self) -> set[str]:
        """All segments that an entry names."""
        return set().union(*(one.segments for one in self.files.values()))


def write_again(path: Path, lines: Iterable[bytes]) -> None:
    """Write what a file holds once more, so that the next sync has to. Raises OSError.

    Raises RidgelineError if some of the lines are not in it: an error of the disk has taken them.
    """
    data = path.read_bytes()
    if not all(line in data for line in lines):
        raise DamagedLogError(path, "entries are gone that were written to it")
    file = os.open(path, os.O_WRONLY)
    try:
        os.pwrite(file, data, 0)
    finally:
        os.close(file)


class LogFile:
    """Summary of one file of the log."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.next = first
        self.size = 0
        self.began = self.ended = 0.0
        self.segments: set[str] = set()

    def add(self, entry: Entry) -> None:
        """It has one more entry."""
        if self.next == self.first:
            self.began = entry.time
        self.next, self.ended = entry.number + 1, entry.time
        self.size += entry.size
        self.segments.update(part.segment for part in entry.parts)

    def is_full(self, entry: Entry, size: int, seconds: float) -> bool:
        """Whether another file begins with this entry."""
        return (
            self.next - self.first >= ROLL_ENTRIES or self.size >= size or entry.time - self.began >= seconds
        )


def as_stream(batches: Sequence[pa.RecordBatch]) -> pa.Buffer:
    """Batches of one schema, at least one, as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return sink.getvalue()


class _SegmentStream(io.RawIOBase):
    """Writes to a place in a file, in pieces that are neither small nor large, and sums them up.

    One large `pwrite` to new pages of ext4 takes five times as long as pieces of 256 KiB.
    """

    _PIECE = 256 * 1024

    def __init__(self, file: int, offset: int) -> None:
        super().__init__()
        self._file = file
        self._small = bytearray()
        self.end = offset
        """Where the bytes end that were passed on to the file."""
        self.crc32 = 0

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, data: Any) -> int:
        """Write all bytes. Raises OSError."""
        piece = memoryview(data).cast("B")
        if len(self._small) + len(piece) > self._PIECE:
            self.flush()
        if len(piece) > self._PIECE:
            self.put(piece)
        else:
            self._small += piece
        return len(piece)

    def flush(self) -> None:
        """Pass on what was kept back. Raises OSError."""
        small, self._small = self._small, bytearray()
        self.put(memoryview(small))

    def put(self, left: memoryview) -> None:
        """Write bytes at the end. Raises OSError."""
        self.crc32 = zlib.crc32(left, self.crc32)
        while left:
            written = os.pwrite(self._file, left[: self._PIECE], self.end)
            self.end += written
            left = left[written:]


class SegmentWriter:
    """Appends the rows of windows to segments of its own. For one partition."""

    def __init__(self, folder: QueueFolder, partition: int) -> None:
        self._folder = folder
        self._partition = partition
        self._name = ""
        self._file: int | None = None
        """The descriptor. No file object: one that is lost with its container would warn."""
        self._size = 0

    def __del__(self) -> None:
        self.close()

    def _open(self) -> int:
        """The segment to append to; another one once it is large. Raises OSError."""
        if self._file is not None and self._size >= SEGMENT_BYTES:
            self.close()
        if self._file is None:
            self._name, self._size = f"p{self._partition}-{uuid.uuid4().hex}.segment", 0
            path = self._folder.segments / self._name
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            try:
                sync_folder(str(self._folder.segments))
            except OSError:
                os.close(file)
                with contextlib.suppress(OSError):
                    path.unlink()
                raise
            self._file = file
        return self._file

    def write(self, batches: Sequence[pa.RecordBatch]) -> Part:
        """Write the rows of a window, at least one batch; returns once they are durable. Raises OSError.

        After an error it may be called again.
        """
        try:
            return self._write(batches)
        except OSError as error:
            if error.errno not in FULL:  # the file may be of a server that is gone: another one is made
                with contextlib.suppress(OSError):
                    self.close()
            raise

    def _write(self, batches: Sequence[pa.RecordBatch]) -> Part:
        """Write at the end of what was written before. Called by `write`."""
        file = self._open()
        offset = self._size
        sink = _SegmentStream(file, offset)  # at `offset`: what a failed write has left is written over
        if sum(batch.nbytes for batch in batches) < _COPIED_BYTES:
            sink.put(memoryview(as_stream(batches)))
        else:
            with pa.PythonFile(sink, "w") as out, pa.ipc.new_stream(out, batches[0].schema) as stream:
                for batch in batches:
                    stream.write_batch(batch)
            sink.flush()
        os.fdatasync(file)
        self._size = sink.end
        rows = sum(batch.num_rows for batch in batches)
        return Part(self._partition, self._name, offset, sink.end - offset, rows, sink.crc32)

    def close(self) -> None:
        """Close the file; the next window begins another one."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


class SegmentReader:
    """Reads rows from segments; keeps the last files open."""

    _MOST = 16

    def __init__(self, folder: QueueFolder) -> None:
        self._folder = folder
        self._files: dict[str, pa.MemoryMappedFile] = {}

    def read_all(self, parts: Sequence[Part]) -> Iterator[tuple[Part, pa.RecordBatch]]:
        """The batches of some parts, in order, as `read`."""
        for part in parts:
            for batch in self.read(part):
                yield part, batch

    def read(self, part: Part) -> Iterator[pa.RecordBatch]:
        """The batches of a part, mapped from the file. Raises RidgelineError if it is damaged, OSError."""
        path = self._folder.segments / part.segment
        file = self._files.pop(part.segment, None)
        if file is None or file.size() < part.offset + part.size:
            try:
                file = pa.memory_map(str(path))
            except FileNotFoundError as error:
                raise damaged(path, "it is missing") if self._folder.description else error from None
            if file.size() < part.offset + part.size:
                raise damaged(path, f"it has {file.size()} bytes, {part.offset + part.size} are named")
        self._files[part.segment] = file
        while len(self._files) > self._MOST:
            self._files.pop(next(iter(self._files))).close()
        file.seek(part.offset)
        data = file.read_buffer(part.size)
        if zlib.crc32(data) != part.crc32:
            raise damaged(path, f"the checksum of {part.size} bytes at {part.offset} is another one")
        yield from pa.ipc.open_stream(data)

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()
        self._files.clear()
