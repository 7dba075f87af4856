"""Rows of a queue with their times, as one Arrow batch; and who may be trusted with pickles.

The times of a row are two more columns at the end: the newest, and the oldest if that is another one. Or they
are in a column of the rows, which the metadata of the schema names. Rows without times have neither.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ridgeline.api.columns.schema import PICKLED, holds_pickles
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.errors import UntrustedError
from ridgeline.api.support import trust
from ridgeline.api.support.files import is_local, local_path
from ridgeline.api.times import NO_TIME, Times, column_times, no_times

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
