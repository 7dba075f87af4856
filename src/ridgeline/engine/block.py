"""Blocks: a batch as one Arrow buffer, addressed to an operator's port in another container."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from ridgeline.api.schema import Schema
from ridgeline.api.tuples import Tuples


class Block(NamedTuple):
    """Tuples on their way to one input port. `stream` is the number of the route in the producer's container spec."""

    sink: int
    port: str
    stream: int
    payload: bytes


class Message(NamedTuple):
    """All blocks of one container for another one in one window; sent even without any, so that the consumer knows who produced."""

    producer: int
    tag: str
    blocks: Sequence[Block]

    def encode(self) -> bytes:
        """As bytes."""
        return pickle.dumps(tuple(self), 5)

    @classmethod
    def decode(cls, data: bytes) -> Message:
        """From bytes."""
        producer, tag, blocks = pickle.loads(data)
        return cls(producer, tag, [Block(*block) for block in blocks])


def encode(tuples: Tuples) -> bytes:
    """A run of tuples as an Arrow IPC record batch message (a whole stream where the schema has dictionaries)."""
    batch = tuples.batch
    if _has_dictionary(batch.schema):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        return sink.getvalue().to_pybytes()
    return batch.serialize().to_pybytes()


def decode(schema: Schema, payload: bytes) -> Tuples:
    """The tuples of a block; their buffers lie in `payload`, nothing is copied."""
    buffer = pa.py_buffer(payload)
    if _has_dictionary(schema.arrow):
        batch = pa.ipc.open_stream(buffer).read_next_batch()
    else:
        batch = pa.ipc.read_record_batch(buffer, schema.arrow)
    return Tuples.of_batch(schema, batch)


def _has_dictionary(schema: pa.Schema) -> bool:
    return any(_holds_dictionary(field.type) for field in schema)


def _holds_dictionary(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) or any(_holds_dictionary(kind.field(index).type) for index in range(kind.num_fields))
