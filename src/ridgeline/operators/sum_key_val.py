"""Sums by key."""

from __future__ import annotations

from operator import add
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputPort, KeyedState, OutputPort, State
from ridgeline.operators._batch_unifier import BatchUnifier
from ridgeline.operators.key_value import FirstColumnCodec, KeyValOperator, check_columns, distinct, sums


class SumUnifier(BatchUnifier):
    """Add what partitions say of the same key in the same window."""

    def merge(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """One tuple a key, in the order in which keys came."""
        keys, index = distinct(batch.column(0))
        columns = [pa.array(sums(column, index, len(keys)), column.type) for column in batch.columns[1:]]
        return pa.RecordBatch.from_arrays([keys, *columns], schema=batch.schema)


class SumKeyVal(KeyValOperator):
    """Sum of each key's values; tuples with several values are summed column by column.

    Input: `(key, value, ...)`, numbers; nulls count nothing. Output: `(key, sum, ...)` at the end of the
    (application) window, of the keys that came in it, in the order in which they came first. Sums of integers
    are exact; one that does not fit its column raises SchemaError.

    `schema`: of the output; None: that of the input. `cumulative`: sums go on from window to window;
    otherwise each application window starts from nothing. `restart_every`: cumulative sums start from nothing
    again after so many (application) windows; 0: never.

    Partitions: by key. Round robin is right as well unless `cumulative`; that is refused with RidgelineError,
    because a partition would not tell the sums of keys that only came to others.
    """

    emits: ClassVar[str] = "sum"

    data = InputPort(Any, codec=FirstColumnCodec())
    sum = OutputPort(Any, unifier=SumUnifier)

    schema: Any = None
    cumulative: bool = False
    restart_every: int = Field(default=0, ge=0)

    sums: KeyedState[Any] = KeyedState(tuple)
    windows = State(0)

    @data.process_batch
    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Add the values of many tuples."""
        check_columns(batch, 2, None, "SumKeyVal")
        keys, index = distinct(batch.column(0))
        if self.cumulative:
            self.refuse_strays(keys)
        columns = [sums(column, index, len(keys)) for column in batch.columns[1:]]
        known = self.sums
        for key, added in zip(keys.to_pylist(), zip(*columns, strict=True), strict=True):
            before = known.get(key)
            known[key] = added if before is None else tuple(map(add, before, added))

    def end_window(self) -> None:
        """Emit the sums of the window's keys."""
        changed = dict(self.sums.changed() if self.cumulative else self.sums.items())
        if changed:
            self.emit_columns([list(changed), *map(list, zip(*changed.values(), strict=True))])
        if not self.cumulative:
            self.sums.clear()
        elif self.restart_every:
            self.windows = (self.windows + 1) % self.restart_every
            if not self.windows:
                self.sums.clear()
