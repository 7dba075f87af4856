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
