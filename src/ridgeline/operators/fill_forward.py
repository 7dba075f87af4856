"""Put the last value of a key in the place of nulls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputPort, KeyedState, OutputPort, Schema, metric
from ridgeline.api.context import OperatorContext
from ridgeline.api.support.duration import PositiveDuration
from ridgeline.api.times import EARLIEST, LATEST, NO_TIME, Microseconds
from ridgeline.operators._divided import (
    Columns,
    ForgettingOperator,
    TogetherCodec,
    check_columns,
    columns_of,
)
from ridgeline.operators._exact import Index
from ridgeline.operators._joined import arrays_of, rows_of


class FillForward(ForgettingOperator):
    """Put the last value of a key in the place of nulls: `FillForward("celsius", key="device")`.

    Input: any stream with columns. Output: the same tuples, in their order. A null in one of `columns` is
    replaced by the newest value of the column before it, of a tuple with the same key. Without one it stays
    null. `key`: a column, or several; None: all tuples together, in one partition.

    `within`: the greatest age of such a value, by the times of records; None: any. Then raises RidgelineError
    for streams without times.

    Tuples of a key are taken in the order in which they come. Where that is not the order of their times, put
    `Sort` before it.

    State: for each key the newest values of these columns. With `within` a key goes at most an eighth of that
    time after no record that is in time can need it. The metric `held_keys` says how many keys.

    Partitions: by key. Round robin is refused with RidgelineError: tuples of a key would not meet.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import FillForward
        >>> from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
        >>> class Reading(NamedTuple):
        ...     device: str
        ...     celsius: float | None
        >>> items = [("oven", 80.0), ("hob", None), ("oven", None), END_WINDOW, ("oven", None), ("hob", 20.0)]
        >>> app = Application("readings")
        >>> source = app.add_operator("source", ListInput(Reading, items))
        >>> fill = app.add_operator("fill", FillForward("celsius", key="device"))
        >>> sink = app.add_operator("sink", CollectorSink(Reading))
        >>> app.add_stream("readings", source.output, fill.input)
        >>> app.add_stream("filled", fill.output, sink.input)
        >>> [reading.celsius for reading in run_local(app).collected("sink")]
        [80.0, None, 80.0, 80.0, 20.0]
    """

    state_depends_on = ("input", "key", "columns")
    beside_key = ("columns",)
    purpose = "fills columns"

    input = InputPort(Any, codec=TogetherCodec())
    output = OutputPort(Any)

    columns: Columns = Field(min_length=1)
    key: Columns | None = None
    within: PositiveDuration | None = None

    newest = KeyedState(tuple)
    """By key, for each column (time, value) of its newest value; None of none."""

    @metric(help="Keys that are held.")
    def held_keys(self) -> int:
        """The number of keys that are held."""
        return len(self.newest)

    def derived(self, given: Schema) -> object:
        """Those of the input. Raises SchemaError for columns that the stream lacks."""
        check_columns(given, columns_of(self.columns), "`columns`")
        return None

    def setup(self, context: OperatorContext) -> None:
        """Read the names, too."""
        super().setup(context)
        self.filled = columns_of(self.columns)

    @input.process_batch
    def fill(self, batch: pa.RecordBatch) -> None:
        """Fill the columns of a batch."""
        if not len(batch):
            return
        codes, keys = self.own_keys(batch)
        times = self.living_times(batch)  # without a `within` of use once there is one
        held = [self.newest.get(key, (None,) * len(self.filled)) for key in keys]
        # what is held of a key counts as a row before its own
        codes = np.concatenate([np.arange(len(keys)), codes])
        order = np.argsort(codes, kind="stable")
        lasts = np.cumsum(np.bincount(codes)) - 1
        arrays, newest = list(batch.columns), [list(one) for one in held]
        for place, name in enumerate(self.filled):
            at = batch.schema.get_field_index(name)
            arrays[at] = self._filled(batch.column(at), times, order, lasts, newest, place)
        for key, before, after in zip(keys, held, newest, strict=True):
            if any(one is not other for one, other in zip(before, after, strict=True)):  # 0.0 equals -0.0
                self.newest[key] = tuple(after)
        self.output.emit_batch(pa.RecordBatch.from_arrays(arrays, schema=batch.schema))

    def end_window(self) -> None:
        """Forget the keys that no record in time can need."""
        before = self.now - (self.live or 0)
        if self.now < LATEST:
            self.forget(self.newest, lambda values: all(one is None or one[0] <= before for one in values))

    def _filled(
        self, column: pa.Array, times: Microseconds, order: Index, lasts: Index, newest: list[Any], place: int
    ) -> pa.Array:
        """A column without the nulls that can be filled. Puts the newest values of each key in their place.

        `order`: the rows key by key, first what is held of the key. `lasts`: the place of each key's last row
        in it. `newest`: of each key, by column.
        """
        keys = len(newest)
        held = [one[place] or (NO_TIME, None) for one in newest]
        every = pa.concat_arrays(
            [*arrays_of([(value,) for _, value in held], [pa.field("", column.type)]), column]
        )
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        has = np.concatenate([np.ones(keys, np.bool_), valid])  # nothing held ends what fills, too
        # of each place the last one at or before it that has a value
        sources = order[np.maximum.accumulate(np.where(has[order], np.arange(len(order)), 0))]
        taken = np.empty(len(order), np.int64)
        taken[order] = sources
        rows, missing = taken[keys:], None
        if self.live is not None:
            since = np.concatenate([np.array([time for time, _ in held], np.int64), times])[rows]
            since = np.maximum(since, EARLIEST)  # else the age overflows
            missing = ~valid & ((times == NO_TIME) | (times - since >= self.live))
        changed = np.flatnonzero(sources[lasts] >= keys)
        found = sources[lasts[changed]]
        one = pa.RecordBatch.from_arrays([every.take(pa.array(found))], ["value"])
        for code, row, (value,) in zip(changed.tolist(), found - keys, rows_of(one, ["value"]), strict=True):
            newest[code][place] = (max(int(times[row]), EARLIEST), value)
        return every.take(pa.array(rows, mask=missing))
