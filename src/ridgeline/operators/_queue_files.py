"""The files of a durable queue: rows in segments, and a log of the committed windows that names them.

| file | what is in it |
|---|---|
| `queue.json` | who writes, and the schema of the rows |
| `segments/p<partition>-<random>.segment` | rows of windows, each an Arrow stream; one instance appends |
| `log/` | an entry for each window, written after its commit: see `_queue_log` |
| `readers/<name>.json` | how far a reader has committed |

All that stands in the log is committed, and readers look at nothing else. Its numbers have no gaps.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
from pyarrow.fs import FileSelector

from ridgeline.api.clock import SystemClock
from ridgeline.api.columns.arrow_stream import arrow_stream
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.files import FULL, is_local, local_path, resolve, sync_above, sync_folder
from ridgeline.api.support.sealed import checked, checksum, seal, unseal
from ridgeline.api.times import Mark
from ridgeline.connect.window_output import safe_name

FORMAT = 6
"""Of the files. Those of other ones are refused."""
ENTRY, BUNDLE = ".entry", ".jsonl"
"""Endings of files of the log: of one entry, of several."""
LOG_FILE = re.compile(rf"(\d+)(?:{re.escape(ENTRY)}|-(\d+){re.escape(BUNDLE)})")
"""Their names: the first entry, and of a bundle the one after its last. Other files are not the log's."""
_BUFFER = 2**16
"""Smaller writes are gathered up to so many bytes; larger ones are not copied."""
_COPIED_BYTES = 2**20
"""Fewer are copied before they are written: a call for each buffer takes longer."""
_Result = TypeVar("_Result")
SEGMENT_BYTES = 64 * 2**20
"""A segment is not appended to once it has so many."""
_PIECE = 256 * 1024
"""One large `pwrite` to new pages of ext4 takes five times as long as pieces of so many bytes."""
_AT_ONCE = 8
"""Requests of a store that are under way at the same time."""
_TRIES = 20
_TRY_SECONDS = 0.05


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
    `marks`: the watermark of each partition of the writer after the window, and whether that is idle. Empty:
    it has no watermark. `controls`: the control tuples of the window, each
    once: whether it comes at the end, and its pickled value as base64. `moved`: keys may be in other
    partitions than in the entries before.
    """

    number: int
    window: int
    time: float
    total: int
    parts: tuple[Part, ...]
    end: bool
    marks: tuple[Mark, ...] = ()
    controls: tuple[tuple[bool, str], ...] = ()
    moved: bool = False

    @classmethod
    def of(cls, values: Sequence[Any]) -> Entry:
        """From its values, as JSON has them. Raises TypeError or ValueError."""
        entry = cls(*values)
        return entry._replace(
            parts=tuple(Part(*part) for part in entry.parts),
            marks=tuple((int(time), bool(idle)) for time, idle in entry.marks),
            controls=tuple((bool(at_end), str(value)) for at_end, value in entry.controls),
        )

    @classmethod
    def of_line(cls, line: bytes) -> Entry:
        """From what `line` returned. Raises TypeError or ValueError for anything else."""
        return cls.of(checked("entry", line))

    @property
    def line(self) -> bytes:
        """For the log."""
        return seal("entry", list(self))

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
    """How often a reader looks for entries."""
    readers_look_seconds = 0.2
    """How often the writer reads the readers' positions."""
    is_remote = False
    """Whether what was written outlives a power cut at once, and may be seen before it is whole."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.root = Path(path)
        self.log = self.root / "log"
        self.segments = self.root / "segments"
        self.readers = self.root / "readers"
        self._mapped: tuple[str, pa.MemoryMappedFile | None] = "", None
        """The segment that was read last, and its file."""

    @property
    def lasting(self) -> str:
        """The path of a file that is always there; "" where no mount can go."""
        return "" if self.is_remote else f"{self.path}/queue.json"

    def close(self) -> None:
        """Close the segment that was read last: an open file holds its mount."""
        self._mapped = "", None

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
        """As `get`, of one that is replaced now and then: on HDFS it is empty for a moment."""
        data = self.get(name)
        for _ in range(_TRIES):
            if data is None or data.endswith(b"\n"):
                break
            SystemClock().wait(_TRY_SECONDS)
            data = self.get(name)
        return data

    def put(self, name: str, data: bytes | pa.Buffer, *, sync: bool = False) -> None:
        """Write a file as a whole. `sync`: it outlives a power cut. Raises OSError."""
        path = self.root / name
        if path.parent == self.readers:  # a copy of the queue may have left an empty folder out
            path.parent.mkdir(exist_ok=True)
        replace_file(path, data, sync=sync)

    def names(self, folder: str) -> list[str]:
        """The sorted names in a folder; none if it is not there. Raises OSError."""
        return sorted(path.name for path in (self.root / folder).glob("*"))

    def each(self, do: Callable[[str], _Result], names: Iterable[str]) -> Iterator[_Result]:
        """Do something with each of these files, as one asks for the results. Raises OSError."""
        return map(do, names)

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; those that are not there are passed over. Raises OSError."""
        list(self.each(self._remove, names))

    def _remove(self, name: str) -> None:
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

    def registration(self, reader: str) -> str:
        """The file of a reader, for people."""
        return self.name(f"readers/{reader}.json")

    def readers_known(self) -> list[str]:
        """The names of all readers that have registered. Raises OSError."""
        return [name.removesuffix(".json") for name in self.names("readers") if name.endswith(".json")]

    def runs_of(self, reader: str) -> list[str]:
        """The names under which a reader has registered: one for each of its runs. Raises OSError."""
        return [name for name in self.readers_known() if reader_of(name) == reader]

    def registered(self, reader: str) -> ReaderPosition:
        """What a reader has registered. Raises OSError, RidgelineError."""
        if (data := self.settled(f"readers/{reader}.json")) is None:
            raise FileNotFoundError(self.registration(reader))
        said = unsealed(self.registration(reader), data)
        return ReaderPosition(reader, said["next"], said["seen"])

    def register(self, said: ReaderPosition) -> None:
        """Say where a reader is. Raises OSError."""
        name = f"{said.name}.json"
        self.put(f"readers/{name}", sealed(name, said._asdict()))

    def forget(self, reader: str) -> None:
        """Remove what a reader has registered. Raises OSError."""
        self.remove([f"readers/{reader}.json"])

    # Its log and its segments -------------------------------------------------------------------------------

    def logs(self) -> list[int]:
        """The number of the first entry of each file of the log, ascending. Raises OSError."""
        return sorted({int(found[1]) for found in map(LOG_FILE.fullmatch, self.names("log")) if found})

    def create(self, names: Sequence[str], contents: Sequence[bytes], *, sync: bool = False) -> None:
        """Write files as a whole, so that no reader sees half of one. Raises OSError."""
        for name, data in zip(names, contents, strict=True):
            self.put(name, data, sync=sync)

    def remove_later(self, names: Iterable[str]) -> None:
        """Remove files that nobody needs any more. Raises OSError."""
        self.remove(names)

    def segment_writer(self, partition: int) -> SegmentWriter:
        """Writes the rows of a partition."""
        return SegmentWriter(self, partition)

    def expect(self, parts: Sequence[Part]) -> None:
        """The rows of these are read next, in this order."""

    def read(self, part: Part) -> list[pa.RecordBatch]:
        """The batches of a part. Raises RidgelineError if it is damaged, OSError."""
        data = self._piece(part)
        if zlib.crc32(data) != part.crc32:
            what = f"the checksum of {part.size} bytes at {part.offset} is another one"
            raise damaged(self.name(f"segments/{part.segment}"), what)
        return list(pa.ipc.open_stream(data))

    def _piece(self, part: Part) -> Any:
        """The bytes of a part, mapped from the file. Raises as `read`."""
        path, end = self.segments / part.segment, part.offset + part.size
        name, file = self._mapped
        if file is None or name != part.segment or file.size() < end:
            try:
                file = pa.memory_map(str(path))
            except FileNotFoundError as error:
                raise damaged(path, "it is missing") if self.description else error from None
            if file.size() < end:
                raise damaged(path, f"it has {file.size()} bytes, {end} are named")
            self._mapped = part.segment, file
        file.seek(part.offset)
        return file.read_buffer(part.size)


def sealed(name: str, content: Mapping[str, Any]) -> bytes:
    """A small file of a queue, with a checksum over its content and name."""
    return seal(name, {"format": FORMAT, **content})


def unsealed(path: str, data: bytes) -> dict[str, Any]:
    """What `sealed` was given. Raises RidgelineError for a damaged file, or one of another format."""
    return unseal(path.rpartition("/")[2], data, f"`{path}`", FORMAT)


def reader_name(application: str, operator: str) -> str:
    """The name of a reader; each of its runs registers with `-` and its id behind it."""
    return f"{safe_name(application)}.{safe_name(operator)}"


def reader_of(registration: str) -> str:
    """The name of the reader that has registered so."""
    return registration.rpartition("-")[0]


class ReaderPosition(NamedTuple):
    """How far a reader has committed: up to, and without, the entry `next`. `seen`: when it said so."""

    name: str
    next: int
    seen: float


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


class LostError(RidgelineError):
    """Entries were dropped before this reader has read them. `first`: the oldest that is there."""

    def __init__(self, root: str, number: int, first: int) -> None:
        super().__init__(
            f"queue `{root}` has no entry {number} any more, the oldest that is there is entry {first}: it "
            "was dropped, since it was not read in time (`keep`, `keep_bytes`); to go on with the oldest "
            "one, set `when_lost` to `skip`"
        )
        self.number, self.first = number, first


def damaged(path: Path | str, what: str) -> RidgelineError:
    """The error for a file of a queue that is not as it was written."""
    return RidgelineError(f"`{path}` is damaged: {what}; restore the queue's folder from a copy")


class _SegmentStream(io.RawIOBase):
    """Writes to a place in a file, in pieces, and sums them up."""

    def __init__(self, file: int, offset: int) -> None:
        super().__init__()
        self._file = file
        self.end = offset
        """Where the bytes end that were written."""
        self.crc32 = 0

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, data: Any) -> int:
        """Write a piece of the bytes; returns how many those are. Raises OSError."""
        written = os.pwrite(self._file, memoryview(data)[:_PIECE], self.end)
        self.crc32 = zlib.crc32(memoryview(data)[:written], self.crc32)
        self.end += written
        return written


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
            file = self._open()
            offset = self._size
            stream = _SegmentStream(file, offset)  # at `offset`: what a failed write has left is written over
            with io.BufferedWriter(stream, _BUFFER) as out:
                if sum(batch.nbytes for batch in batches) < _COPIED_BYTES:
                    out.write(arrow_stream(batches))
                else:
                    with pa.ipc.new_stream(pa.PythonFile(out, "w"), batches[0].schema) as rows:
                        for batch in batches:
                            rows.write_batch(batch)
            os.fdatasync(file)
        except OSError as error:
            if error.errno not in FULL:  # the file may be of a server that is gone: another one is made
                with contextlib.suppress(OSError):
                    self.close()
            raise
        self._size = stream.end
        count = sum(batch.num_rows for batch in batches)
        return Part(self._partition, self._name, offset, stream.end - offset, count, stream.crc32)

    def close(self) -> None:
        """Close the file; the next window begins another one."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


class ObjectFolder(QueueFolder):
    """Where a queue's files lie on an object store or HDFS, where nothing is appended to.

    A segment has the rows of one partition in one window.
    """

    look_seconds = 0.25
    readers_look_seconds = 2.0
    is_remote = True

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._files, self._base = resolve(path)
        self.pool = ThreadPoolExecutor(_AT_ONCE, "ridgeline-queue")
        """Threads for requests that need not wait for each other. They end with the folder."""
        self._coming: dict[Part, Future[bytes | None]] = {}

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

    def create(self, names: Sequence[str], contents: Sequence[bytes], *, sync: bool = False) -> None:
        """Write objects of which no other content can be, so that no reader sees half of one."""
        list(self.pool.map(self._create, names, contents))

    def _create(self, name: str, data: bytes) -> None:
        """Write one of them: on S3 it appears as a whole, elsewhere it is moved to its name."""
        if self._files.type_name == "s3":
            self.put(name, data)
            return
        beside = f"{uuid.uuid4().hex}.tmp"
        self.put(beside, data)
        try:
            self._files.move(f"{self._base}/{beside}", f"{self._base}/{name}")
        except OSError:
            if self.get(name) is None:
                raise
            self._remove(beside)  # another driver has written the same

    def names(self, folder: str) -> list[str]:
        """The sorted names of the objects in a folder. Raises OSError."""
        found = self._files.get_file_info(FileSelector(f"{self._base}/{folder}", allow_not_found=True))
        return sorted(info.base_name for info in found if info.is_file)

    def each(self, do: Callable[[str], _Result], names: Iterable[str]) -> Iterator[_Result]:
        """Do something with several objects at the same time. Raises OSError."""
        return self.pool.map(do, names)

    def remove_later(self, names: Iterable[str]) -> None:
        """Remove objects in a thread. The next driver removes those that an error has left."""
        self.pool.submit(self._remove_each, list(names))

    def _remove_each(self, names: Sequence[str]) -> None:
        for name in names:
            with contextlib.suppress(OSError):
                self._remove(name)

    def _remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._files.delete_file(f"{self._base}/{name}")

    def make(self) -> None:
        """Make the folders, where the file system has any. Raises OSError."""
        for folder in ("log", "segments", "readers"):
            self._files.create_dir(f"{self._base}/{folder}", recursive=True)

    def segment_writer(self, partition: int) -> SegmentWriter:
        """Writes the rows of a partition."""
        return ObjectSegmentWriter(self, partition)

    def expect(self, parts: Sequence[Part]) -> None:
        """Begin to get them all."""
        self._coming = {part: self.pool.submit(self.get, f"segments/{part.segment}") for part in parts}

    def _piece(self, part: Part) -> Any:
        """The bytes of a part; one that could not be got is asked for again. Raises as `read`."""
        name = f"segments/{part.segment}"
        coming = self._coming.pop(part, None)
        data = self.get(name) if coming is None else coming.result()
        if data is None or len(data) != part.size:
            found = "it is missing" if data is None else f"it has {len(data)} bytes"
            raise damaged(self.name(name), f"{found}, {part.size} are named")
        return data


class ObjectSegmentWriter(SegmentWriter):
    """Writes the rows of each window as an object. For one partition."""

    def write(self, batches: Sequence[pa.RecordBatch]) -> Part:
        """Write the rows of a window, at least one batch; returns once they are durable. Raises OSError."""
        data = arrow_stream(batches)
        name = f"p{self._partition}-{uuid.uuid4().hex}.segment"
        self._folder.put(f"segments/{name}", data)
        return Part(self._partition, name, 0, data.size, sum(map(len, batches)), zlib.crc32(data))


def folder_of(path: str) -> QueueFolder:
    """The folder of a queue, on a disk or elsewhere. Raises RidgelineError if it cannot be reached."""
    return QueueFolder(local_path(path)) if is_local(path) else ObjectFolder(path)
