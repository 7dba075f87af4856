"""Put values on the line between two others in the place of nulls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from ridgeline.api import (
    InputPort,
    KeyedState,
    ListState,
    OutputPort,
    Schema,
    SchemaError,
    metric,
    stable_hash,
)
from ridgeline.api.cells.cell import Declaration
from ridgeline.api.cells.state_division import Owns
from ridgeline.api.columns.schema import holds_pickles
from ridgeline.api.context import OperatorContext
from ridgeline.api.support.duration import parse_duration, positive_duration_faults
from ridgeline.api.times import Microseconds, Times
from ridgeline.operators._divided import (
    Columns,
    DividedOperator,
    TogetherCodec,
    check_columns,
    columns_of,
    moved_records,
    row_keys,
)
from ridgeline.operators._window_parts import filtered

Index = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_TIME = "_time"


def together(values: Sequence[Sequence[pa.RecordBatch]], owns: Sequence[Owns]) -> list[list[pa.RecordBatch]]:
    """Give all records to the partition of the empty key."""
    key = np.array([stable_hash(())], np.uint64)
    batches = [batch for held in values for batch in held]
    return [batches if own(key)[0] else [] for own in owns]


class _Rows(NamedTuple):
    """The records that the watermark has passed, key by key, each key's in the order of time."""

    times: Index
    codes: Index
    begins: Index
    """By row, where its key begins."""
    ends: Index
    """By row, where its key ends."""


class Interpolate(DividedOperator):
    """Put values on the line between two others in the place of nulls: `Interpolate("celsius", within="1m")`.

    Input: a stream with record times. Output: the same records in the order of their times. A null in one of
    `columns` lies between the last value of its key before it and the first one after it. If these are at
    most `within` apart, it becomes their linear interpolation by time, else it stays null. `columns` are of
    floating-point type. `key`: a column, or several; None: all records together, in one partition.

    A record with a null comes once the value after it is known, or once the watermark says that none comes
    in time. All others of its key wait behind it. So the watermark of the output is `within` behind that of
    the input. Late records, and those without a time, are counted and go to the error port `late`, as with
    `Sort`. Raises RidgelineError for streams without record times.

    State: the records that wait, and for each key the last values of these columns. The metric
    `held_records` says how many records.

    Partitions: by key. Round robin is refused with RidgelineError: records of a key would not meet.

    Example:
        >>> from datetime import UTC, datetime
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Interpolate
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> columns = [("device", str), ("celsius", float | None), ("time", datetime)]
        >>> Reading = NamedTuple("Reading", columns)
        >>> def at(second):
        ...     return datetime(2026, 1, 1, 12, 0, second, tzinfo=UTC)
        >>> items = [
        ...     ("oven", 80.0, at(0)),
        ...     ("oven", None, at(1)),
        ...     ("oven", 86.0, at(3)),
        ...     ("oven", None, at(4)),
        ... ]
        >>> app = Application("readings")
        >>> source = app.add_operator("source", ListInput(Reading, items, "time", lateness="1s"))
        >>> line = app.add_operator("line", Interpolate("celsius", key="device", within="10s"))
        >>> sink = app.add_operator("sink", CollectorSink(Reading))
        >>> app.add_stream("readings", source.output, line.input)
        >>> app.add_stream("filled", line.output, sink.input)
        >>> [reading.celsius for reading in run_local(app).collected("sink")]
        [80.0, 82.0, 86.0, None]
    """

    input = InputPort(Any, codec=TogetherCodec())
    output = OutputPort(Any)
    late = OutputPort(Any, late=True, optional=True)

    columns: Columns = Field(min_length=1)
    key: Columns | None = None
    within: float | str = Field(kw_only=True)

    held = ListState(pa.RecordBatch, moves_to=together)
    """The records that wait, with their times as the last column."""
    newest = KeyedState(tuple)
    """By key, for each column (time, value) of the last value of a record that was emitted; None of none."""

    @classmethod
    def states_of(cls, keys: Mapping[str, Sequence[str]]) -> dict[str, Declaration]:
        """Records move with their keys."""
        return {"held": ListState(pa.RecordBatch, moves_to=partial(moved_records, keys["input"]))}

    @metric(help="Records that wait for a value after them, or for the watermark.")
    def held_records(self) -> int:
        """The number of records that are held."""
        return sum(map(len, self.held))

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a key that was changed, key columns that are filled, and a time that is none."""
        faults = [*self.key_faults("key"), *positive_duration_faults(self, "within")]
        both = [name for name in columns_of(self.columns) if name in columns_of(self.key)]
        if both:
            faults.append(("columns", both[0], "must not be a column of the key"))
        return faults

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """That of the input. Raises SchemaError for columns that it lacks, or that are no floats."""
        super().derived_schema(port, inputs)
        if "input" in inputs:
            names = columns_of(self.columns)
            check_columns(inputs["input"], names, "`columns`")
            for name in names:
                kind = inputs["input"].arrow.field(name).type
                if not pa.types.is_floating(kind):
                    msg = f"`columns` names `{name}`, which is {kind}; only floating-point numbers can be "
                    msg += "interpolated: put `cast` before it"
                    raise SchemaError(msg)
        return None

    def needs_times(self) -> str:
        """To know where on the line a value lies."""
        return "interpolates"

    def setup(self, context: OperatorContext) -> None:
        """Read the names and the duration."""
        self.names = columns_of(self.key)
        self.filled = columns_of(self.columns)
        self.longest = round(parse_duration(self.within) * 1_000_000)
        context.watermark_delay = self.longest  # a null waits for so long; what follows waits behind it

    @input.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Hold the records of a batch; late ones go to `late`. Raises SchemaError for `object`."""
        if holds_pickles(batch):
            msg = f"`{self.context.name}` cannot interpolate a stream of `object`; give the port before it a "
            msg += "schema"
            raise SchemaError(msg)
        batch, times = self.on_time(batch, self.late, "interpolates")
        if len(batch):
            if self.names:
                self.refuse_strays(batch, self.names)
            self.held.append(batch.append_column(_TIME, pa.array(times)))

    def end_window(self) -> None:
        """Emit the records that are settled."""
        watermark = self.context.watermark_microseconds
        every = [batch.column(batch.num_columns - 1).to_numpy() for batch in self.held]
        if not every or min(int(one.min()) for one in every) > watermark:
            return
        [held] = pa.Table.from_batches(list(self.held)).combine_chunks().to_batches()
        times: Index = np.concatenate(every)
        order = np.argsort(times, kind="stable")
        order = order[: int(np.searchsorted(times[order], watermark, side="right"))]
        emitted, batch = self._settled(held, times, order, watermark)
        left = np.ones(len(held), np.bool_)
        left[emitted] = False
        self.held[:] = [filtered(held, left)] if left.any() else []
        if len(batch):
            self.output.emit_timed(batch, Times(times[emitted]))

    def _settled(
        self, held: pa.RecordBatch, times: Microseconds, order: Index, watermark: int
    ) -> tuple[Index, pa.RecordBatch]:
        """Which records are settled, in the order of their times, and what they have become.

        `order`: the records that the watermark has passed, in that order.
        """
        passed = held.take(pa.array(order))
        codes: Index = np.zeros(len(order), np.int64)
        keys: list[Any] = [()]
        if self.names:
            codes, keys = row_keys(passed, self.names)
        by_key = np.argsort(codes, kind="stable")
        ordered = codes[by_key]
        firsts = np.searchsorted(ordered, np.arange(len(keys) + 1))
        rows = _Rows(times[order][by_key], ordered, firsts[ordered], firsts[ordered + 1])
        before = [self.newest.get(key, (None,) * len(self.filled)) for key in keys]
        waits = np.zeros(len(order), np.bool_)
        values, lasts = [], []
        for place, name in enumerate(self.filled):
            column = passed.column(passed.schema.get_field_index(name)).take(pa.array(by_key))
            made, pending, last = self._line(column, rows, [one[place] for one in before], watermark)
            waits |= pending
            values.append(made)
            lasts.append((column, last))
        # of each key all that lies before the first record that waits
        first = np.minimum.accumulate(np.where(waits, np.arange(len(order)), len(order))[::-1])[::-1]
        stops = np.minimum(np.append(first, len(order))[firsts[:-1]], firsts[1:])
        self._remember(keys, before, firsts, stops, lasts, rows, watermark)
        settled = by_key[np.arange(len(order)) < stops[ordered]]
        places = np.empty(len(order), np.int64)
        places[by_key] = np.arange(len(order))
        chosen = np.sort(settled)
        arrays = [passed.column(at).take(pa.array(chosen)) for at in range(passed.num_columns - 1)]
        for name, column in zip(self.filled, values, strict=True):
            arrays[passed.schema.get_field_index(name)] = column.take(pa.array(places[chosen]))
        return order[chosen], pa.RecordBatch.from_arrays(arrays, schema=self.output.schema.arrow)

    def _line(
        self, column: pa.Array, rows: _Rows, held: Sequence[Any], watermark: int
    ) -> tuple[pa.Array, Mask, Index]:
        """A column without nulls between values, which rows wait, and the last value at each row.

        `held`: by key, (time, value) before its first row, or None.
        """
        count = len(column)
        places = np.arange(count)
        valid: Mask = column.is_valid().to_numpy(zero_copy_only=False)
        numbers = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        there = np.array([one is not None for one in held], np.bool_)[rows.codes]
        times = np.array([0 if one is None else one[0] for one in held], np.int64)[rows.codes]
        firsts = np.array([0.0 if one is None else one[1] for one in held], np.float64)[rows.codes]
        last = np.maximum.accumulate(np.where(valid, places, -1))
        own = last >= rows.begins
        after = np.minimum.accumulate(np.where(valid, places, count)[::-1])[::-1]
        known = after < rows.ends
        begin = np.where(own, rows.times[np.maximum(last, 0)], times)
        low = np.where(own, numbers[np.maximum(last, 0)], firsts)
        end = rows.times[np.minimum(after, count - 1)]
        high = numbers[np.minimum(after, count - 1)]
        open_ = ~valid & (own | there)
        near = open_ & known & (end - begin <= self.longest)
        pending = open_ & ~known & (watermark - begin <= self.longest)
        length = np.maximum(end - begin, 1)
        with np.errstate(invalid="ignore", over="ignore"):
            line = low + (high - low) * ((rows.times - begin) / length)
        made = pa.array(np.where(valid, numbers, line), mask=~(valid | near)).cast(column.type)
        return made, pending, np.where(own, last, -1)

    def _remember(
        self,
        keys: Sequence[Any],
        before: Sequence[Any],
        firsts: Index,
        stops: Index,
        lasts: Sequence[tuple[pa.Array, Index]],
        rows: _Rows,
        watermark: int,
    ) -> None:
        """Keep the last value of each key before its first record that waits; forget what is too old."""
        for code, key in enumerate(keys):
            kept = list(before[code])
            stop = int(stops[code])
            if stop > firsts[code]:
                for place, (column, last) in enumerate(lasts):
                    if (row := int(last[stop - 1])) >= 0:
                        kept[place] = int(rows.times[row]), column[row].as_py()
            # what comes is no older than the watermark, or than the first record that waits
            next_ = int(rows.times[stop]) if stop < firsts[code + 1] else watermark
            found = tuple(None if one is None or next_ - one[0] > self.longest else one for one in kept)
            if all(one is other for one, other in zip(found, before[code], strict=True)):  # 0.0 equals -0.0
                continue
            if any(one is not None for one in found):
                self.newest[key] = found
            elif key in self.newest:
                del self.newest[key]
