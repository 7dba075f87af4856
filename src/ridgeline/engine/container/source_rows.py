"""The rows of a micro-batch, from Spark's Arrow messages to the containers of the sources.

With several Spark sources a micro-batch is the union of them: column 0 has the source's number `n`, its rows
are column `n + 1`. A partition of the union holds rows of one source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from ridgeline.api.errors import described
from ridgeline.engine.operator.failures import InputLostError

Sources: TypeAlias = Sequence[Sequence[int]]
"""The containers of each Spark source, in the order of its partitions."""


def read(schema: bytes, messages: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    """Open Arrow messages of this schema (Arrow IPC). Raises InputLostError where they break off."""
    kind = pa.ipc.read_schema(pa.py_buffer(schema))
    try:
        for message in messages:
            yield pa.ipc.read_record_batch(pa.py_buffer(message), kind)
    except Exception as error:
        what = f"Spark's rows broke off: {described(error)}"
        raise InputLostError(what) from error


def of_source(batch: pa.RecordBatch) -> tuple[int, pa.RecordBatch]:
    """The number of the source, and its rows, in a batch of the union that is not empty."""
    number = batch.column(0)[0].as_py()
    rows = batch.column(number + 1)
    fields = [pa.field(field.name, field.type) for field in rows.type]
    return number, pa.RecordBatch.from_arrays(rows.flatten(), schema=pa.schema(fields))


def container_of(sources: Sources, number: int, task: int) -> int:
    """The container of a source that gets the rows which a task reads."""
    return sources[number][task % len(sources[number])]


def fed_by(sources: Sources, tasks: int) -> Mapping[int, tuple[int, ...]]:
    """The tasks, of so many, whose rows each container may get. Containers that get none are left out."""
    return {
        container: tuple(range(position, tasks, len(containers)))
        for containers in sources
        for position, container in enumerate(containers)
        if position < tasks
    }
