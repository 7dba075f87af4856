"""Average by key over the last application windows."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputPort, KeyedState, OutputPort, State
from ridgeline.operators.key_value import FirstColumnCodec, KeyValOperator, check_columns, distinct, sums


class SimpleMovingAverage(KeyValOperator):
    """Average of each key's values over the last `window_size` application windows, sliding by one.

    Input: `(key, value)`, numbers; nulls count nothing. Output: `(key, average)` at the end of every
    application window: for each key with at least one value in the last `window_size` application windows,
    the one that ends included, the sum of all its values in them divided by their number (so a window with
    many values weighs more than one with few). Windows before the first count nothing: the first averages are
    over fewer windows. A key is emitted whether or not it came in the window that ends, and forgotten once
    all its values are older; keys are emitted in the order in which they came first. As SimpleMovingAverage
    of Apex Malhar, which however goes on to emit 0 for keys that are gone. Sums of integers are exact; sums
    of floats are made anew each time, so errors do not pile up.

    `schema`: of the output; None: that of the input, whose values then must be floats.

    Partitions: by key. Round robin is refused with RidgelineError: averages of parts cannot be merged.
    """

    emits: ClassVar[str] = "average"

    data = InputPort(Any, codec=FirstColumnCodec())
    average = OutputPort(Any)

    schema: Any = None
    window_size: int = Field(default=2, ge=1)

    # For each key, oldest first: (number of the application window, sum, count). The number is the same in
    # all partitions.
    parts: KeyedState[Any] = KeyedState(tuple)
    window_number = State(0)

    @data.process_batch
    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Add the values of many tuples to the application window."""
        check_columns(batch, 2, 2, "SimpleMovingAverage")
        if batch.column(1).null_count:
            batch = batch.filter(batch.column(1).is_valid())
        keys, index = distinct(batch.column(0))
        self.refuse_strays(keys)
        totals = sums(batch.column(1), index, len(keys))
        counts = sums(pa.array(index >= 0), index, len(keys))
        number, known = self.window_number, self.parts
        for key, total, count in zip(keys.to_pylist(), totals, counts, strict=True):
            before = tuple(part for part in known.get(key, ()) if part[0] > number - self.window_size)
            if before and before[-1][0] == number:
                known[key] = (*before[:-1], (number, before[-1][1] + total, before[-1][2] + count))
            else:
                known[key] = (*before, (number, total, count))

    def end_window(self) -> None:
        """Emit the averages and forget keys whose values are all too old."""
        oldest = self.window_number - self.window_size + 1
        keys, averages, gone = [], [], []
        for key, parts in self.parts.items():
            recent = [part for part in parts if part[0] >= oldest]
            if recent:
                keys.append(key)
                averages.append(sum(part[1] for part in recent) / sum(part[2] for part in recent))
            else:
                gone.append(key)
        for key in gone:
            del self.parts[key]
        self.window_number += 1
        if keys:
            self.emit_columns([keys, averages])
