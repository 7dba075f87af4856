"""The files of a durable queue on an object store or HDFS, where nothing is appended to.

A segment has the rows of one partition in one window.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow.fs import FileSelector

from ridgeline.api.clock import SystemClock
from ridgeline.api.columns.arrow_stream import arrow_stream
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.files import is_local, local_path, resolve
from ridgeline.operators._queue_files import (
    ENTRY,
    Entry,
    Part,
    QueueFolder,
    SegmentReader,
    SegmentWriter,
    damaged,
)

_Result = TypeVar("_Result")
_AT_ONCE = 8
"""Requests that are under way at the same time."""
_TRIES = 20
_TRY_SECONDS = 0.05


def folder_of(path: str) -> QueueFolder:
    """The folder of a queue, on a disk or elsewhere. Raises RidgelineError if it cannot be reached."""
    return QueueFolder(local_path(path)) if is_local(path) else ObjectFolder(path)


class ObjectFolder(QueueFolder):
    """Where a queue's objects lie."""

    look_seconds = 0.25
    readers_look_seconds = 2.0
    is_remote = True

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

    def create(self, names: Sequence[str], contents: Sequence[bytes], *, sync: bool = False) -> None:
        """Write objects of which no other content can be, so that no reader sees half of one.

        Raises RidgelineError if there is another one, OSError.
        """
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
            found = self.get(name)
            if found is None:
                raise
            self._remove(beside)
            if name.endswith(ENTRY) and not _same(found, data):
                what = f"`{self.name(name)}` was written by another driver"
                raise RidgelineError(f"{what}; give each writer a `path` of its own") from None

    def names(self, folder: str) -> list[str]:
        """The sorted names of the objects in a folder. Raises OSError."""
        found = self._files.get_file_info(FileSelector(f"{self._base}/{folder}", allow_not_found=True))
        return sorted(info.base_name for info in found if info.is_file)

    def each(self, do: Callable[[str], _Result], names: Iterable[str]) -> list[_Result]:
        """Do something with several objects at the same time. Raises OSError."""
        return list(self.pool.map(do, names))

    def remove_later(self, names: Iterable[str]) -> None:
        """Remove objects in a thread. The next driver removes those that an error has left."""
        self.pool.submit(self._remove_each, list(names))

    def check_log(self) -> None:
        """Nothing: no mount can go."""

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
            if data is None or data.endswith(b"\n"):
                break
            self.clock.wait(_TRY_SECONDS)
            data = self.get(name)
        return data

    def make(self) -> None:
        """Make the folders, where the file system has any. Raises OSError."""
        for folder in ("log", "segments", "readers"):
            self._files.create_dir(f"{self._base}/{folder}", recursive=True)

    def segment_writer(self, partition: int) -> SegmentWriter:
        """Writes the rows of a partition."""
        return ObjectSegmentWriter(self, partition)

    def segment_reader(self) -> SegmentReader:
        """Reads rows."""
        return ObjectSegmentReader(self)


def _same(one: bytes, other: bytes) -> bool:
    """Whether two lines are the same entry: the window and where its rows are."""
    first, second = map(Entry.of_line, (one, other))
    return (first.window, first.parts) == (second.window, second.parts)


class ObjectSegmentWriter(SegmentWriter):
    """Writes the rows of each window as an object. For one partition."""

    def write(self, batches: Sequence[pa.RecordBatch]) -> Part:
        """Write the rows of a window, at least one batch; returns once they are durable. Raises OSError."""
        data = arrow_stream(batches)
        name = f"p{self._partition}-{uuid.uuid4().hex}.segment"
        self._folder.put(f"segments/{name}", data)
        return Part(self._partition, name, 0, data.size, sum(map(len, batches)), zlib.crc32(data))


class ObjectSegmentReader(SegmentReader):
    """Reads rows of objects, several at the same time."""

    def __init__(self, folder: ObjectFolder) -> None:
        super().__init__(folder)
        self._objects = folder
        self._coming: dict[Part, Future[bytes | None]] = {}

    def expect(self, parts: Sequence[Part]) -> None:
        """Begin to get them all."""
        get, pool = self._objects.get, self._objects.pool
        self._coming = {part: pool.submit(get, f"segments/{part.segment}") for part in parts}

    def _data(self, part: Part) -> Any:
        """The bytes of a part; one that could not be got is asked for again. Raises as `read`."""
        name = f"segments/{part.segment}"
        coming = self._coming.pop(part, None)
        data = self._objects.get(name) if coming is None else coming.result()
        if data is None or len(data) != part.size:
            found = "it is missing" if data is None else f"it has {len(data)} bytes"
            raise damaged(self._objects.name(name), f"{found}, {part.size} are named")
        return data
