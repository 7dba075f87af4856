"""The largest tuples of each key."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import chain
from operator import is_not
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputPort, KeyedState, OutputPort, Schema, SchemaError, State, metric
from ridgeline.api.context import OperatorContext
from ridgeline.operators._divided import Columns, DividedOperator, check_columns, columns_of, row_keys
from ridgeline.operators._joined import Row, arrays_of, rows_of
from ridgeline.operators._window_parts import best_rows, filtered
from ridgeline.operators.frames._columns import columns_of as known_columns

RANK = "rank"


class TopByKey(DividedOperator):
    """The `size` largest tuples of each key by the column `by`, of all tuples so far.

    Output: at the end of the (application) window, for each key whose list has changed, its whole list. That
    is all columns and `rank`, from 1 for the largest. So the newest row of a key and a rank counts. Of equal
    values the older tuple comes first. Tuples whose `by` is null are left out; a NaN is less than any number.

    `smallest`: the smallest ones instead, a NaN after all numbers. Raises SchemaError for columns that are
    not there, and for a stream that has a column `rank`.

    State: the list of each key, forever. The metric `held_rows` says how many tuples.

    Partitions: by `key`. Round robin is refused with RidgelineError: larger tuples of a key would not meet.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import TopByKey
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Bid(NamedTuple):
        ...     item: str
        ...     cents: int
        >>> app = Application("auction")
        >>> bids = app.read("bids", ListInput(Bid, [("a", 5), ("b", 2), ("a", 9), ("a", 7)]))
        >>> sink = bids.group_by("item").top("top", 2, by="cents").write("sink", CollectorSink())
        >>> for row in run_local(app).collected("sink"):
        ...     print(row["item"], row["rank"], row["cents"])
        a 1 9
        a 2 7
        b 1 2
    """

    input = InputPort(Any)
    output = OutputPort(Any)

    key: Columns
    size: int = Field(default=10, ge=1)
    by: str = Field(kw_only=True)
    smallest: bool = Field(default=False, kw_only=True)

    tops = KeyedState(tuple)
    """By key its tuples, the largest first: the values of all columns, one tuple after the other."""
    held_count = State(0, moves="sum")
    """How many tuples are held."""

    @metric(help="Tuples in the lists of all keys.")
    def held_rows(self) -> int:
        """The number of tuples that are held."""
        return self.held_count

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a key that was changed."""
        return self.key_faults("key")

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The columns of the stream, and the rank. Raises SchemaError for columns that do not fit."""
        if port != "output" or "input" not in inputs:
            return None
        super().derived_schema(port, inputs)
        schema = inputs["input"]
        check_columns(schema, [*columns_of(self.key), self.by], "`key` or `by`")
        if pa.types.is_nested(schema.arrow.field(self.by).type):
            kind = schema.arrow.field(self.by).type
            raise SchemaError(
                f"`by` names `{self.by}`, which is {kind} and has no order; take another column"
            )
        if RANK in schema.arrow.names:
            raise SchemaError(f"the stream has a column `{RANK}` already; rename it before")
        return pa.schema([*known_columns(schema), pa.field(RANK, pa.int64(), nullable=False)])

    def setup(self, context: OperatorContext) -> None:
        """Read the key."""
        self.names = columns_of(self.key)

    @input.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Take the rows of a batch into the lists of their keys."""
        batch = filtered(batch, batch.column(self.by).is_valid().to_numpy(zero_copy_only=False))
        if not len(batch):
            return
        self.refuse_strays(batch, self.names)
        codes, keys = row_keys(batch, self.names)
        best = best_rows(codes, batch.column(self.by), self.size, highest=not self.smallest)
        batch, codes = batch.take(pa.array(best)), codes[best]
        place, width = batch.schema.get_field_index(self.by), batch.num_columns
        rows = rows_of(batch, batch.schema.names)
        begins = np.flatnonzero(np.diff(codes, prepend=-1))
        for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(codes)], strict=True):
            key = keys[codes[begin]]
            held = rows_from(self.tops.get(key) or (), width)
            both = [*held, *rows[begin:end]]
            merged = sorted(both, key=partial(self._order, place), reverse=not self.smallest)[: self.size]
            # what is new is behind what is held where both are equal
            if len(merged) > len(held) or any(map(is_not, merged, held)):
                self.tops[key] = tuple(chain.from_iterable(merged))
                self.held_count += len(merged) - len(held)

    def _order(self, place: int, row: Row) -> tuple[bool, Any]:
        """The sort key of a row: a NaN is after all numbers in both directions."""
        value = row[place]
        is_number = value == value  # noqa: PLR0124  not of a NaN
        return is_number != self.smallest, value if is_number else 0

    def end_window(self) -> None:
        """Emit the lists that have changed."""
        schema = self.output.schema.arrow
        lists = [rows_from(values, len(schema) - 1) for _, values in self.tops.changed()]
        rows = [(*row, rank) for held in lists for rank, row in enumerate(held, 1)]
        if rows:
            self.output.emit_batch(pa.RecordBatch.from_arrays(arrays_of(rows, list(schema)), schema=schema))


def rows_from(values: Row, width: int) -> list[Row]:
    """Rows of so many values each, from the values of all."""
    return [values[begin : begin + width] for begin in range(0, len(values), width)]
