"""Segments of outputs: what partitions wrote in committed windows, until the other side has it."""

from __future__ import annotations

import contextlib
import threading
import zlib
from typing import Any, NamedTuple

import pyarrow as pa

from ridgeline.connect.output_files import OutputFiles

PAYLOAD = "ridgeline payload"
"""The column that holds bytes in place of rows; the next column says of how many rows."""
ROWS = "ridgeline rows"
_SCHEMA = b"ridgeline schema"
_memory: dict[str, dict[str, bytes]] = {}
_lock = threading.Lock()


class Segment(NamedTuple):
    """A segment as the commit names it. `name`: below the staging folder. `crc32`: of its name and bytes."""

    window: int
    partition: int
    name: str
    rows: int
    bytes: int
    crc32: int


class DamagedSegmentError(Exception):
    """A segment is missing, or its bytes differ from those written."""


class SegmentStore:
    """Segments in the folder `staging` of a checkpoint; in this process, where that is kept in memory.

    Methods raise OSError.
    """

    def __init__(self, staging: str, run_id: str) -> None:
        self.uri = staging
        self._files: OutputFiles | None = None
        if staging.startswith("memory:"):
            with _lock:
                self._kept = _memory.setdefault(run_id, {})
        else:
            self._files = OutputFiles(staging)

    def prepare(self, folder: str) -> None:
        """Create a folder for segments."""
        if self._files is not None:
            self._files.make_folder(f"{self._files.root}/{folder}")

    def write(self, name: str, table: pa.Table, schema: pa.Schema) -> tuple[int, int]:
        """Write a segment so that its bytes survive a power cut; returns its size and checksum.

        `schema`: of the rows before they were encoded, which `read` returns.
        """
        table = table.replace_schema_metadata({_SCHEMA: schema.serialize().to_pybytes()})
        if self._files is None:
            sink = pa.BufferOutputStream()
            _write(sink, table)
            data = sink.getvalue().to_pybytes()
            self._kept[name] = data
            return len(data), zlib.crc32(data, zlib.crc32(name.rpartition("/")[2].encode()))
        path = f"{self._files.root}/{name}"
        try:
            with self._files.writing(path) as out:
                _write(out, table)
        except BaseException:
            with contextlib.suppress(OSError):
                self._files.delete(path)
            raise
        return out.size, out.crc32

    def holds(self, segment: Segment) -> bool:
        """True if the segment is there with its size. Remote file systems are not asked: True."""
        if self._files is None:
            return len(self._kept.get(segment.name, b"")) == segment.bytes
        return self._files.holds(f"{self._files.root}/{segment.name}", segment.bytes)

    def sync(self, folder: str) -> None:
        """Make the names in a folder survive a power cut."""
        if self._files is not None:
            self._files.sync(f"{self._files.root}/{folder}")

    def read(self, segment: Segment) -> tuple[pa.Table | bytes, pa.Schema]:
        """A segment's rows or bytes, and the columns of its rows. Raises DamagedSegmentError, OSError."""
        if self._files is None:
            data: Any = self._kept.get(segment.name)
        else:
            try:
                data = self._files.read(f"{self._files.root}/{segment.name}")
            except FileNotFoundError:
                data = None
        if data is None:
            msg = "it is missing"
            raise DamagedSegmentError(msg)
        found = zlib.crc32(data, zlib.crc32(segment.name.rpartition("/")[2].encode()))
        if found != segment.crc32:
            msg = f"the checksum of its bytes is {found:08x}, it was written with {segment.crc32:08x}"
            raise DamagedSegmentError(msg)
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            table = reader.read_all()
        schema = pa.ipc.read_schema(pa.py_buffer(table.schema.metadata[_SCHEMA]))
        table = table.replace_schema_metadata(None)
        if table.column_names == [PAYLOAD, ROWS]:
            return b"".join(part.as_py() for part in table.column(0)), schema
        return table, schema

    def keep(self, name: str, data: bytes) -> None:
        """Write a file so that it survives a power cut, in the place of one of this name."""
        if self._files is None:
            self._kept[name] = data
            return
        path = f"{self._files.root}/{name}"
        with self._files.writing(path) as out:
            out.write(data)
        self._files.sync(path.rpartition("/")[0])

    def delete(self, name: str) -> None:
        """Delete a segment, if it exists."""
        if self._files is None:
            self._kept.pop(name, None)
        else:
            self._files.delete(f"{self._files.root}/{name}")

    def names(self, folder: str) -> list[str]:
        """The names of a folder's segments, below the staging folder."""
        if self._files is None:
            return [name for name in list(self._kept) if name.startswith(f"{folder}/")]
        return [f"{folder}/{name}" for name in self._files.sizes(f"{self._files.root}/{folder}")]


def _write(out: Any, table: pa.Table) -> None:
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
