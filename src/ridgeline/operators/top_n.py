"""The n largest tuples."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ridgeline.api import InputPort, KeyedState, OutputPort, SchemaError, State
from ridgeline.operators._batch_unifier import BatchUnifier
from ridgeline.operators.key_value import FirstColumnCodec, KeyValOperator, distinct, last_rows, to_batch


def largest(batch: pa.RecordBatch, size: int, by: str) -> pa.RecordBatch:
    """The `size` largest tuples by the column `by`, the largest first.

    Of equal ones those come first whose other columns, from left to right, are less. A NaN is less than any
    number; tuples whose `by` is null are left out.
    """
    batch = batch.filter(batch.column(by).is_valid())
    others = [field.name for field in batch.schema if field.name != by and not pa.types.is_nested(field.type)]
    order = pc.sort_indices(batch, sort_keys=[(by, "descending"), *((name, "ascending") for name in others)])
    return batch.take(order[:size])


class TopNUnifier(BatchUnifier):
    """Of the largest tuples of all partitions keep the largest."""

    size: int = Field(default=10, ge=1)
    by: str = ""

    def merge(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The largest of all, the largest first."""
        return largest(batch, self.size, self.by)


class TopN(KeyValOperator):
    """The `size` largest tuples by the column `by`, the largest first; ties and nulls as in `largest`.

    Input: tuples with at least the columns of the output. Output: at the end of the (application) window, if
    there are any; `schema` says which columns (None: those of the input). `keyed`: the first column is a key,
    and a newer tuple takes the place of the older one with the same key, also if it is less. `cumulative`: of
    all tuples since the start; otherwise each application window starts from nothing.

    Partitions: by the first column, merged by TopNUnifier. Round robin is right as well unless `keyed`; that
    is refused with RidgelineError, because a newer tuple would not meet the older one. Raises SchemaError if
    columns are missing.
    """

    emits: ClassVar[str] = "top"

    data = InputPort(Any, codec=FirstColumnCodec())
    top = OutputPort(Any)

    schema: Any = None
    size: int = Field(default=10, ge=1)
    by: str
    keyed: bool = False
    cumulative: bool = False

    newest: KeyedState[Any] = KeyedState(tuple)  # if keyed: each key's newest tuple
    largest: State[Any] = State(())  # otherwise: the largest tuples so far, as tuples of values

    def unifier_of(self, port: str) -> TopNUnifier:
        """A unifier that knows what the properties are."""
        return TopNUnifier(**{name: vars(self)[name] for name in ("size", "by") if name in vars(self)})

    @data.process_batch
    def note(self, batch: pa.RecordBatch) -> None:
        """Remember the tuples of a batch that may be among the largest."""
        names = self.output_schema().names
        missing = [name for name in (*names, self.by) if name not in batch.schema.names]
        if missing:
            message = f"`TopN` needs column `{missing[0]}`; got tuples with the columns {batch.schema.names}; put a `Map` before it"
            raise SchemaError(message)
        if self.keyed:
            keys, index = distinct(batch.column(0))
            self.refuse_strays(keys)
            last = batch.take(pa.array(last_rows(index, len(keys)))).select(names)
            for key, row in zip(keys.to_pylist(), _rows(last), strict=True):
                self.newest[key] = row
            return
        batch = batch.select(names)
        if self.largest:
            before = to_batch(batch.schema, list(zip(*self.largest, strict=True)), "TopN")
            batch = pa.Table.from_batches([before, batch]).combine_chunks().to_batches()[0]
        self.largest = tuple(_rows(largest(batch, self.size, self.by)))

    def end_window(self) -> None:
        """Emit the largest tuples."""
        rows = list(self.newest.values()) if self.keyed else self.largest
        if rows:
            batch = to_batch(self.output_schema(), list(zip(*rows, strict=True)), "TopN")
            self.top.emit_batch(largest(batch, self.size, self.by))
        if not self.cumulative:
            self.newest.clear()
            self.largest = ()


def _rows(batch: pa.RecordBatch) -> list[Any]:
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
