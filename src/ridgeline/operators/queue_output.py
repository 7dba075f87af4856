"""Write a stream into a durable queue."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field

from ridgeline.api.columns.schema import holds_pickles
from ridgeline.api.context import Control, OperatorContext
from ridgeline.api.ports import InputPort
from ridgeline.api.support.duration import Duration
from ridgeline.connect.datasets import AtPath
from ridgeline.connect.window_output import WindowOutput
from ridgeline.operators._queue_files import folder_of
from ridgeline.operators._queue_publisher import QueuePublisher, Written
from ridgeline.operators._queue_rows import CONTROLS, OBJECTS, QueueTrust, plain_schema, united, with_times


class QueueOutput(AtPath, WindowOutput):
    """Write the stream into a durable queue, from which other applications read it, each exactly once.

    `path` is a folder of the queue's own, on a disk that all hosts share, on an object store or HDFS
    (`s3a://...`, `hdfs://...`). A relative one is below the folder in which the command runs. `QueueInput`
    of another application reads it, at its own pace, window by window once they are committed here. A reader
    that is slow, that fails or is stopped does not hold this application up until the queue is full.

    Rows stay for `keep` (seconds, or "1h") and up to `keep_bytes`, whether they were read or not. Beyond
    that they are dropped, if all readers have read them. If one has not, `when_full` decides. `wait` lets no
    window begin until it has: back pressure, of which a line of the log says the reason. `drop` drops them.
    A reader is known from its first start on. Remove its file from the folder `readers` if it is gone for
    good.

    It has the partitions of the operator upstream, each with a segment of its own. So the tuples of each
    partition stay in order, and with them those of a key by which that operator is partitioned.

    Record times, watermarks and control tuples go with the rows. Control tuples and streams of `object` are
    refused if others can write to the folder: readers would run it as code.

    `readers`: those that are known before their first start, as `APPLICATION.OPERATOR`; rows wait for them.
    Other readers of the same application are forgotten.

    A run on a fresh checkpoint appends to the rows in the queue. One application writes at a time.

    Example:
        >>> import tempfile
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import QueueInput, QueueOutput
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> folder = tempfile.TemporaryDirectory()
        >>> app = Application("exchange")
        >>> prices = app.add_operator("prices", ListInput(Price, [("IBM", 12.3), ("SAP", 101.25)]))
        >>> queue = app.add_operator("queue", QueueOutput(path=f"{folder.name}/prices"))
        >>> app.add_stream("prices", prices.output, queue.input)
        >>> run = run_local(app)
        >>> other = Application("board")
        >>> prices = other.add_operator("prices", QueueInput(path=f"{folder.name}/prices", schema=Price))
        >>> board = other.add_operator("board", CollectorSink(Price))
        >>> other.add_stream("prices", prices.output, board.input)
        >>> run_local(other).collected("board")
        [Price(symbol='IBM', price=12.3), Price(symbol='SAP', price=101.25)]
        >>> folder.cleanup()
    """

    input = InputPort(Any, parallel=True)

    path: str | Path
    keep: Duration = "1h"
    keep_bytes: int = Field(default=2**30, gt=0)
    when_full: Literal["wait", "drop"] = "wait"
    readers: tuple[str, ...] = ()

    @input.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Keep the rows until the window ends.

        Raises UntrustedError for a stream of `object` where others can write.
        """
        if holds_pickles(batch):
            self._trust.check(OBJECTS)
        if batch.num_rows:
            self.waiting.append(with_times(batch, self.context.engine.batch))

    def _take_control(self, control: Control) -> None:
        self._trust.check(CONTROLS)
        self._hand_over(control=control)

    def setup(self, context: OperatorContext) -> None:
        """A segment is opened when there are rows."""
        folder = folder_of(str(self.path))
        self._segment, self._lasting = folder.segment_writer(context.partition), folder.lasting
        self._trust = QueueTrust(str(self.path), context.staging)
        context.engine.on_control = self._take_control

    def teardown(self) -> None:
        """Close the segment."""
        self._segment.close()

    def end_window(self) -> None:
        """Append the window's rows to a segment, and hand their place and the watermark over.

        Raises RidgelineError if the file system refuses. A store that is away, or a full disk, is waited for.
        """
        part, schema = None, ""
        if self.waiting:
            batches = united(list(self.waiting))
            del self.waiting[:]
            part = self.until_there(lambda: self._segment.write(batches), self.path, self._lasting)
            schema = base64.b64encode(plain_schema(batches[0]).serialize()).decode()
        if part is not None or self.context.engine.mark is not None:
            self._hand_over(part=part, schema=schema)

    def _hand_over(self, **values: Any) -> None:
        place = self.context.partition, self.context.partitions
        self.context.hand_over(Written(place, mark=self.context.engine.mark, **values))

    def end_of_input(self) -> None:
        """Readers finish once they have read all."""
        self._hand_over(ended=True)

    def publisher(self) -> QueuePublisher:
        """The part that runs on the driver."""
        return QueuePublisher(self)
