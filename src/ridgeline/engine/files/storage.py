"""File operations of checkpoints: on the local disk, on pyarrow's file systems, or in memory."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import shutil
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import IO

import pyarrow.fs

from ridgeline.api.errors import CheckpointError
from ridgeline.api.support import trust
from ridgeline.api.support.files import (
    UnavailableError,
    is_local,
    local_path,
    resolve,
    sync_above,
    sync_folder,
)
from ridgeline.api.support.masking import mask_text
from ridgeline.engine.files.folder_lock import FolderLock, locked

# A file of the local disk that one process appends to, each piece synced before the next.

_AHEAD_BYTES = 1 << 18
"""Bytes of zeros that are written ahead: syncs within them change no length of the file.

A file system whose files grow has to commit its own journal in each sync, with all that other programs have
written meanwhile.
"""


class AppendedFile:
    """An existing file. Its writer says where its end is: what lies beyond that is overwritten.

    Zeros lie behind what was appended, until `cut`.

    After an error it is unknown what is on the disk: do not append to it again. Not thread-safe.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._length = os.fstat(self._file).st_size
        self._end: int | None = None
        """Where the last record ends that was appended and synced, if nothing else was written since."""

    def append(self, data: bytes, offset: int) -> None:
        """Write at `offset`, the end so far, and sync. Raises OSError, also if the file was removed."""
        end, self._end = offset + len(data), None
        self.write(data, offset)
        if end > self._length:
            self._length = end
            with contextlib.suppress(OSError):  # the record is there, and the disk has no room for more
                self.write(bytes(_AHEAD_BYTES), end)
                self._length += _AHEAD_BYTES
        os.fdatasync(self._file)
        if not os.fstat(self._file).st_nlink:
            raise FileNotFoundError(f"`{self._path}` was removed")
        self._end = end

    def write(self, data: bytes, offset: int) -> None:
        """Write at `offset`, without a sync. Raises OSError."""
        rest = memoryview(data)
        while rest:
            written = os.pwrite(self._file, rest, offset)
            rest, offset = rest[written:], offset + written

    def cut(self) -> None:
        """Cut off the zeros behind the last record, to save space. Does nothing after an error.

        Only the process may call it that has appended all there is.
        """
        if self._end is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._end)

    def close(self) -> None:
        """Close it."""
        os.close(self._file)


Buffer = bytes | mmap.mmap
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def mapped(file: IO[bytes]) -> Buffer:
    """A whole file of the local disk, mapped into memory."""
    size = os.fstat(file.fileno()).st_size
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""


class Storage(ABC):
    """A folder.

    Names are relative to it, with `/` between parts. Safe for several processes; blocking. Raises OSError
    subclasses.
    """

    uri: str

    def prepare(self, folders: Iterable[str]) -> None:
        """Make the folder, which will hold these `folders`, for a driver that takes it over.

        Raises UntrustedError if others could have written what it holds, OSError.
        """

    @abstractmethod
    def read(self, name: str) -> bytes:
        """The whole file. Raises FileNotFoundError."""

    def read_range(self, name: str, offset: int, size: int) -> bytes:
        """Read `size` bytes of a file, fewer if it ends before. Raises FileNotFoundError."""
        return self.read(name)[offset : offset + size]

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Write a file whose name has no other writer. Readers may see half of it: publish its name later."""

    def write_parts(self, name: str, parts: Iterable[bytes]) -> int:
        """As `write`, for a file in parts that may exceed memory; returns its size in bytes."""
        data = b"".join(parts)
        self.write(name, data)
        return len(data)

    def map(self, name: str) -> Buffer | None:
        """The bytes of an immutable file, if memory or a local disk has them, without copying; else None.

        Raises FileNotFoundError.
        """

    def copy_out(self, name: str, path: str) -> None:
        """Copy a file to a path of the local disk. Raises FileNotFoundError."""
        with open(path, "wb") as file:  # noqa: PTH123
            file.write(self.read(name))

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """The sorted names of the files directly in a folder, without the folder; empty if there is none."""

    @abstractmethod
    def delete(self, names: Iterable[str]) -> None:
        """Remove files; those that are not there are passed over."""


class DriverStorage(Storage):
    """The driver's storage, which can also create a file of which there is only one."""

    @abstractmethod
    def create(self, name: str, data: bytes, *, settled: str = "") -> bool:
        """Write a file atomically unless it exists: False then.

        Exactly one of several callers gets True; no reader sees half of it.

        It outlives a power cut, and so do the names of the files that lie in the folder `settled` before it.
        """

    def settle(self, names: Iterable[str]) -> None:
        """Make files that another program wrote survive a power cut, where a program has to ask for that."""


class LocalStorage(DriverStorage):
    """A folder of the local disk, or of one that is mounted like it.

    New files and folders are their owner's alone. What others could have written is refused, with
    UntrustedError (see `trust`): folders when this process first uses them, each file when it is read.
    """

    def __init__(self, path: str) -> None:
        self.uri = local_path(path)
        self._folders: set[str] = set()
        self._syncs: ThreadPoolExecutor | None = None
        self._trusted: set[str] = set()
        self._refusal = f"checkpoint folder `{self.uri}`", "give another `--checkpoint`"

    def prepare(self, folders: Iterable[str]) -> None:
        """Make it, or close it to others: what it holds may be secret.

        One with foreign files stays open, but for `folders`.
        """
        try:
            self._make("")
        except (FileExistsError, NotADirectoryError) as error:
            file = next(path for path in _parents(self.uri) if os.path.exists(path))  # noqa: PTH110
            raise CheckpointError(
                f"`{file}` is a file; a checkpoint is a folder: give another `--checkpoint`"
            ) from error
        if trust.is_exempt(self.uri):
            return
        if not os.listdir(self.uri):  # noqa: PTH208
            trust.close(self.uri)
        self._check_folder(self.uri)
        if os.path.exists(self._path("run.json")) or not os.listdir(self.uri):  # noqa: PTH110, PTH208
            trust.close(self.uri)
        else:
            for folder in folders:
                self._make(folder)
                trust.close(self._path(folder))
        for folder in folders:
            self._check_folder(self._path(folder))

    def _make(self, folder: str) -> None:
        path = f"{self.uri}/{folder}".rstrip("/")
        os.makedirs(path, mode=0o777 if trust.is_exempt(path) else 0o700, exist_ok=True)  # noqa: PTH103

    def _check_folder(self, folder: str) -> None:
        """Refuse a folder that others can write to. Once a folder and process."""
        if folder in self._trusted:
            return
        if not self._trusted:
            trust.check(self.uri, *self._refusal)
        try:
            found = os.stat(folder)  # noqa: PTH116
        except FileNotFoundError:
            return
        trust.check_found(found, folder, *self._refusal)
        self._trusted.add(folder)

    def _open(self, name: str) -> IO[bytes]:
        """A file for reading, in whose place no other user could have put something."""
        path = self._path(name)
        self._check_folder(os.path.dirname(path))  # noqa: PTH120
        file = open(path, "rb", buffering=0)  # noqa: PTH123, SIM115
        try:
            trust.check_found(os.fstat(file.fileno()), path, *self._refusal)
        except BaseException:
            file.close()
            raise
        return file

    def _path(self, name: str) -> str:
        return f"{self.uri}/{name}"

    def _make_folder(self, name: str) -> None:
        folder = os.path.dirname(self._path(name))  # noqa: PTH120  plain strings are faster
        if folder not in self._folders:
            if not os.path.isdir(folder):  # noqa: PTH112
                self._make("")
                self._make(folder[len(self.uri) + 1 :])
            sync_above(folder)
            self._check_folder(folder)
            self._folders.add(folder)

    def read(self, name: str) -> bytes:
        """The whole file."""
        with self._open(name) as file:
            return file.read()

    def read_range(self, name: str, offset: int, size: int) -> bytes:
        """Read so many bytes; the file may be growing."""
        with self._open(name) as file:
            return os.pread(file.fileno(), size, offset)

    def lock(self, by: str = "") -> FolderLock | None:
        """Lock the folder for this process; None where there are no locks. Raises CheckpointError.

        `by`: as of `FolderLock`.
        """
        return locked(self.uri, by)

    def appended(self, name: str) -> AppendedFile:
        """A file that `create` has made, to append to. Raises FileNotFoundError, UntrustedError."""
        trust.check_entry(self._path(name), *self._refusal)
        return AppendedFile(self._path(name))

    def settle_folder(self, folder: str) -> None:
        """Let the names of the files in a folder survive a power cut."""
        sync_folder(self._path(folder))

    def write(self, name: str, data: bytes) -> None:
        """Write and sync the content; `create` or `settle_folder` syncs the folder."""
        self.write_parts(name, (data,))

    def write_parts(self, name: str, parts: Iterable[bytes]) -> int:
        """Write part by part, then sync."""
        self._make_folder(name)
        with open(self._path(name), "wb", opener=trust.private_opener) as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
            return file.tell()

    def map(self, name: str) -> Buffer | None:
        """The file, mapped into memory; it may be removed meanwhile."""
        with self._open(name) as file:
            return mapped(file)

    def create(self, name: str, data: bytes, *, settled: str = "") -> bool:
        """A hidden file beside it, then a hard link, which fails if the name exists (on NFS too)."""
        self._make_folder(name)
        folder = os.path.dirname(self._path(name))  # noqa: PTH120
        hidden = f"{folder}/.{uuid.uuid4().hex}"
        try:
            self._write_hidden(hidden, data, settled)
            os.link(hidden, self._path(name))
        except FileExistsError:
            return False
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(hidden)  # noqa: PTH108
        sync_folder(folder)
        return True

    def _write_hidden(self, path: str, data: bytes, settled: str) -> None:
        """Write and sync a file and, at the same time, a folder: the disk does both in one go."""
        syncing = None
        if settled:
            self._syncs = self._syncs or ThreadPoolExecutor(1, "ridgeline-sync")
            syncing = self._syncs.submit(sync_folder, self._path(settled))
        try:
            with open(path, "wb", opener=trust.private_opener) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        finally:
            if syncing is not None:
                syncing.result()

    def settle(self, names: Iterable[str]) -> None:
        """Sync each file and its folder."""
        for name in names:
            with open(self._path(name), "rb") as file:  # noqa: PTH123
                os.fsync(file.fileno())
            sync_folder(os.path.dirname(self._path(name)))  # noqa: PTH120

    def names(self, folder: str) -> list[str]:
        """Names of visible files."""
        try:
            with os.scandir(self._path(folder)) as entries:
                return sorted(
                    entry.name for entry in entries if not entry.name.startswith(".") and entry.is_file()
                )
        except FileNotFoundError:
            return []

    def delete(self, names: Iterable[str]) -> None:
        """Unlink each."""
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path(name))  # noqa: PTH108


_WITHOUT_FOLDERS = frozenset({"s3", "gcs"})
"""File systems (by pyarrow's names) where a file needs no folder."""


class ArrowStorage(Storage):
    """A folder of any pyarrow file system, for workers."""

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/")
        self._filesystem, self._base = resolve(self.uri)
        self._folders: set[str] = set()

    def _path(self, name: str) -> str:
        return f"{self._base}/{name}"

    def read(self, name: str) -> bytes:
        """The whole file."""
        with self._filesystem.open_input_stream(self._path(name)) as stream:
            return bytes(stream.read())

    def read_range(self, name: str, offset: int, size: int) -> bytes:
        """One request for the range."""
        with self._filesystem.open_input_file(self._path(name)) as file:
            return bytes(file.read_at(size, offset))

    def write(self, name: str, data: bytes) -> None:
        """Write in one go."""
        self.write_parts(name, (data,))

    def write_parts(self, name: str, parts: Iterable[bytes]) -> int:
        """Write part by part."""
        folder = self._path(name).rpartition("/")[0]
        if folder not in self._folders and self._filesystem.type_name not in _WITHOUT_FOLDERS:
            self._filesystem.create_dir(folder, recursive=True)
        self._folders.add(folder)
        with self._filesystem.open_output_stream(self._path(name)) as stream:
            for part in parts:
                stream.write(part)
            return int(stream.tell())

    def copy_out(self, name: str, path: str) -> None:
        """Copy in pieces."""
        with self._filesystem.open_input_stream(self._path(name)) as stream, open(path, "wb") as file:  # noqa: PTH123
            shutil.copyfileobj(stream, file, 1 << 20)

    def names(self, folder: str) -> list[str]:
        """Names of visible files."""
        selector = pyarrow.fs.FileSelector(self._path(folder), allow_not_found=True)
        found = self._filesystem.get_file_info(selector)
        return sorted(info.base_name for info in found if info.is_file and not info.base_name.startswith("."))

    def delete(self, names: Iterable[str]) -> None:
        """Delete each."""
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                self._filesystem.delete_file(self._path(name))


class MemoryStorage(DriverStorage):
    """A folder in this process, for the testing kit."""

    def __init__(self) -> None:
        self.uri = "memory:"
        self._files: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def read(self, name: str) -> bytes:
        """The whole file."""
        try:
            return self._files[name]
        except KeyError:
            raise FileNotFoundError(name) from None

    def write(self, name: str, data: bytes) -> None:
        """Keep the bytes."""
        self._files[name] = data

    def map(self, name: str) -> Buffer | None:
        """The bytes."""
        return self.read(name)

    def create(self, name: str, data: bytes, *, settled: str = "") -> bool:
        """Keep the bytes unless there are some."""
        with self._lock:
            if name in self._files:
                return False
            self._files[name] = data
            return True

    def names(self, folder: str) -> list[str]:
        """Names of files in the folder."""
        prefix = f"{folder}/"
        return sorted(
            name[len(prefix) :]
            for name in list(self._files)
            if name.startswith(prefix) and "/" not in name[len(prefix) :]
        )

    def delete(self, names: Iterable[str]) -> None:
        """Forget each."""
        for name in names:
            self._files.pop(name, None)


class TrialStorage(MemoryStorage):
    """Reads another storage, and keeps what is written in memory: to try what would be written."""

    def __init__(self, storage: Storage) -> None:
        super().__init__()
        self.uri = storage.uri
        self._below = storage
        self._gone: set[str] = set()

    def read(self, name: str) -> bytes:
        """The whole file."""
        if name in self._gone:
            raise FileNotFoundError(name)
        return super().read(name) if name in self._files else self._below.read(name)

    def map(self, name: str) -> Buffer | None:
        """The bytes, of a file of the other storage as that has them."""
        return self.read(name) if name in self._files or name in self._gone else self._below.map(name)

    def names(self, folder: str) -> list[str]:
        """The names of files in a folder."""
        found = {*self._below.names(folder), *super().names(folder)}
        return sorted(name for name in found if f"{folder}/{name}" not in self._gone)

    def delete(self, names: Iterable[str]) -> None:
        """Hide files."""
        self._gone.update(names)


def open_storage(uri: str) -> Storage:
    """The storage of a path or URI, for workers. Raises CheckpointError if it cannot be reached."""
    if is_local(uri):
        return LocalStorage(uri)
    try:
        return ArrowStorage(uri)
    except Exception as error:
        raise CheckpointError(
            f"checkpoint folder `{mask_text(uri)}` cannot be reached; {mask_text(str(error))}"
        ) from error


def _parents(path: str) -> Iterator[str]:
    """A path and the folders that it lies in, from the innermost."""
    while path not in ("", "/"):
        yield path
        path = os.path.dirname(path)  # noqa: PTH120


def explain(uri: str, error: OSError) -> str:
    """An OSError in the checkpoint folder, explained to its user."""
    cause = error.__cause__
    if error.errno in _NO_ROOM or (isinstance(cause, OSError) and cause.errno in _NO_ROOM):
        what, remedy = "no space is left", "free some room"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        what, remedy = "it cannot be written", "give this user the right to write there"
    elif isinstance(error, UnavailableError):
        what, remedy = str(error), "see that this host reaches it"
    else:
        what, remedy = f"{type(error).__name__}: {error}", "fix it"
    again = "run again with the same `--checkpoint`; it goes on from the last committed window"
    return f"checkpoint folder `{mask_text(uri)}`: {what}; {remedy} and {again}"


@contextlib.contextmanager
def explained(uri: str) -> Iterator[None]:
    """Raise CheckpointError in place of the operating system's errors in the block."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(explain(uri, error)) from error
