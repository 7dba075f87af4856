"""What unifiers of whole windows share."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ridgeline.api import InputPort, OutputPort, Unifier


class BatchUnifier(Unifier):
    """Collects what all partitions say in a window and emits once, at its end, what `merge` makes of it."""

    input = InputPort(Any)
    output = OutputPort(Any)

    def begin_window(self, window_id: int) -> None:
        """Start from nothing."""
        self.batches: list[pa.RecordBatch] = []

    @input.process_batch
    def collect(self, batch: pa.RecordBatch) -> None:
        """Keep what a partition says."""
        self.batches.append(batch)

    def end_window(self) -> None:
        """Emit what is merged, if there is anything."""
        if self.batches:
            self.output.emit_batch(
                self.merge(pa.Table.from_batches(self.batches).combine_chunks().to_batches()[0])
            )

    def merge(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """One batch, not empty, of all partitions' tuples in the partitions' order, as one of the same schema."""
        raise NotImplementedError
