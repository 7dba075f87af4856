"""Sums by key."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputPort, KeyedState, OutputPort, SchemaType, State
from ridgeline.operators._exact import added
from ridgeline.operators._shaped import T
from ridgeline.operators.key_value import (
    BatchUnifier,
    FirstColumnCodec,
    KeyValOperator,
    check_columns,
    distinct,
    sums,
    to_batch,
)


class SumUnifier(BatchUnifier):
    """Merge the sums of partitions: add the values of each key in the window.

    `SumKeyVal` uses it by itself; give it to an output port of your own that emits `(key, number, ...)`.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import OutputPort
        >>> class Volume(NamedTuple):
        ...     symbol: str
        ...     shares: int
        >>> volumes = OutputPort(Volume, unifier=SumUnifier)
    """

    def merge(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return one row a key, keys in the order in which they first appear."""
        keys, index = distinct(batch.column(0))
        columns = [sums(column, index, len(keys)) for column in batch.columns[1:]]
        return to_batch(batch.schema, [keys, *columns], "SumUnifier")


class SumKeyVal(KeyValOperator[T]):
    """Emit the sum of each key's values; tuples with several values are summed column by column.

    Input: `(key, value, ...)`, numbers; null values are ignored. Output: `(key, sum, ...)` at the end of the
    (application) window, for the keys of that window. Up to 50,000 keys come in the order in which they first
    came. Sums are exact, those of floats rounded once: they do not depend on the order of tuples. As soon as
    a sum does not fit its column SchemaError is raised, before the window is committed.

    `schema`: of the output; None: that of the input. `cumulative`: sums continue from window to window;
    otherwise each application window starts at zero. `restart_every`: cumulative sums start at zero again
    after this number of (application) windows; 0: never.

    Partitions: by key. Round robin gives the same result unless `cumulative`. With `cumulative` it is refused
    with RidgelineError: a partition emits only the keys that came to it, so the totals would be incomplete.
    Slides with `slide_by_window_count`, unless `cumulative`.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import SumKeyVal
        >>> from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
        >>> class Volume(NamedTuple):
        ...     symbol: str
        ...     shares: int
        >>> items = [("IBM", 3), ("SAP", 5), ("IBM", 4), END_WINDOW, ("IBM", 1)]
        >>> app = Application("volumes")
        >>> trades = app.add_operator("trades", ListInput(Volume, items))
        >>> volumes = app.add_operator("volumes", SumKeyVal(cumulative=True))
        >>> sink = app.add_operator("sink", CollectorSink(Volume))
        >>> app.add_stream("trades", trades.output, volumes.data)
        >>> app.add_stream("volumes", volumes.sum, sink.input)
        >>> for volume in run_local(app).collected("sink"):
        ...     print(volume)
        Volume(symbol='IBM', shares=7)
        Volume(symbol='SAP', shares=5)
        Volume(symbol='IBM', shares=8)
    """

    emits: ClassVar[str] = "sum"

    data = InputPort(Any, codec=FirstColumnCodec())
    sum = OutputPort[T](Any, unifier=SumUnifier)

    schema: SchemaType[T] | None = None
    cumulative: bool = False
    restart_every: int = Field(default=0, ge=0)

    sums = KeyedState(tuple)
    windows = State(0, moves="same")

    def slider_of(self, port: str) -> type[SumUnifier] | None:
        """Return `SumUnifier`; None for sums that continue, which hold the windows before already."""
        return None if self.cumulative else SumUnifier

    @data.process_batch
    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Add the values of a batch to the sums."""
        check_columns(batch, 2, None, "SumKeyVal")
        keys, index = distinct(batch.column(0))
        if self.cumulative:
            self.refuse_strays(keys)
        columns = [sums(column, index, len(keys)) for column in batch.columns[1:]]
        known, totals = self.sums, []
        for key, new in zip(keys.to_pylist(), zip(*columns, strict=True), strict=True):
            before = known.get(key)
            total = new if before is None else tuple(map(added, before, new))
            known[key] = total
            totals.append(total)
        if totals:
            self.check_fit([keys, *map(list, zip(*totals, strict=True))])

    def end_window(self) -> None:
        """Emit the sums of the window's keys; clear them unless they continue."""
        self.emit_values(dict(self.sums.changed() if self.cumulative else self.sums.items()))
        if not self.cumulative:
            self.sums.clear()
        elif self.restart_every:
            self.windows = (self.windows + 1) % self.restart_every
            if not self.windows:
                self.sums.clear()
