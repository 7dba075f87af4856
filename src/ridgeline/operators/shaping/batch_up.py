"""Collect tuples into tuples with a list of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ridgeline.api import InputPort, ListState, OutputPort, Schema, SchemaError, State, metric
from ridgeline.api.cells.cell import Declaration
from ridgeline.api.context import OperatorContext
from ridgeline.api.support.duration import PositiveDuration, parse_duration
from ridgeline.api.times import LATEST, NO_TIME, Times, no_times
from ridgeline.operators._divided import (
    Columns,
    DividedOperator,
    check_columns,
    moved_records,
    row_keys,
)

_TIME, _SINCE = "time of the record", "waits since"
_NEVER = np.iinfo(np.int64).max


class BatchUp(DividedOperator):
    """Collect tuples into tuples with a list of them: `BatchUp(100, after="5s")`.

    Input: any stream with columns. Output: the columns of the key, and `column`: a list of so many tuples as
    structs, in the order in which they came. A batch has the time of its newest tuple. With `after` the
    watermark of the output waits for tuples that are held.

    A batch is emitted once it has `size` tuples. With `after` one with fewer is emitted, too, once its oldest
    tuple has waited for so long. That is seen at the end of each window, by the time at which it began. At
    the end of the input all others are emitted. `key`: a column, or several: the tuples of a batch have
    the same key.

    State: the tuples that wait. The metric `held_rows` says how many.

    Partitions: by key; without one round robin, and each partition has batches of its own.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import BatchUp
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Number(NamedTuple):
        ...     value: int
        >>> app = Application("numbers")
        >>> source = app.add_operator("source", ListInput(Number, [(n,) for n in range(5)]))
        >>> batches = app.add_operator("batches", BatchUp(2))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("numbers", source.output, batches.input)
        >>> app.add_stream("batched", batches.output, sink.input)
        >>> [[row["value"] for row in one["rows"]] for one in run_local(app).collected("sink")]
        [[0, 1], [2, 3], [4]]
    """

    state_depends_on = ("input", "key")
    beside_key = ("column",)

    input = InputPort(Any)
    output = OutputPort(Any)

    size: int = Field(ge=1)
    after: PositiveDuration | None = None
    key: Columns | None = None
    column: str = "rows"

    held = ListState(pa.RecordBatch, moves="sum")
    """The tuples that wait, with their times, and when they came, as the last two columns."""
    due = State(_NEVER, moves="least")
    """When the first batch has waited for so long, in microseconds since 1970."""

    @classmethod
    def states_of(cls, keys: Mapping[str, Sequence[str]]) -> dict[str, Declaration]:
        """Tuples move with their keys."""
        return {"held": ListState(pa.RecordBatch, moves_to=partial(moved_records, keys["input"]))}

    @metric(help="Tuples that wait for their batch.")
    def held_rows(self) -> int:
        """The number of tuples that wait."""
        return sum(map(len, self.held))

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The key's columns, and the list. Raises SchemaError for columns that the stream lacks."""
        super().derived_schema(port, inputs)
        if "input" not in inputs:
            return None
        given, names = inputs["input"], self.key_names
        if given.pickled:
            raise SchemaError("tuples of `object` have no columns; give the port before it a schema")
        check_columns(given, names, "`key`")
        item = pa.field("item", pa.struct(list(given.arrow)), nullable=False)
        rows = pa.field(self.column, pa.list_(item), nullable=False)
        return pa.schema([*(given.arrow.field(name) for name in names), rows])

    def setup(self, context: OperatorContext) -> None:
        """Read the key and the duration."""
        self.wait = None if self.after is None else round(parse_duration(self.after) * 1_000_000)
        if self.wait is not None:  # a batch that is full has the time of a tuple that has just come
            context.oldest_held = self._oldest_held

    @input.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Hold the tuples of a batch."""
        if not len(batch):
            return
        self.refuse_strays(batch, self.key_names)
        times, now = self.context.batch_times(), self.context.window_time_microseconds
        times = no_times(len(batch)) if times is None else times
        held = batch.append_column(_TIME, pa.array(times))
        self.held.append(held.append_column(_SINCE, pa.array(np.full(len(batch), now))))
        if self.wait is not None:
            self.due = min(self.due, now + self.wait)

    def _oldest_held(self) -> int:
        """The time of the oldest tuple that waits."""
        times = [batch.column(batch.num_columns - 2).to_numpy() for batch in self.held]
        return min((int(one[one != NO_TIME].min(initial=LATEST)) for one in times), default=LATEST)

    def end_window(self) -> None:
        """Emit the batches that are full, and those that have waited for long enough."""
        now = self.context.window_time_microseconds
        if self.held and (self.held_rows() >= self.size or now >= self.due):
            self._emit(now)

    def end_of_input(self) -> None:
        """Emit all others."""
        if self.held:
            self._emit(_NEVER)

    def _emit(self, now: int) -> None:
        """Emit the batches that are due by a time of the clock; hold the tuples of the others."""
        (batch,) = pa.Table.from_batches(list(self.held)).combine_chunks().to_batches()
        codes, keys = row_keys(batch, self.key_names)
        order = np.argsort(codes, kind="stable")
        begins = np.searchsorted(codes[order], np.arange(len(keys)))
        counts = np.diff(np.append(begins, len(batch)))
        numbers = (np.arange(len(batch)) - np.repeat(begins, counts)) // self.size
        starts = np.flatnonzero(np.diff(numbers, prepend=-1) | np.diff(codes[order], prepend=-1))
        sizes = np.diff(np.append(starts, len(batch)))
        since = batch.column(batch.num_columns - 1).to_numpy()
        waited = np.full(len(starts), now == _NEVER)
        if self.wait is not None and now != _NEVER:
            waited = since[order[starts]] <= now - self.wait
        full = (sizes == self.size) | waited
        self._emit_lists(batch, order, starts[full], sizes[full])
        left = np.sort(order[~np.repeat(full, sizes)])
        self.held[:] = [batch.take(pa.array(left))] if len(left) else []
        self.due = _NEVER if self.wait is None or not len(left) else int(since[left].min()) + self.wait

    def _emit_lists(self, batch: pa.RecordBatch, order: Any, starts: Any, sizes: Any) -> None:
        """Emit batches. `order`: the rows; of each batch where it begins there, and its size."""
        if not len(starts):
            return
        rows = order[np.repeat(starts, sizes) + _within(sizes)]
        taken = batch.take(pa.array(rows))
        schema, columns = self.output.schema.arrow, taken.num_columns - 2
        struct = schema.field(self.column).type.value_type
        items = pa.StructArray.from_arrays(taken.columns[:columns], fields=list(struct))
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        lists = pa.ListArray.from_arrays(pa.array(offsets), items, type=schema.field(self.column).type)
        arrays = [pc.take(taken.column(name), pa.array(offsets[:-1])) for name in self.key_names]
        times = np.maximum.reduceat(taken.column(columns).to_numpy(), offsets[:-1])
        made = pa.RecordBatch.from_arrays([*arrays, lists], schema=schema)
        self.output.emit_timed(made, Times(times))


def _within(sizes: Any) -> Any:
    """The positions within batches of these sizes, one batch after the other."""
    return np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
