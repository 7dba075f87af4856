"""Write a stream into a durable queue: rows with their times; and who may be trusted with pickles.

The times of a row are two more columns at the end: the newest, and the oldest if that is another one. Or they
are in a column of the rows, which the metadata of the schema names. Rows without times have neither.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from ridgeline.api.columns.schema import PICKLED, holds_pickles
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.context import Control, OperatorContext
from ridgeline.api.errors import UntrustedError
from ridgeline.api.ports import InputPort
from ridgeline.api.support import trust
from ridgeline.api.support.duration import Duration
from ridgeline.api.support.files import is_local, local_path
from ridgeline.api.times import NO_TIME, Times, column_times, no_times
from ridgeline.connect.datasets import AtPath
from ridgeline.connect.window_output import WindowOutput
from ridgeline.operators._queue_files import folder_of
from ridgeline.operators._queue_publisher import QueuePublisher, Written

_TIMES = b"ridgeline.times"
_COLUMN = b"column:"
_NEWEST = b"newest"
_BOTH = b"newest,oldest"
_NAMES = "__newest", "__oldest"
_FEW = 4096
"""Batches that have fewer rows on average are made one."""


def with_times(batch: pa.RecordBatch, tuples: Tuples | None) -> pa.RecordBatch:
    """The rows of `tuples`, which `batch` holds, with their times."""
    plain = _plain(batch)
    if tuples is None or not tuples.timed:
        return plain
    if tuples.time_column is not None and tuples.time_column in plain.schema.names:
        return _marked(plain, _COLUMN + tuples.time_column.encode())
    times = tuples.times
    return plain if times is None or (times.newest == NO_TIME).all() else _with_columns(plain, times)


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.replace_schema_metadata(PICKLED.metadata if holds_pickles(batch) else None)


def _marked(batch: pa.RecordBatch, mark: bytes) -> pa.RecordBatch:
    return batch.replace_schema_metadata({**(batch.schema.metadata or {}), _TIMES: mark})


def _with_columns(batch: pa.RecordBatch, times: Times) -> pa.RecordBatch:
    arrays = [pa.array(np.ascontiguousarray(times.newest))]
    if times.oldest is not None:
        arrays.append(pa.array(np.ascontiguousarray(times.oldest)))
    schema = batch.schema
    for name, array in zip(_NAMES, arrays, strict=False):
        schema = schema.append(pa.field(name, array.type))
    mark = _NEWEST if times.oldest is None else _BOTH
    return _marked(pa.RecordBatch.from_arrays([*batch.columns, *arrays], schema=schema), mark)


def united(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The same rows with times of the same form; small batches become one."""
    if len({(batch.schema.metadata or {}).get(_TIMES) for batch in batches}) > 1:
        batches = _alike(batches)
    if len(batches) == 1 or sum(map(len, batches)) >= _FEW * len(batches):
        return list(batches)
    found: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return found


def _alike(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """All with columns of both times."""
    found = []
    for batch in batches:
        rows, times = divided_times(batch)
        if times is None:
            times = Times(no_times(len(rows)))
        elif isinstance(times, str):
            times = Times(column_times(rows.column(times)))
        oldest = times.newest if times.oldest is None else times.oldest
        found.append(_with_columns(rows, Times(times.newest, oldest)))
    return found


def divided_times(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Times | str | None]:
    """The rows, and their times or the column with them. The inverse of `with_times`."""
    mark = (batch.schema.metadata or {}).get(_TIMES)
    if mark is None:
        return batch, None
    if mark.startswith(_COLUMN):
        return _plain(batch), mark[len(_COLUMN) :].decode()
    count = 2 if mark == _BOTH else 1
    arrays = [column.to_numpy() for column in batch.columns[-count:]]
    fields = list(batch.schema)[:-count]
    metadata = PICKLED.metadata if holds_pickles(batch) else None
    rows = pa.RecordBatch.from_arrays(batch.columns[:-count], schema=pa.schema(fields, metadata))
    return rows, Times(arrays[0], arrays[1] if count > 1 else None)


def plain_schema(batch: pa.RecordBatch) -> pa.Schema:
    """The schema of the rows without their times; that of `object` keeps its mark."""
    rows, _ = divided_times(batch.slice(0, 0))
    schema: pa.Schema = rows.schema
    return PICKLED if holds_pickles(rows) else schema.remove_metadata()


CONTROLS = "control tuples", "let none pass: a method for them at the writer keeps what it returns True for"
OBJECTS = "rows of `object`", "give the port at the writer a schema (a NamedTuple, a dataclass)"


class QueueTrust:
    """The check of one queue's files. A folder in the own checkpoint is trusted."""

    def __init__(self, path: str, staging: str) -> None:
        """`staging`: a folder in the checkpoint, as of `OperatorContext`."""
        self._path = path
        self._own = bool(staging) and _within(path, staging.rpartition("/")[0])

    def check(self, what: tuple[str, str], *files: str) -> None:
        """Raise UntrustedError if others could have written the queue, or these files of it."""
        if self._own:
            return
        purpose, remedy = f"queue `{self._path}` with {what[0]}", what[1]
        if not is_local(self._path):
            why = "who may write there cannot be seen, and what lies there is run as code"
            raise UntrustedError(f"{purpose} is refused: {why}; {remedy}")
        root = local_path(self._path)
        trust.check(root, purpose, remedy)
        for name in ("log", "segments", *files):
            trust.check_entry(f"{root}/{name}", purpose, remedy)


def _within(path: str, folder: str) -> bool:
    if is_local(path) and is_local(folder):
        path, folder = local_path(path), local_path(folder)
    return path.startswith(f"{folder}/")


class QueueOutput(AtPath, WindowOutput):
    """Write the stream into a durable queue, from which other applications read it, each exactly once.

    `path` is a folder of the queue's own, on a disk that all hosts share, on an object store or HDFS
    (`s3a://...`, `hdfs://...`). A relative one is below the folder in which the command runs. `QueueInput`
    of another application reads it, at its own pace, window by window once they are committed here. A reader
    that is slow, that fails or is stopped does not hold this application up until the queue is full.

    Rows stay for `keep` (seconds, or "1h") and up to `keep_bytes`, whether they were read or not. Beyond
    that they are dropped, if all readers have read them. If one has not, `when_full` decides. `wait` lets no
    window begin until it has: back pressure, of which a line of the log says the reason. `drop` drops them.
    A reader is known from its first start on. Remove its file from the folder `readers` if it is gone for
    good.

    It has the partitions of the operator upstream, each with a segment of its own. So the tuples of each
    partition stay in order, and with them those of a key by which that operator is partitioned.

    Record times, watermarks and control tuples go with the rows. Control tuples and streams of `object` are
    refused if others can write to the folder: readers would run it as code.

    `readers`: those that are known before their first start, as `APPLICATION.OPERATOR`; rows wait for them.
    Other readers of the same application are forgotten.

    A run on a fresh checkpoint appends to the rows in the queue. One application writes at a time.

    Example:
        >>> import tempfile
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import QueueInput, QueueOutput
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> folder = tempfile.TemporaryDirectory()
        >>> app = Application("exchange")
        >>> prices = app.add_operator("prices", ListInput(Price, [("IBM", 12.3), ("SAP", 101.25)]))
        >>> queue = app.add_operator("queue", QueueOutput(path=f"{folder.name}/prices"))
        >>> app.add_stream("prices", prices.output, queue.input)
        >>> run = run_local(app)
        >>> other = Application("board")
        >>> prices = other.add_operator("prices", QueueInput(path=f"{folder.name}/prices", schema=Price))
        >>> board = other.add_operator("board", CollectorSink(Price))
        >>> other.add_stream("prices", prices.output, board.input)
        >>> run_local(other).collected("board")
        [Price(symbol='IBM', price=12.3), Price(symbol='SAP', price=101.25)]
        >>> folder.cleanup()
    """

    input = InputPort(Any, parallel=True)

    path: str | Path
    keep: Duration = "1h"
    keep_bytes: int = Field(default=2**30, gt=0)
    when_full: Literal["wait", "drop"] = "wait"
    readers: tuple[str, ...] = ()

    @input.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Keep the rows until the window ends.

        Raises UntrustedError for a stream of `object` where others can write.
        """
        if holds_pickles(batch):
            self._trust.check(OBJECTS)
        if batch.num_rows:
            self.waiting.append(with_times(batch, self.context.engine.batch))

    def _take_control(self, control: Control) -> None:
        self._trust.check(CONTROLS)
        self._hand_over(control=control)

    def setup(self, context: OperatorContext) -> None:
        """A segment is opened when there are rows."""
        folder = folder_of(str(self.path))
        self._segment, self._lasting = folder.segment_writer(context.partition), folder.lasting
        self._trust = QueueTrust(str(self.path), context.staging)
        context.engine.on_control = self._take_control

    def teardown(self) -> None:
        """Close the segment."""
        self._segment.close()

    def end_window(self) -> None:
        """Append the window's rows to a segment, and hand their place and the watermark over.

        Raises RidgelineError if the file system refuses. A store that is away, or a full disk, is waited for.
        """
        part, schema = None, ""
        if self.waiting:
            batches = united(list(self.waiting))
            del self.waiting[:]
            part = self.until_there(lambda: self._segment.write(batches), self.path, self._lasting)
            schema = base64.b64encode(plain_schema(batches[0]).serialize()).decode()
        if part is not None or self.context.engine.mark is not None:
            self._hand_over(part=part, schema=schema)

    def _hand_over(self, **values: Any) -> None:
        place = self.context.partition, self.context.partitions
        self.context.hand_over(Written(place, mark=self.context.engine.mark, **values))

    def end_of_input(self) -> None:
        """Readers finish once they have read all."""
        self._hand_over(ended=True)

    def publisher(self) -> QueuePublisher:
        """The part that runs on the driver."""
        return QueuePublisher(self)
