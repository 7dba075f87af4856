"""Blocks by reference: the block lies in a file that producer and consumer see; only its place is sent.

A container writes one file per attempt at a window, straight from its columns; a consumer maps it into its
memory and copies nothing. Files are written once and never changed, so what an operator keeps of a batch
stays as it is, even after the file's removal.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.errors import RidgelineError
from ridgeline.engine.exchange.block import (
    OpenedTimes,
    PackedTimes,
    Payload,
    Reference,
    encode,
    encode_times,
)

SMALLEST_BYTES = 32 << 10
"""Smaller blocks go by value: Spark carries them for less than a file costs."""
_GRANT_BYTES = 32 << 20
"""How much is written between two looks at the space that is left."""


class LostBlockError(RidgelineError):
    """A block that was sent by reference is not where it should be."""


class SharedPlace(NamedTuple):
    """Where blocks may lie: a folder that all containers see, and the free bytes that blocks must leave."""

    folder: str
    reserve_bytes: int

    def room_bytes(self) -> int:
        """How much may be written now. Raises OSError if the folder is gone or is not seen from here."""
        return free_bytes(self.folder) - self.reserve_bytes


def free_bytes(folder: str) -> int:
    """Free bytes of a folder's file system, at most the free memory, which its pages use. Raises OSError."""
    system = os.statvfs(folder)
    free = system.f_bavail * system.f_frsize
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return min(free, int(line.split()[1]) << 10)
    return free


class SharedWriter:
    """The file of one container in one attempt at a window. The first block that is large enough creates it.

    Once there is no room or the folder cannot be written to, all further blocks go by value.
    """

    def __init__(self, place: SharedPlace, name: str) -> None:
        self._place = place
        self._path = f"{place.folder}/{name}"
        self._file: pa.NativeFile | None = None
        self._streams: dict[pa.Schema, pa.ipc.RecordBatchStreamWriter] = {}
        self._granted = 0
        self._usable = True

    def pack(self, tuples: Tuples, encoded: pa.Buffer | None = None) -> tuple[Payload, PackedTimes | None]:
        """Encode tuples and their times: by reference if that pays and there is room, else by value.

        `encoded`: the tuples as a codec has encoded them.
        """
        times = encode_times(tuples)
        columns = [part for part in times if part is not None] if isinstance(times, tuple) else []
        size = tuples.batch.nbytes if encoded is None else encoded.size
        size += sum(column.size for column in columns)
        if size < SMALLEST_BYTES or not self._has_room(size):
            return encode(tuples) if encoded is None else encoded, times
        try:
            if encoded is not None:
                payload = self._write(encoded)
            else:
                payload = self._write_batch(tuples.batch, separate=tuples.schema.has_dictionary)
            if not isinstance(times, tuple):
                return payload, times
            newest, oldest = times
            return payload, (self._write(newest), None if oldest is None else self._write(oldest))
        except OSError:
            self._usable = False
            return encode(tuples) if encoded is None else encoded, times

    def close(self) -> None:
        """The file is complete."""
        self._streams.clear()
        if self._file is not None:
            with suppress(OSError):
                self._file.close()

    def discard(self) -> None:
        """Remove the file, which no message names."""
        self.close()
        if self._file is not None:
            Path(self._path).unlink(missing_ok=True)

    def _has_room(self, size: int) -> bool:
        if self._usable and size > self._granted:
            try:
                room = self._place.room_bytes()
            except OSError:
                room = 0
            self._granted = max(size, min(_GRANT_BYTES, room // 4))
            self._usable = self._granted <= room
        self._granted -= size
        return self._usable

    def _write_batch(self, batch: pa.RecordBatch, *, separate: bool) -> Reference:
        """Write a batch into the file, straight from its columns. Raises OSError, as for a full disk.

        `separate`: as a stream of its own, since dictionaries come with it.
        """
        file = self._opened()
        if separate:
            begin = file.tell()
            with pa.ipc.new_stream(file, batch.schema) as stream:
                stream.write_batch(batch)
        else:
            stream = self._streams.get(batch.schema)
            if stream is None:
                stream = self._streams[batch.schema] = pa.ipc.new_stream(file, batch.schema)
                stream.write_batch(batch.slice(0, 0))  # it begins with its schema, which blocks go without
            begin = file.tell()
            stream.write_batch(batch)
        return Reference(self._path, begin, file.tell() - begin)

    def _write(self, column: pa.Buffer) -> Reference:
        file = self._opened()
        begin = file.tell()
        file.write(column)
        return Reference(self._path, begin, column.size)

    def _opened(self) -> pa.NativeFile:
        if self._file is None:
            self._file = pa.OSFile(self._path, "wb")
        return self._file


class SharedReader:
    """Opens blocks that were sent by reference in one window; every file is mapped once."""

    def __init__(self) -> None:
        self._files: dict[str, pa.Buffer] = {}

    def open(self, payload: Payload) -> pa.Buffer:
        """The bytes of a payload. Raises LostBlockError if their file is gone or shorter than it was."""
        if not isinstance(payload, Reference):
            return payload
        path, offset, size = payload
        if path not in self._files:
            try:
                with pa.memory_map(path) as file:
                    self._files[path] = file.read_buffer()
            except (OSError, pa.ArrowException) as error:
                raise LostBlockError(f"`{path}` cannot be opened: {error}") from error
        file_size = self._files[path].size
        if offset + size > file_size:
            raise LostBlockError(
                f"`{path}` is truncated: it has {file_size} bytes, the block ends at {offset + size}"
            )
        return self._files[path].slice(offset, size)

    def open_times(self, times: PackedTimes | None) -> OpenedTimes:
        """As `open`, the times of a block."""
        if not isinstance(times, tuple):
            return times
        newest, oldest = times
        return self.open(newest), None if oldest is None else self.open(oldest)
