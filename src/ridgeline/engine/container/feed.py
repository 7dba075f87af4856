"""The rows that the tasks of a micro-batch read for the containers of Spark sources.

Spark may run a task twice: after the loss of its executor, or speculatively. Each run of it sends on a
connection of its own. The first run that is whole counts, and nothing of any other.

With several Spark sources a micro-batch is the union of them: column 0 has the source's number `n`, its rows
are column `n + 1`. A partition of the union holds rows of one source.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from ridgeline.api.errors import described
from ridgeline.engine.operator.failures import InputLostError
from ridgeline.measure.events import ContainerWindow, OperatorWindow

_ALIGNMENT = 8
Sources: TypeAlias = Sequence[Sequence[int]]
"""The containers of each Spark source, in the order of its partitions."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How a task has read its rows.

    `seconds`: in Spark's iterator. `elapsed_seconds`: since it entered Python. `task_attempt`: how often
    Spark had begun it before.
    """

    seconds: float
    elapsed_seconds: float
    task_attempt: int = 0


@dataclass(frozen=True, slots=True)
class Fed:
    """Rows that a task of a micro-batch has read for a container of a Spark source, in their order.

    `task`: its number. `schema`: of the rows (Arrow IPC). `rows`: Arrow record batch messages. `ended`: None
    if more follow. All that one run of a task sends to a container comes on one connection.
    """

    window_id: int
    attempt: int
    container: int
    task: int
    schema: bytes = b""
    rows: tuple[pa.Buffer, ...] = ()
    ended: Reading | None = None


@dataclass(frozen=True, slots=True)
class FedRows:
    """The rows for a container in an attempt, task by task, each in its order; iterate over the batches.

    `began`: when the first task began to read, `read_seconds`: what the slowest took for it. `task_attempt`:
    how often Spark had begun one of the tasks before.
    """

    parts: tuple[Fed, ...] = ()
    began: float = 0.0
    read_seconds: float = 0.0
    task_attempt: int = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Raises InputLostError for rows that are no Arrow messages."""
        for part in self.parts:
            yield from read_rows(part.schema, part.rows)


class Feeding:
    """The rows of one container in one attempt, as they arrive."""

    def __init__(self) -> None:
        self.whole: dict[int, FedRows] = {}
        """The rows of each task that has sent all."""
        self.held_bytes = 0
        """The size of the rows in memory."""
        self._parts: dict[tuple[int, int], list[Fed]] = {}
        self._sizes: dict[tuple[int, int], int] = {}

    def add(self, run: int, fed: Fed, size_bytes: int, now: float) -> bool:
        """Take in what a run of a task sends; False if another run of the task has sent all before.

        `size_bytes`: what it takes in memory. `now`: wall clock.
        """
        if fed.task in self.whole:
            self._forget((fed.task, run))
            return False
        key = fed.task, run
        parts = self._parts.setdefault(key, [])
        if fed.rows:
            parts.append(fed)
            self._sizes[key] = self._sizes.get(key, 0) + size_bytes
            self.held_bytes += size_bytes
        if (reading := fed.ended) is not None:
            began = now - reading.elapsed_seconds
            self.whole[fed.task] = FedRows(tuple(parts), began, reading.seconds, reading.task_attempt)
            del self._parts[key]
            self._sizes.pop(key, None)
            for other in [other for other in self._parts if other[0] == fed.task]:
                self._forget(other)
        return True

    def drop(self, run: int) -> None:
        """A run of a task is lost: it will never be whole."""
        for key in [key for key in self._parts if key[1] == run]:
            self._forget(key)

    def rows(self, tasks: Iterable[int]) -> FedRows:
        """All rows of these tasks, which are whole."""
        found = [self.whole[task] for task in sorted(tasks)]
        return FedRows(
            tuple(part for one in found for part in one.parts),
            min(one.began for one in found),
            max(one.read_seconds for one in found),
            max(one.task_attempt for one in found),
        )

    def _forget(self, key: tuple[int, int]) -> None:
        self._parts.pop(key, None)
        self.held_bytes -= self._sizes.pop(key, 0)


def missing(feeding: Feeding | None, tasks: Collection[int]) -> set[int]:
    """The tasks of which not all has come."""
    return set(tasks) - (feeding.whole.keys() if feeding is not None else set())


def on_disk(fed: Fed) -> Fed:
    """The same with its rows mapped from a file that has no name. Raises OSError if it cannot be written."""
    sizes = [row.size for row in fed.rows]
    folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
    with tempfile.TemporaryFile(dir=folder) as file:
        for row in fed.rows:
            file.write(row)
            file.write(bytes(-row.size % _ALIGNMENT))
        file.flush()
        mapped = pa.py_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    rows, begin = [], 0
    for size in sizes:
        rows.append(mapped.slice(begin, size))
        begin += size + -size % _ALIGNMENT
    return replace(fed, rows=tuple(rows))


def kept(fed: Fed, room_bytes: int) -> tuple[Fed, int]:
    """The rows and their size in memory: 0, on disk, if there is no room for them.

    If it cannot be written there it stays in memory.
    """
    size = sum(row.size for row in fed.rows)
    if size > room_bytes and fed.rows:
        with contextlib.suppress(OSError):
            return on_disk(fed), 0
    return fed, size


def count_reading(rows: FedRows, source: OperatorWindow, window: ContainerWindow) -> None:
    """Count what was read before the container's turn as compute of the source, as where it reads itself."""
    window.task_began = min(window.task_began, rows.began)
    source.compute_seconds += rows.read_seconds
    source.began = max(rows.began, source.began - rows.read_seconds)


def read_rows(schema: bytes, messages: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    """Open Arrow messages of this schema (Arrow IPC). Raises InputLostError where they break off."""
    kind = pa.ipc.read_schema(pa.py_buffer(schema))
    try:
        for message in messages:
            yield pa.ipc.read_record_batch(pa.py_buffer(message), kind)
    except Exception as error:
        raise InputLostError(f"Spark's rows broke off: {described(error)}") from error


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
    """The tasks whose rows each container may get; containers that get none are left out.

    `tasks`: how many there are.
    """
    return {
        container: tuple(range(position, tasks, len(containers)))
        for containers in sources
        for position, container in enumerate(containers)
        if position < tasks
    }
