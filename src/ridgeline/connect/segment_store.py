"""Segments of outputs: what partitions wrote in committed windows, until the other side has it.

Small segments travel in the report and in the commit record. So they need no file that is written, synced,
read and deleted. Others are a file each. While many small ones wait, they become files of several segments:
each commit would hold all of them otherwise.
"""

from __future__ import annotations

import base64
import secrets
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from ridgeline.connect.output_files import checkpoint_files

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
