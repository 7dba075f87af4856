"""The folder of a durable queue on a simulated disk: the engine's own code runs over it.

`Path`, `os`, mapped files and threads are what that code finds in place of those of the operating system. Who
uses them is the process whose code runs (`at_work`).
"""

from __future__ import annotations

import errno
import fnmatch
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Self
from uuid import UUID

import pyarrow as pa
from typing_extensions import Buffer

from ridgeline.operators import (
    _queue_enumerator,
    _queue_files,
    _queue_log,
    _queue_publisher,
)
from support.simulation.disk import Disk, File
from support.simulation.process import Process

FOLDER = "/queues"
_TORN = 0.3
"""How likely it is that a file is written in two pieces."""


class _System:
    """What code finds: a disk, the process that runs, its open files."""

    disk: Disk
    luck: Any

    def __init__(self) -> None:
        self.process: Any = None
        self.turns = 0
        """So many turns a thread may still take."""
        self.open: dict[int, File] = {}
        self.opened: set[str] = set()
        """The queues that a writer of the driver has opened."""
        self.numbers = 2
        self.appended = 0
        """How often somebody has added to a log."""

    def begin(self, disk: Disk, luck: Any) -> None:
        self.disk, self.luck, self.process = disk, luck, None
        self.turns, self.numbers, self.appended = 0, 2, 0
        self.open.clear()
        self.opened.clear()

    def file(self, name: str) -> File:
        """Raises FileNotFoundError."""
        try:
            return self.disk.names[name]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "simulated", name) from None

    def new_file(self, name: str) -> File:
        """Raises FileNotFoundError if its folder is not there."""
        folder = name.rpartition("/")[0]
        if folder not in self.disk.made:
            raise FileNotFoundError(errno.ENOENT, "simulated", name)
        if self.disk.full:
            raise OSError(errno.ENOSPC, "simulated")
        file = File()
        self.disk.link(name, file)
        return file


SYSTEM = _System()


@contextmanager
def at_work(process: Process) -> Iterator[None]:
    """The code of a process runs."""
    before, SYSTEM.process = SYSTEM.process, process
    try:
        yield
    finally:
        SYSTEM.process = before


class _Opened:
    """A file that is written to, in one go for each call."""

    def __init__(self, file: File) -> None:
        self._file = file

    def write(self, whole: bytes) -> None:
        """Write; a process that dies leaves a part."""
        cut = SYSTEM.luck.randint(0, len(whole)) if SYSTEM.luck.random() < _TORN else 0
        for piece in (whole[:cut], whole[cut:]):
            if piece:
                SYSTEM.process.point("queue append")
                SYSTEM.disk.write(self._file, piece, len(self._file.data))
        SYSTEM.process.point("queue appended")

    def flush(self) -> None:
        """Nothing is held."""

    def fileno(self) -> int:
        return _descriptor(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _descriptor(file: File) -> int:
    SYSTEM.numbers += 1
    SYSTEM.open[SYSTEM.numbers] = file
    return SYSTEM.numbers


class SimulatedPath:
    """A `Path` of the simulated disk, as far as the queue's code asks for it."""

    __slots__ = ("_text",)

    def __init__(self, text: object) -> None:
        self._text = str(text)

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def __fspath__(self) -> str:
        return self._text

    def __truediv__(self, name: object) -> SimulatedPath:
        return SimulatedPath(f"{self._text}/{name}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SimulatedPath) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    @property
    def name(self) -> str:
        return self._text.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The last part without its ending."""
        return self.name.rpartition(".")[0] or self.name

    @property
    def parent(self) -> SimulatedPath:
        return SimulatedPath(self._text.rpartition("/")[0])

    def with_suffix(self, suffix: str) -> SimulatedPath:
        return self.parent / f"{self.stem}{suffix}"

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Make a folder; folders above need no making here."""
        assert exist_ok
        SYSTEM.process.point("queue folder")
        if SYSTEM.disk.full and self._text not in SYSTEM.disk.made:
            raise OSError(errno.ENOSPC, "simulated")
        SYSTEM.disk.make_folder(self._text)

    def exists(self) -> bool:
        return self._text in SYSTEM.disk.names

    def read_bytes(self) -> bytes:
        SYSTEM.process.point("queue read")
        return bytes(SYSTEM.file(self._text).data)

    def open(self, mode: str) -> Any:
        """To write a new file."""
        assert mode == "wb"
        SYSTEM.process.point("queue open")
        file = SYSTEM.disk.names.get(self._text) or SYSTEM.new_file(self._text)
        del file.data[:]
        file.dirty.clear()
        return _Opened(file)

    def replace(self, target: SimulatedPath) -> None:
        SYSTEM.process.point("queue rename")
        SYSTEM.file(self._text)
        SYSTEM.disk.rename(self._text, str(target))
        SYSTEM.appended += "/log/" in self._text
        SYSTEM.process.point("queue renamed")

    def unlink(self, *, missing_ok: bool = False) -> None:
        SYSTEM.process.point("queue remove")
        if self.exists():
            SYSTEM.disk.link(self._text, None)
        elif not missing_ok:
            raise FileNotFoundError(errno.ENOENT, "simulated", self._text)

    def glob(self, pattern: str) -> list[SimulatedPath]:
        """The files in this folder whose names are like this."""
        SYSTEM.process.point("queue list")
        names = sorted(SYSTEM.disk.folders.get(self._text, ()))
        return [self / name for name in names if fnmatch.fnmatchcase(name, pattern)]


def _open(path: object, _flags: int, _mode: int = 0o777) -> int:
    SYSTEM.process.point("segment open")
    return _descriptor(SYSTEM.new_file(str(path)))


def _pwrite(number: int, data: Buffer, offset: int) -> int:
    SYSTEM.process.point("segment write")
    SYSTEM.disk.write(SYSTEM.open[number], data, offset)
    return memoryview(data).nbytes


def _sync(number: int) -> None:
    process = SYSTEM.process
    process.point("queue sync")
    process.syncs()
    SYSTEM.disk.sync(SYSTEM.open[number])
    process.point("queue synced")


def sync_rows(number: int) -> None:
    _sync(number)


def _sync_rows(number: int) -> None:
    sync_rows(number)  # as it is then


def _sync_folder(path: str) -> None:
    SYSTEM.process.point("queue settle")
    SYSTEM.disk.fail_sync()
    SYSTEM.disk.sync_folder(path)
    SYSTEM.process.point("queue settled")


def _sync_above(path: str) -> None:
    while path:
        path = path.rpartition("/")[0]
        _sync_folder(path)


class _Mapped:
    """A mapped file."""

    def __init__(self, path: str) -> None:
        SYSTEM.process.point("segment map")
        data = bytes(SYSTEM.file(path).data)
        self._reader = pa.BufferReader(data)
        self._size = len(data)

    def size(self) -> int:
        return self._size

    def seek(self, place: int) -> None:
        self._reader.seek(place)

    def read_buffer(self, size: int) -> pa.Buffer:
        return self._reader.read_buffer(size)

    def close(self) -> None:
        """Nothing is held."""


class _Arrow:
    """Arrow with another `memory_map`."""

    memory_map = _Mapped

    def __getattr__(self, name: str) -> Any:
        return getattr(pa, name)


class _Event:
    """An `Event`: whoever asks whether it is set goes on as long as it has turns. Nobody waits for it."""

    def __init__(self) -> None:
        self._set = False

    def set(self) -> None:
        self._set = True

    def clear(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        """True if the thread is to end, here: its turn is over."""
        if self._set or not SYSTEM.turns:
            return True
        SYSTEM.turns -= 1
        return False

    def wait(self, _seconds: float) -> bool:
        return self._set


class _Thread:
    """A thread of a driver, which calls its function anew for each turn."""

    def __init__(self, target: Callable[[], None], **_named: object) -> None:
        self._target = target
        self._process = SYSTEM.process

    def start(self) -> None:
        self._process.threads.append(self)

    def turn(self) -> None:
        SYSTEM.turns = 1
        self._target()

    def join(self) -> None:
        """It has no turn any more."""
        self._process.threads.remove(self)


class _SegmentWriter(_queue_files.SegmentWriter):
    """The library's own, which may outlive its world."""

    def __del__(self) -> None:
        """Nothing is open."""


def _uuid() -> UUID:
    return UUID(int=SYSTEM.luck.getrandbits(128))


def queue_patches(roll_entries: int, segment_bytes: int) -> Iterator[tuple[Any, str, object]]:
    """What a queue's code is to find. `roll_entries`, `segment_bytes`: where its files end."""
    names = ("O_WRONLY", "O_CREAT", "O_EXCL")
    system = SimpleNamespace(
        open=_open, pwrite=_pwrite, fdatasync=_sync_rows, fsync=_sync, getpid=lambda: 1,
        close=lambda number: SYSTEM.open.pop(number, None), **{name: getattr(os, name) for name in names},
    )  # fmt: skip
    yield _queue_files, "Path", SimulatedPath
    yield _queue_files, "os", system
    yield _queue_files, "pa", _Arrow()
    yield _queue_files, "sync_folder", _sync_folder
    yield _queue_log, "sync_folder", _sync_folder
    yield _queue_files, "sync_above", _sync_above
    yield _queue_files, "SegmentWriter", _SegmentWriter
    yield _queue_files, "uuid", SimpleNamespace(uuid4=_uuid)
    yield _queue_log, "BUNDLE_ENTRIES", roll_entries
    yield _queue_files, "SEGMENT_BYTES", segment_bytes
    yield _queue_publisher, "uuid", SimpleNamespace(uuid4=_uuid)
    yield _queue_publisher, "_LISTENERS", {}
    yield _queue_publisher, "_OPENED", SYSTEM.opened
    yield _queue_enumerator, "threading", SimpleNamespace(Event=_Event, Thread=_Thread)
    yield _queue_enumerator, "_REGISTER_LOOKS", 0
