"""Batches as an Arrow IPC stream."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


def arrow_stream(batches: Sequence[pa.RecordBatch], schema: pa.Schema | None = None) -> pa.Buffer:
    """Batches of one schema as a stream. `schema`: theirs, which is needed if there may be none."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema if schema is None else schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return sink.getvalue()


def to_ipc(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Batches of one schema as bytes; b"" for none.

    >>> from_ipc(to_ipc([pa.record_batch({"n": [1, 2]})]))[0].num_rows, from_ipc(to_ipc([]))
    (2, [])
    """
    return bytes(arrow_stream(batches).to_pybytes()) if batches else b""


def from_ipc(data: bytes | None) -> list[pa.RecordBatch]:
    """The batches of `to_ipc`; none of None."""
    return list(pa.ipc.open_stream(data)) if data else []
