"""The base of connectors that write to another system, and their half in the containers."""

from __future__ import annotations

import pyarrow as pa
from pydantic import Field

from ridgeline.api.context import OperatorContext
from ridgeline.connect.output_files import PAYLOAD, ROWS, SegmentStore
from ridgeline.connect.sink import Sink
from ridgeline.connect.sink_publisher import SinkPublisher
from ridgeline.connect.window_output import WindowOutput, safe_name

_SMALL_BYTES = 64 * 2**10
"""Segments of a window that together have at most so many bytes travel in the commit record."""
_SMALL_EACH = 2 * 2**10


class PartitionedOutput(WindowOutput):
    """The base of an output operator that writes the stream to another system.

    Partitions encode rows in parallel (`encode`), and write them as a segment each, which waits in the
    checkpoint. Once the window is committed, a thread of the driver gives the segments to a `Sink`, in the
    order of windows. Nothing of a window is at the other side before its commit: it may be replayed with
    other rows until then.

    An author writes `sink`, which returns the driver's half, and `encode` if rows should be converted in
    parallel. How often a row arrives depends on the sink's `protocol`.

    While the other side is slow or gone, windows run until `max_pending_bytes` wait; then none begins. The
    application says so, tries again, and writes all once it is back. At an orderly end it waits for
    `drain_seconds`; what is not written then is written at the next start.

    With `on_error=SKIP` a row that `encode` refuses is a dead letter. One that the other side refuses is
    written to a file `refused-*.jsonl` beside the segments, and a warning says so.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.connect import Mark, PartitionedOutput, Sink
        >>> from ridgeline.testing import ListInput, run_local
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> store: dict[str, float] = {}
        >>> class StoreSink(Sink):
        ...     protocol, appends = "idempotent", False
        ...
        ...     def write(self, batches, mark: Mark) -> None:
        ...         for batch in batches:
        ...             store.update(row.values() for row in batch.data.to_pylist())
        >>> class StoreOutput(PartitionedOutput):
        ...     def sink(self) -> Sink:
        ...         return StoreSink()
        >>> app = Application("prices")
        >>> prices = app.add_operator("prices", ListInput(Price, [("IBM", 12.3), ("SAP", 101.25)]))
        >>> output = app.add_operator("store", StoreOutput())
        >>> app.add_stream("prices", prices.output, output.input)
        >>> run = run_local(app)
        >>> store
        {'IBM': 12.3, 'SAP': 101.25}
    """

    max_pending_bytes: int = Field(default=256 * 2**20, gt=0, kw_only=True)
    drain_seconds: float = Field(default=30.0, ge=0, kw_only=True)

    def sink(self) -> Sink:
        """Make the driver's half. Called on the driver; must not connect yet."""
        raise NotImplementedError

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch | bytes:
        """Convert the rows of a batch (at least one) to what the sink writes; as they are by default.

        Called in the containers, so it runs in parallel. Raises an error that names row and remedy for rows
        that cannot be written; with `on_error=SKIP` it is called again row by row then.
        """
        return batch

    def setup(self, context: OperatorContext) -> None:
        """Resolve the staging folder. A subclass that overrides it calls it first.

        Raises RidgelineError if the folder cannot be reached.
        """
        self._store = SegmentStore(context.staging, context.run_id)
        self._schemas: list[pa.Schema] = []

    def take(self, batch: pa.RecordBatch) -> None:
        """Encode rows, and keep them until the window ends.

        Raises RidgelineError for a stream of `object`, which has no columns; what `encode` raises.
        """
        self.refuse_objects(batch)
        if not batch.num_rows:
            return
        encoded = self.encode(batch)
        if isinstance(encoded, bytes):
            columns = [pa.array([encoded], pa.large_binary()), pa.array([batch.num_rows], pa.int64())]
            encoded = pa.RecordBatch.from_arrays(columns, [PAYLOAD, ROWS])
        if encoded.num_rows:
            metadata = {b"rows": batch.schema.serialize().to_pybytes()}
            self.waiting.append(encoded.replace_schema_metadata(metadata))

    def end_window(self) -> None:
        """Write the window's rows as a segment, if there are any, and hand its description over.

        Raises RidgelineError if the file system refuses; then nothing of the segment is left.
        """
        if not self.waiting:
            return
        batches = list(self.waiting)
        del self.waiting[:]
        schema = pa.ipc.read_schema(pa.py_buffer(batches[0].schema.metadata[b"rows"]))
        table = pa.Table.from_batches([batch.replace_schema_metadata(None) for batch in batches])
        rows = sum(table.column(ROWS).to_pylist()) if table.column_names == [PAYLOAD, ROWS] else len(table)
        name = f"{safe_name(self.context.name)}/{self.file_stem}.segment"
        small = max(_SMALL_EACH, _SMALL_BYTES // self.context.partitions)
        written = self.until_there(
            lambda: self._store.write(name, table, schema, small), self.context.staging
        )
        self.context.hand_over((self.context.partition, name, rows, *written))

    def publisher(self) -> SinkPublisher:
        """The part that runs on the driver."""
        return SinkPublisher(self.sink(), self.max_pending_bytes, self.drain_seconds)
