"""Let so many tuples a second through."""

from __future__ import annotations

from typing import Any, Generic

import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputPort, Operator, OutputPort, State
from ridgeline.operators._shaped import T


class LimitRate(Operator, Generic[T]):
    """Let at most `rate` tuples a second through, on `output`; the others go to `rest`, if a stream reads it.

    `burst`: how many may pass at once after a quiet time; default: as many as in a second. The clock is that
    of the windows: an attempt that is made again lets the same tuples through. Each partition has an equal
    share. Partitions: round robin.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import LimitRate
        >>> from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
        >>> class Number(NamedTuple):
        ...     value: int
        >>> app = Application("few", window="1s")
        >>> items = [(1,), (2,), (3,), END_WINDOW, (4,), (5,)]
        >>> numbers = app.add_operator("numbers", ListInput(Number, items))
        >>> few = app.add_operator("few", LimitRate(rate=1, burst=2))
        >>> sink = app.add_operator("sink", CollectorSink(Number))
        >>> app.add_stream("numbers", numbers.output, few.input)
        >>> app.add_stream("few", few.output, sink.input)
        >>> run_local(app).collected("sink")
        [Number(value=1), Number(value=2), Number(value=4)]
    """

    input = InputPort[T](Any)
    output = OutputPort[T](Any)
    rest = OutputPort[T](Any, optional=True)

    rate: float = Field(gt=0)
    burst: float | None = Field(None, ge=1)

    debt = State(0.0, moves="sum")
    """How many tuples have passed that the time since has not made up for."""
    counted_at = State(0, moves="greatest")
    """The window time up to which `debt` is counted, in microseconds since 1970."""

    @input.process_batch
    def limit(self, batch: pa.RecordBatch) -> None:
        """Divide a batch: the first tuples pass."""
        share = 1 / self.context.partitions
        now = self.context.window_time_microseconds
        if now > self.counted_at:
            passed = (now - self.counted_at) / 1_000_000 if self.counted_at else 0.0
            self.debt = max(0.0, self.debt - passed * self.rate * share)
            self.counted_at = now
        most = (self.burst if self.burst is not None else max(1.0, self.rate)) * share
        count = min(batch.num_rows, max(0, int(max(most, 1.0) - self.debt + 1e-9)))
        self.debt += count
        self.output.emit_batch(batch.slice(0, count), rows=list(range(count)))
        self.rest.emit_batch(batch.slice(count), rows=list(range(count, batch.num_rows)))
