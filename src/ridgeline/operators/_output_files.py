"""File operations of output operators: checksums while a file is written, and syncs where the disk is this host's."""

from __future__ import annotations

import contextlib
import io
import os
import zlib
from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa
import pyarrow.fs

from ridgeline.api.files import resolve

_CHUNK_BYTES = 2**20


class SummedStream(io.RawIOBase):
    """A stream to write to that counts bytes and keeps a CRC-32, which begins with the file's name."""

    def __init__(self, out: Any, name: str) -> None:
        super().__init__()
        self._out = out
        self.crc32 = zlib.crc32(name.encode())
        self.size = 0

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, data: Any) -> int:
        """Write all of it."""
        self._out.write(data)
        self.crc32 = zlib.crc32(data, self.crc32)
        written = memoryview(data).nbytes
        self.size += written
        return written

    def tell(self) -> int:
        """How many bytes were written."""
        return self.size


class OutputFiles:
    """The file system of an output folder.

    Paths are those of the file system, `root` is the folder's. Raises OSError subclasses.

    Raises RidgelineError if pyarrow cannot reach the folder's URI.
    """

    def __init__(self, uri: str) -> None:
        self._files, self.root = resolve(uri)
        self._local = isinstance(self._files, pyarrow.fs.LocalFileSystem)

    @contextlib.contextmanager
    def writing(self, path: str) -> Iterator[SummedStream]:
        """A new file in a folder that exists.

        Its bytes outlive a power cut once the block has ended; its name once `sync` has returned.

        If the block fails, half of the file may be left.
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

    def touch(self, path: str) -> None:
        """Create an empty file in a folder that exists, unless it is there."""
        with contextlib.closing(open(path, "ab") if self._local else self._files.open_output_stream(path)):  # noqa: PTH123
            pass

    def reading(self, path: str) -> IO[bytes]:
        """Open a file to read it from its beginning to its end."""
        return self._files.open_input_stream(path)

    def read(self, path: str) -> pa.Buffer:
        """A whole file."""
        with self._files.open_input_stream(path) as stream:
            return stream.read_buffer()

    def checksum(self, path: str, name: str) -> int:
        """The CRC-32 of a file that was written by this name; nothing of it is kept in memory."""
        found = zlib.crc32(name.encode())
        with self.reading(path) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                found = zlib.crc32(chunk, found)
        return found

    def copy_into(self, path: str, name: str, out: SummedStream) -> int:
        """Write a file's bytes to a stream; returns their CRC-32, as `checksum`."""
        found = zlib.crc32(name.encode())
        with self.reading(path) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                found = zlib.crc32(chunk, found)
                out.write(chunk)
        return found

    def move(self, source: str, target: str) -> None:
        """Rename a file: at once where the file system can, else by copying and deleting."""
        self._files.move(source, target)

    def delete(self, path: str) -> None:
        """Remove a file; one that is not there is passed over."""
        with contextlib.suppress(FileNotFoundError):
            self._files.delete_file(path)

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it, where the file system has folders."""
        self._files.create_dir(path, recursive=True)

    def sync(self, folder: str) -> None:
        """Let the names in a folder outlive a power cut (local disks; other file systems see to it themselves)."""
        if not self._local:
            return
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def is_folder(self, path: str) -> bool:
        """True if there is such a folder."""
        return bool(self._files.get_file_info(path).type == pyarrow.fs.FileType.Directory)

    def is_file(self, path: str) -> bool:
        """True if there is such a file."""
        return bool(self._files.get_file_info(path).type == pyarrow.fs.FileType.File)

    def holds(self, path: str, size: int) -> bool:
        """True if a local disk holds a file of this size; of other file systems it is taken to be true: asking takes long."""
        return not self._local or self._files.get_file_info(path).size == size

    def names(self, folder: str) -> list[str]:
        """What lies directly in a folder, folders too, sorted; nothing if the folder is not there."""
        selector = pyarrow.fs.FileSelector(folder, allow_not_found=True)
        return sorted(str(info.base_name) for info in self._files.get_file_info(selector))

    def sizes(self, folder: str) -> dict[str, int]:
        """The files directly in a folder and their sizes in bytes; nothing if the folder is not there."""
        selector = pyarrow.fs.FileSelector(folder, allow_not_found=True)
        return {
            str(info.base_name): int(info.size)
            for info in self._files.get_file_info(selector)
            if info.is_file
        }
