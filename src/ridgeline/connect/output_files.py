"""File operations of output operators: checksums while writing, and syncs on local disks."""

from __future__ import annotations

import contextlib
import io
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.fs

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.files import resolve, sync_above, sync_folder
from ridgeline.api.support.sealed import checksum

_CHUNK_BYTES = 2**20
_CRC_BYTES = 4
_PART = ".part"


class SummedStream(io.RawIOBase):
    """A stream for writing that counts bytes and computes a CRC-32, which begins with the file's name."""

    def __init__(self, out: Any, name: str) -> None:
        super().__init__()
        self._out = out
        self.crc32 = zlib.crc32(name.encode())
        self.size = 0

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, data: Any) -> int:
        """Write all bytes."""
        self._out.write(data)
        self.crc32 = zlib.crc32(data, self.crc32)
        written = memoryview(data).nbytes
        self.size += written
        return written

    def tell(self) -> int:
        """The number of bytes written."""
        return self.size


class OutputFiles:
    """The file system of an output folder; `root` is the folder's path in it.

    The constructor raises RidgelineError if pyarrow cannot reach the folder's URI, methods raise OSError.
    """

    def __init__(self, uri: str) -> None:
        self._files, self.root = resolve(uri)
        self._local = isinstance(self._files, pyarrow.fs.LocalFileSystem)

    @contextlib.contextmanager
    def writing(self, path: str) -> Iterator[SummedStream]:
        """Create a file in an existing folder.

        Its bytes survive a power cut once the block has ended, its name once `sync` has returned. If the
        block fails, a part of the file may be left.
        """
        name = path.rpartition("/")[2]
        if not self._local:
            with self._files.open_output_stream(path) as out:
                yield SummedStream(out, name)
            return
        with open(path, "wb") as file:  # noqa: PTH123  a plain string, as for every file system
            yield SummedStream(file, name)
            file.flush()
            os.fsync(file.fileno())

    def write(self, path: str, fill: Callable[[SummedStream], object]) -> SummedStream:
        """Create a file as `writing`, of what `fill` writes. Nothing is left of it after an error."""
        try:
            with self.writing(path) as out:
                fill(out)
        except Exception:
            with contextlib.suppress(OSError):
                self.delete(path)
            raise
        return out

    def write_rows(self, path: str, rows: pa.Table) -> None:
        """Create a file of rows, with a checksum over them and its name; all of it is there, or nothing.

        Its bytes survive a power cut, its name once `sync` has returned.
        """
        with self.writing(f"{path}{_PART}" if self._local else path) as out:
            out.crc32 = checksum(path.rpartition("/")[2], b"")  # not that of the name ending in `.part`
            with pa.ipc.new_stream(out, rows.schema) as writer:
                writer.write_table(rows)
            out.write(out.crc32.to_bytes(_CRC_BYTES, "little"))
        if self._local:
            self.move(f"{path}{_PART}", path)

    def read_rows(self, path: str) -> pa.Table:
        """The rows that `write_rows` has written. Raises RidgelineError if the file is damaged."""
        data = memoryview(self.read(path))
        body, crc32 = data[:-_CRC_BYTES], int.from_bytes(data[-_CRC_BYTES:], "little")
        if checksum(path.rpartition("/")[2], body) != crc32:
            raise RidgelineError(f"`{path}` is damaged: its checksum differs; restore it from a copy")
        return pa.ipc.open_stream(body).read_all()

    def touch(self, path: str) -> None:
        """Create an empty file in an existing folder, unless it exists."""
        file = open(path, "ab") if self._local else self._files.open_output_stream(path)  # noqa: PTH123, SIM115
        file.close()

    def reading(self, path: str) -> pa.NativeFile:
        """Open a file to read it sequentially."""
        return self._files.open_input_stream(path)

    def read(self, path: str) -> pa.Buffer:
        """A whole file."""
        with self._files.open_input_stream(path) as stream:
            return stream.read_buffer()

    def checksum(self, path: str, name: str, out: SummedStream | None = None) -> int:
        """The CRC-32 of a file that was written under this name; it is read in chunks.

        `out`: the stream to which its bytes are copied.
        """
        found = zlib.crc32(name.encode())
        with self.reading(path) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                found = zlib.crc32(chunk, found)
                if out is not None:
                    out.write(chunk)
        return found

    def move(self, source: str, target: str) -> None:
        """Rename a file: atomically where the file system can, else by copying and deleting."""
        self._files.move(source, target)

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self._files.delete_file(path)

    def remove_folder(self, path: str) -> None:
        """Delete a folder with all that is in it, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self._files.delete_dir(path)

    def make_folder(self, path: str) -> None:
        """Create a folder and its parents, where the file system has folders."""
        self._files.create_dir(path, recursive=True)

    def sync(self, folder: str) -> None:
        """Make the names in a folder survive a power cut; only local disks need it."""
        if self._local:
            sync_folder(folder)

    def sync_above(self, folder: str) -> None:
        """Make the names of a folder, and of those that it lies in, survive a power cut."""
        if self._local:
            sync_above(folder)

    def is_folder(self, path: str) -> bool:
        """True if the folder exists."""
        return bool(self._files.get_file_info(path).type == pyarrow.fs.FileType.Directory)

    def is_file(self, path: str) -> bool:
        """True if the file exists."""
        return bool(self._files.get_file_info(path).type == pyarrow.fs.FileType.File)

    def holds(self, path: str, size: int) -> bool:
        """True if a file of this size exists. Remote file systems are not asked, as that is slow: True."""
        return not self._local or self._files.get_file_info(path).size == size

    def names(self, folder: str) -> list[str]:
        """The names of files and folders directly in a folder, sorted; empty if the folder does not exist."""
        selector = pyarrow.fs.FileSelector(folder, allow_not_found=True)
        return sorted(str(info.base_name) for info in self._files.get_file_info(selector))

    def below(self, folder: str) -> list[str]:
        """The files at any depth in a folder, by their paths from there; none if it does not exist."""
        selector = pyarrow.fs.FileSelector(folder, recursive=True, allow_not_found=True)
        infos = self._files.get_file_info(selector)
        return sorted(str(info.path)[len(folder) :].strip("/") for info in infos if info.is_file)

    def sizes(self, folder: str) -> dict[str, int]:
        """The files directly in a folder with their sizes in bytes; empty if the folder does not exist."""
        selector = pyarrow.fs.FileSelector(folder, allow_not_found=True)
        return {
            str(info.base_name): int(info.size)
            for info in self._files.get_file_info(selector)
            if info.is_file
        }


class MemoryFiles(OutputFiles):
    """The files of a checkpoint that is kept in this process, and ends with it: those of all its runs."""

    _all: ClassVar[Any] = pyarrow.fs._MockFileSystem()  # noqa: SLF001  Arrow's one in memory has no other name

    def __init__(self, uri: str) -> None:
        self._files, self.root, self._local = self._all, uri.removeprefix("memory:").strip("/"), False


def checkpoint_files(uri: str) -> OutputFiles:
    """The files of a folder of a checkpoint. Raises RidgelineError if it cannot be reached."""
    return MemoryFiles(uri) if uri.startswith("memory:") else OutputFiles(uri)
