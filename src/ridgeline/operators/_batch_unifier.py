"""The base of unifiers that merge whole windows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ridgeline.api import InputPort, OutputPort, Unifier


class BatchUnifier(Unifier):
    """Collect the batches of all partitions in a window; at its end emit the result of `merge`."""

    input = InputPort(Any)
    output = OutputPort(Any)

    def begin_window(self, window_id: int) -> None:
        """Start with no batches."""
        self.batches: list[pa.RecordBatch] = []

    @input.process_batch
    def collect(self, batch: pa.RecordBatch) -> None:
        """Keep a partition's batch."""
        self.batches.append(batch)

    def end_window(self) -> None:
        """Emit the merged batch, if any batch came."""
        if self.batches:
            self.output.emit_batch(
                self.merge(pa.Table.from_batches(self.batches).combine_chunks().to_batches()[0])
            )

    def merge(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Merge the rows of all partitions, in the partitions' order, into one batch of the same schema.

        Called once a window; `batch` is not empty.
        """
        raise NotImplementedError
