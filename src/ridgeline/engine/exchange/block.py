"""Blocks: a batch as one Arrow buffer, addressed to an operator's port in another container."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from ridgeline.api.columns.arrow_stream import arrow_stream
from ridgeline.api.columns.combined import PackedCombined
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.times import Microseconds, Times

PIECE_BYTES = 1 << 20
"""About so much of a message by value goes in one frame."""


class Reference(NamedTuple):
    """Bytes that lie in a file, which producer and consumer both see."""

    path: str
    offset: int
    size: int


Payload: TypeAlias = pa.Buffer | Reference
"""Bytes by value or by reference."""
Content: TypeAlias = Payload | Tuples | PackedCombined
"""Tuples themselves stay within a process. Partial results are always by value."""
PackedTimes: TypeAlias = str | tuple[Payload, Payload | None]
"""The column that holds the times; or newest and oldest times as int64, one a tuple or one for all."""
OpenedTimes: TypeAlias = str | tuple[pa.Buffer, pa.Buffer | None] | None
"""The same at hand; None for tuples without times."""


class Block(NamedTuple):
    """Tuples on their way to one input port.

    `stream` is the number of the route in the producer's container spec.
    """

    sink: int
    port: str
    stream: int
    payload: Content
    times: PackedTimes | None = None

    @property
    def size_bytes(self) -> int:
        """Its size, be it by value or by reference; 0 if it stays within the process."""
        if isinstance(self.payload, Tuples):
            return 0
        times = self.times if isinstance(self.times, tuple) else ()
        return self.payload.size + sum(part.size for part in times if part is not None)


class Message(NamedTuple):
    """The blocks of one container for another in one window.

    `marks`: the watermarks of the producer's operators, and whether they are idle. `ended`: those from which
    nothing more comes. `controls`: the control tuples of a window by operator and output port.
    """

    producer: int
    blocks: Sequence[Block]
    marks: Mapping[int, tuple[int, bool]] = {}
    ended: Sequence[int] = ()
    controls: Mapping[tuple[int, str], list[Any]] = {}

    def divided(self) -> Iterator[Message]:
        """Divide it into messages of about `PIECE_BYTES` by value, which arrive in this order."""
        begin = size = 0
        for end, block in enumerate(self.blocks, 1):
            size += 0 if isinstance(block.payload, Reference) else block.size_bytes
            if size >= PIECE_BYTES and end < len(self.blocks):
                yield self._replace(blocks=self.blocks[begin:end])
                begin, size = end, 0
        yield self._replace(blocks=self.blocks[begin:])

    def copied(self) -> Message:
        """As it would come out of another process: nothing is shared with this one."""
        return Message(*pickle.loads(pickle.dumps(tuple(self), 5)))


def encode(tuples: Tuples) -> pa.Buffer:
    """Encode tuples as an Arrow IPC record batch message; with dictionaries, as a whole stream."""
    batch = tuples.batch
    if not tuples.schema.has_dictionary:
        return batch.serialize()
    return arrow_stream([batch])


def encode_times(tuples: Tuples) -> OpenedTimes:
    """The times of a sequence of tuples, None if they have none."""
    if tuples.time_column is not None:
        return tuples.time_column
    times = tuples.times
    if times is None:
        return None
    return _pack(times.newest), None if times.oldest is None else _pack(times.oldest)


def _pack(times: Microseconds) -> pa.Buffer:
    return pa.py_buffer(
        np.ascontiguousarray(times[:1] if len(times) and times.min() == times.max() else times)
    )


def decode(schema: Schema, payload: pa.Buffer, times: OpenedTimes = None) -> Tuples:
    """The tuples of a block; their buffers lie in `payload`, nothing is copied."""
    if schema.has_dictionary:
        batch = pa.ipc.open_stream(payload).read_next_batch()
    else:
        batch = pa.ipc.read_record_batch(payload, schema.arrow)
    return Tuples.of_batch(schema, batch, opened_times(times, len(batch)))


def opened_times(times: OpenedTimes, count: int) -> Times | str | None:
    """The times of so many tuples."""
    if not isinstance(times, tuple):
        return times
    newest, oldest = times
    return Times(_unpack(newest, count), None if oldest is None else _unpack(oldest, count))


def _unpack(times: pa.Buffer, count: int) -> Microseconds:
    return np.broadcast_to(np.frombuffer(times, np.int64), count)
