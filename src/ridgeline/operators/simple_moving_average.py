"""Average by key over the last application windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputPort, KeyedState, OutputPort, Schema, SchemaError, SchemaType, State
from ridgeline.operators._exact import added, divided, to_scale
from ridgeline.operators._shaped import T
from ridgeline.operators.key_value import FirstColumnCodec, KeyValOperator, check_columns, distinct, sums


class SimpleMovingAverage(KeyValOperator[T]):
    """Emit the average of each key's values over the last `window_size` application windows.

    Input: `(key, value)`, numbers; null values are ignored. Output: `(key, average)` at the end of every
    application window, for each key with a value in the last `window_size` application windows, the ending
    one included. The average is the sum of all these values divided by their number, so each value has the
    same weight. The first averages cover fewer windows. A key without new values is still emitted, until all
    its values are too old; then it is forgotten. Up to 50,000 keys are emitted in the order in which they
    first came. The same operator of Apex Malhar continues to emit 0 for such keys. Sums are exact, and each
    average is rounded once: to a float, or to the digits of a Decimal column. The order of tuples does not
    matter.

    `schema`: of the output; None: that of the input, whose values then must be floats or Decimals.

    Partitions: by key. Round robin and `partition_parallel` are refused with RidgelineError when a key comes
    to another partition than by key: averages of parts cannot be merged.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import SimpleMovingAverage
        >>> from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> items = [("IBM", 1.0), END_WINDOW, ("IBM", 3.0), END_WINDOW, ("IBM", 5.0)]
        >>> app = Application("averages")
        >>> prices = app.add_operator("prices", ListInput(Price, items))
        >>> averages = app.add_operator("averages", SimpleMovingAverage(window_size=2))
        >>> sink = app.add_operator("sink", CollectorSink(Price))
        >>> app.add_stream("prices", prices.output, averages.data)
        >>> app.add_stream("averages", averages.average, sink.input)
        >>> run = run_local(app)
        >>> [run.collected("sink", window)[0].price for window in run.window_ids]
        [1.0, 2.0, 4.0]
    """

    emits: ClassVar[str] = "average"

    state_depends_on = ("data", "window_size")

    data = InputPort(Any, codec=FirstColumnCodec())
    average = OutputPort[T](Any)

    schema: SchemaType[T] | None = None
    window_size: int = Field(default=2, ge=1)

    # For each key, oldest first: (number of the application window, sum, count). The number is the same in
    # all partitions.
    parts = KeyedState(tuple)
    window_number = State(0, moves="same")

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """That of the input. Raises SchemaError for whole numbers, whose averages are none."""
        given = inputs.get("data")
        if port == "average" and self.schema is None and given is not None and len(given.arrow) > 1:
            column = given.arrow.field(1)
            if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
                what = f"averages of `{column.name}`, which is {column.type}, are no whole numbers"
                raise SchemaError(f"{what}; give `schema`, with a float or a Decimal for them")
        return super().derived_schema(port, inputs)

    @data.process_batch
    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Add the values of a batch to the current application window."""
        check_columns(batch, 2, 2, "SimpleMovingAverage")
        if batch.column(1).null_count:
            batch = batch.filter(batch.column(1).is_valid())
        keys, index = distinct(batch.column(0))
        self.refuse_strays(keys)
        totals = sums(batch.column(1), index, len(keys))
        counts = sums(pa.array(index >= 0), index, len(keys))
        number, known, averages = self.window_number, self.parts, []
        for key, total, count in zip(keys.to_pylist(), totals, counts, strict=True):
            before = tuple(part for part in known.get(key, ()) if part[0] > number - self.window_size)
            if before and before[-1][0] == number:
                parts = (*before[:-1], (number, added(before[-1][1], total), before[-1][2] + count))
            else:
                parts = (*before, (number, total, count))
            known[key] = parts
            averages.append(_average(parts))
        self.check_fit([keys, self._in_type(averages)])

    def end_window(self) -> None:
        """Emit the averages; delete keys whose values are all too old."""
        oldest = self.window_number - self.window_size + 1
        keys, averages, gone = [], [], []
        for key, parts in self.parts.items():
            recent = [part for part in parts if part[0] >= oldest]
            if recent:
                keys.append(key)
                averages.append(_average(recent))
            else:
                gone.append(key)
        for key in gone:
            del self.parts[key]
        self.window_number += 1
        if keys:
            self.emit_columns([keys, self._in_type(averages)])

    def _in_type(self, averages: list[Any]) -> list[Any]:
        """Averages of Decimals are fractions: as the output's column has them, rounded once."""
        if not averages or not isinstance(averages[0], Fraction):
            return averages
        kind = self.output_schema().field(1).type
        if pa.types.is_decimal(kind):
            return [to_scale(average, kind.scale) for average in averages]
        return list(map(float, averages))


def _average(parts: Sequence[tuple[int, Any, int]]) -> Any:
    return divided(reduce(added, (part[1] for part in parts)), sum(part[2] for part in parts))
