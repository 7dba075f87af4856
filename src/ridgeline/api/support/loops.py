"""The two ends of a delay operator: what comes in at the tail in one window, the head emits in the next.

The graph of operators has no edge between them, so it has no cycle. Tuples between two windows are
a state: the tail's. The head reads it as of the window before, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ridgeline.api.columns.arrow_stream import from_ipc, to_ipc
from ridgeline.api.columns.schema import pickles_of
from ridgeline.api.operator import InputOperator, Operator
from ridgeline.api.ports import InputPort, OutputPort
from ridgeline.api.state import State
from ridgeline.api.support.pickling import pickled_classes

HEAD, TAIL = "head", "tail"
"""The names of the two ends within a `Delay`."""


def _divide_batches(values: Sequence[bytes | None], partitions: int) -> list[bytes | None]:
    """Divide the tuples of tails among partitions, round robin."""
    batches = [batch for value in values for batch in from_ipc(value)]
    if not batches:
        return [b""] * partitions
    rows = pa.Table.from_batches(batches).combine_chunks()
    order = range(rows.num_rows)
    return [
        to_ipc(rows.take(pa.array(order[place::partitions], pa.int64())).to_batches())
        for place in range(partitions)
    ]


class DelayTail(Operator):
    """Takes the tuples of a window, and keeps them for the next one."""

    input = InputPort(Any)
    kept = State[bytes | None](None, moves=_divide_batches)
    """The tuples of the last window, as an Arrow IPC stream; b"" for none, None before the first window."""

    def begin_window(self, window_id: int) -> None:
        """Begin with nothing."""
        self.batches: list[pa.RecordBatch] = []

    @input.process_batch
    def keep(self, batch: pa.RecordBatch) -> None:
        """Note tuples."""
        self.batches.append(batch)

    def end_window(self) -> None:
        """Keep what came in place of what came in the window before."""
        kept = to_ipc(self.batches)
        if kept or self.kept != kept:
            self.kept = kept


class DelayHead(InputOperator):
    """Emits what the tail took in the window before; in the first window the tuples that it is given."""

    output = OutputPort(Any)
    kept = State[bytes | None](None)
    """The tail's, as of the window before."""

    first_window: Sequence[Any] = ()

    def emit_tuples(self) -> None:
        """Emit what is due in this window."""
        kept = self.kept
        if kept is None:
            for one in self.first_window[self.context.partition :: self.context.partitions]:
                self.output.emit(one)
        for batch in from_ipc(kept):
            self.output.emit_batch(batch)

    def progress(self) -> tuple[float, float | None]:
        """Nothing waits: all that is due comes in its window."""
        return 0.0, 0.0


def delayed_classes(operator: Operator) -> set[type]:
    """The classes of the tuples that a tail of a stream of `object` keeps: bytes say nothing of them."""
    kept = from_ipc(operator.kept) if isinstance(operator, DelayTail) else []
    return pickled_classes(pickle for batch in kept for pickle in pickles_of(batch))


def has_delayed(operator: Operator) -> bool:
    """True for a tail with tuples for the next window."""
    return isinstance(operator, DelayTail) and bool(operator.kept)
