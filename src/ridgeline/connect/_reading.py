"""The reader of a container, asked until it answers, and its records as Arrow batches with their times."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.columns.schema import Schema
from ridgeline.api.support.masking import masked_and_shortened
from ridgeline.api.times import Microseconds, Times, column_times
from ridgeline.connect._watching import RETRIED
from ridgeline.connect.reader import ReaderContext, Records, SourceRange, SourceReader

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_SAID_FIRST_SECONDS, _SAID_AGAIN_SECONDS = 5.0, 60.0
_log = logging.getLogger(__name__)
Given = Times | str | None
"""The times of records: as such, or as the name of a column."""


class _Wait:
    """Says now and then in the operator's log that the other side gives nothing, and why."""

    def __init__(self, clock: Clock, operator: str) -> None:
        self._clock, self._operator = clock, operator
        self._since: float | None = None
        self._said: float | None = None

    def failed(self, error: Exception) -> None:
        """It cannot be reached."""
        now = self._clock.monotonic()
        self._since = now if self._since is None else self._since
        due = self._since + _SAID_FIRST_SECONDS if self._said is None else self._said + _SAID_AGAIN_SECONDS
        if now >= due:
            self._said = now
            what = "`%s` has read nothing for %.0f s, and tries again: %s"
            _log.warning(what, self._operator, now - self._since, masked_and_shortened(error))

    def came(self) -> None:
        """It has answered."""
        if self._said is not None and self._since is not None:
            _log.warning(
                "`%s` reads again, after %.0f s", self._operator, self._clock.monotonic() - self._since
            )


class Reading:
    """The reader of a container. `attempt`: the one that has emitted last."""

    def __init__(self, reader: SourceReader, context: ReaderContext) -> None:
        self.reader = reader
        self.context = context
        self.attempt: tuple[int, str] | None = None
        self._opened = False

    def read(self, parts: Sequence[SourceRange]) -> list[tuple[str, Any]]:
        """Read; where the other side cannot be reached, again and again from the start of the window."""
        notes = [part.note for part in parts]
        pause, clock = _FIRST_PAUSE, SystemClock()
        wait = _Wait(clock, self.context.operator.name)
        engine = self.context.operator.engine
        while True:
            left_out, handed_over = len(engine.left_out), len(engine.handed_over)
            try:
                if not self._opened:
                    self.reader.open(self.context)
                    self._opened = True
                found = list(self.reader.read_all(parts))
            except RETRIED as error:
                self.close()
                wait.failed(error)
                del engine.left_out[left_out:]
                del engine.handed_over[handed_over:]
                for part, note in zip(parts, notes, strict=True):
                    part.note = note
                clock.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                wait.came()
                return found

    def close(self) -> None:
        """Close the reader."""
        self._opened = False
        with contextlib.suppress(*RETRIED):
            self.reader.close()


def batches(records: Records, schema: Schema) -> Iterable[tuple[pa.RecordBatch, Given]]:
    """Records as Arrow batches in the schema, with their times. Raises SchemaError for those that misfit."""
    rows, times = records
    if isinstance(rows, pa.RecordBatch):
        whole = [rows]
    elif isinstance(rows, pa.Table):
        whole = rows.to_batches()
    else:
        whole = [schema.encode(rows)]
    if times is None or isinstance(times, str):
        for batch in whole:
            yield schema.conform(batch), times
        return
    if isinstance(times, pa.ChunkedArray):
        times = times.combine_chunks()
    newest = column_times(times) if isinstance(times, pa.Array) else np.asarray(times, np.int64)
    first = 0
    for batch in whole:
        yield schema.conform(batch), Times(newest[first : first + batch.num_rows])
        first += batch.num_rows


def times_of(batch: pa.RecordBatch, times: Given, column: str | None) -> Microseconds | None:
    """The times of records, of the column if there is one; None if they have none."""
    column = column or (times if isinstance(times, str) else None)
    if column is not None:
        index = batch.schema.get_field_index(column)
        return column_times(batch.column(index)) if index >= 0 else None
    return times.newest if isinstance(times, Times) else None
