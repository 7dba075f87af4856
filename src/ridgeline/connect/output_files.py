"""Files of output operators, with checksums and syncs; segments: what partitions wrote in committed windows.

Segments wait until the other side has them. Small ones travel in the report and in the commit record. So they
need no file that is written, synced, read and deleted. Others are a file each. While many small ones wait,
they become files of several segments: each commit would hold all of them otherwise.
"""

from __future__ import annotations

import base64
import contextlib
import io
import os
import secrets
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

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


PAYLOAD = "ridgeline payload"
"""The column that holds bytes in place of rows; the next column says of how many rows."""
ROWS = "ridgeline rows"
_SCHEMA = b"ridgeline schema"
_CODEC = "lz4"


class Written(NamedTuple):
    """A segment's size and checksum, and its bytes as text if they are in no file."""

    bytes: int
    crc32: int
    data: str


class Segment(NamedTuple):
    """A segment as the commit names it.

    `name`: of its file, below the staging folder. `crc32`: of its name and bytes. `data`: its bytes,
    compressed and in base64, if they travel in the commit; then there is no file. `offset`: where it begins
    in its file.
    """

    window: int
    partition: int
    name: str
    rows: int
    bytes: int
    crc32: int
    data: str = ""
    offset: int = 0


class DamagedSegmentError(Exception):
    """A segment is missing, or its bytes differ from those written."""


class SegmentStore:
    """Segments in the folder `staging` of a checkpoint; in this process, where that is kept in memory.

    Methods raise OSError.
    """

    def __init__(self, staging: str, run_id: str) -> None:
        self.uri = staging
        self._last: tuple[str, Any] = "", None
        of_run = f"{staging}/{run_id}" if staging.startswith("memory:") else staging
        self._files = checkpoint_files(of_run)

    def prepare(self, folder: str) -> None:
        """Create a folder for segments."""
        self._files.make_folder(f"{self._files.root}/{folder}")

    def write(self, name: str, table: pa.Table, schema: pa.Schema, small: int = 0) -> Written:
        """Write a segment so that its bytes survive a power cut.

        One of at most `small` bytes is not written: it is returned, and the commit keeps it. `schema`: of the
        rows before they were encoded, which `read` returns.
        """
        table = table.replace_schema_metadata({_SCHEMA: schema.serialize().to_pybytes()})
        if table.nbytes <= small:
            sink = pa.BufferOutputStream()
            _write(sink, table)
            data = sink.getvalue()
            if data.size <= small:
                return Written(data.size, _checksum(name, data), _as_text(data))
        out = self._files.write(f"{self._files.root}/{name}", lambda out: _write(out, table))
        return Written(out.size, out.crc32, "")

    def pack(self, folder: str, window: int, segments: Sequence[Segment]) -> dict[Segment, Segment]:
        """Write segments that have no file to one file; returns what each has become.

        `window`: the next one to be committed, which names the file.
        """
        name = f"{folder}/w{window:010d}-{secrets.token_hex(8)}.segment"
        packed, parts, offset = {}, [], 0
        for one in segments:
            data = _of_text(one)
            crc32 = _checksum(name, data)
            packed[one] = one._replace(name=name, crc32=crc32, data="", offset=offset)
            parts.append(data)
            offset += len(data)
        self.keep(name, b"".join(parts))
        return packed

    def holds(self, segment: Segment) -> bool:
        """True if the segment is there with its size. Remote file systems are not asked: True."""
        if segment.data:
            return True
        return self._files.holds(f"{self._files.root}/{segment.name}", segment.bytes)

    def sync(self, folder: str) -> None:
        """Make the names in a folder survive a power cut."""
        self._files.sync(f"{self._files.root}/{folder}")

    def read(self, segment: Segment) -> tuple[pa.Table | bytes, pa.Schema]:
        """A segment's rows or bytes, and the columns of its rows. Raises DamagedSegmentError, OSError."""
        data = self._bytes_of(segment)
        if data is None:
            raise DamagedSegmentError("it is missing")
        found = _checksum(segment.name, data)
        if found != segment.crc32:
            raise DamagedSegmentError(
                f"the checksum of its bytes is {found:08x}, it was written with {segment.crc32:08x}"
            )
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            table = reader.read_all()
        schema = pa.ipc.read_schema(pa.py_buffer(table.schema.metadata[_SCHEMA]))
        table = table.replace_schema_metadata(None)
        if table.column_names == [PAYLOAD, ROWS]:
            return b"".join(part.as_py() for part in table.column(0)), schema
        return table, schema

    def _bytes_of(self, segment: Segment) -> Any:
        """A segment's bytes; None if its file is missing. The last file is kept: it may have several."""
        if segment.data:
            return _of_text(segment)
        name, data = self._last
        if name != segment.name:
            try:
                data = self._files.read(f"{self._files.root}/{segment.name}")
            except FileNotFoundError:
                data = None
        if data is None:
            return None
        whole = segment.offset == 0 and len(data) == segment.bytes
        self._last = ("", None) if whole else (segment.name, data)
        return data if whole else memoryview(data)[segment.offset : segment.offset + segment.bytes]

    def keep(self, name: str, data: bytes) -> None:
        """Write a file so that it survives a power cut, in the place of one of this name."""
        path = f"{self._files.root}/{name}"
        with self._files.writing(path) as out:
            out.write(data)
        self._files.sync(path.rpartition("/")[0])

    def delete(self, name: str) -> None:
        """Delete a segment, if it exists."""
        self._files.delete(f"{self._files.root}/{name}")

    def names(self, folder: str) -> list[str]:
        """The names of a folder's segments, below the staging folder."""
        return [f"{folder}/{name}" for name in self._files.sizes(f"{self._files.root}/{folder}")]


def _as_text(data: pa.Buffer) -> str:
    """Bytes for a commit."""
    return base64.b64encode(pa.compress(data, codec=_CODEC, asbytes=True)).decode()


def _of_text(segment: Segment) -> bytes:
    """The bytes of a segment that a commit holds."""
    data = base64.b64decode(segment.data)
    return bytes(pa.decompress(data, segment.bytes, _CODEC, asbytes=True))


def _checksum(name: str, data: Any) -> int:
    """The checksum of a segment: of its file's name, then of its bytes."""
    return zlib.crc32(data, zlib.crc32(name.rpartition("/")[2].encode()))


def _write(out: Any, table: pa.Table) -> None:
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
