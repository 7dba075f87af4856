"""Read a durable queue that another application writes."""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from typing_extensions import TypeVar

from ridgeline.api.columns.schema import PICKLED, holds_pickles
from ridgeline.api.columns.struct_types import SchemaType
from ridgeline.api.context import Control, OperatorContext
from ridgeline.api.errors import RidgelineError
from ridgeline.api.ports import OutputPort
from ridgeline.api.push_input import PushInput
from ridgeline.api.support.duration import parse_duration
from ridgeline.api.support.emitting import Emits
from ridgeline.api.support.event_time import EventTime
from ridgeline.api.support.files import waiting_for_store
from ridgeline.connect.datasets import AtPath, absolute
from ridgeline.operators._queue_enumerator import Offset, QueueEnumerator
from ridgeline.operators._queue_files import Entry, Part, QueueFolder, folder_of
from ridgeline.operators._queue_log import LogReader
from ridgeline.operators.queue_output import CONTROLS, OBJECTS, QueueTrust, divided_times

T = TypeVar("T", default=Any)
_Result = TypeVar("_Result")


class _Place:
    """Where a partition is in the files. No part of the operator: what that sets in a window ends with it.

    `attempt`: the one that has emitted last.
    """

    def __init__(self, folder: QueueFolder, trust: QueueTrust) -> None:
        self.folder = folder
        self.trust = trust
        self._log = LogReader(folder, 0)
        self.logs: set[str] = set()
        """The files from which the last entries were read."""
        self.attempt: tuple[int, str] | None = None

    def entries(self, first: int, end: int) -> list[Entry]:
        """The entries from `first` up to, and without, `end`.

        Raises RidgelineError if they are not there, FileNotFoundError if the queue is not, OSError.
        """
        if self._log.next != first:
            self._log = LogReader(self.folder, first)
        found: list[Entry] = []
        self.logs = set()
        self._log.hurry()  # they are there, as the driver has read them
        while self._log.next < end:
            if not (more := self._log.read(end - self._log.next)):
                msg = f"queue `{self.folder.path}`: entry {self._log.next} is not there, though the driver "
                msg += "has read it; `path` must be a folder that all hosts share"
                raise RidgelineError(msg) if self.folder.description else FileNotFoundError(msg)
            found += more
            self.logs.add(self._log.file)
        return found


class QueueInput(AtPath, EventTime, PushInput, Emits[T]):
    """Emit the rows of a durable queue (see `QueueOutput`), in order, each exactly once.

    `path` is the queue's folder.

    `schema`: the type of the rows. Without it they have the queue's columns, if the queue has been written
    to. A fresh run begins with the oldest row that is there, with `begin="latest"` after the newest one. Rows
    that were dropped before they were read end the run with an error. With `when_lost="skip"` it continues
    with the oldest ones that are there, and the log says so.

    Where nothing was written yet it is an error at the start; with `when_missing="wait"` the queue is waited
    for.

    Partition `i` of the writer is read by partition `i` modulo their number here. All partitions
    are at the same window of the writer. So tuples of a key stay in order, whatever the numbers of partitions
    are on both sides, and when they change. A window takes whole windows of the writer, as many as are there,
    up to its budget, a million rows or 64 MiB. One with far more rows is read in pieces.

    Rows have the times that they had at the writer, and the watermark is the writer's. `timestamp` names a
    column, a `datetime`, that holds the times instead. `lateness` ("5s", or seconds) promises that no record
    is older by more than the newest before it: watermarks follow from it instead. A partition
    without a record for `idle_after` holds no watermark up. It finishes with the last row once the writer's
    inputs have finished.

    Example:
        >>> import tempfile
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import QueueInput, QueueOutput
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Order(NamedTuple):
        ...     customer: str
        >>> folder = tempfile.TemporaryDirectory()
        >>> app = Application("shop")
        >>> orders = app.add_operator("orders", ListInput(Order, [("Ann",), ("Bob",)]))
        >>> queue = app.add_operator("queue", QueueOutput(path=f"{folder.name}/orders"))
        >>> app.add_stream("orders", orders.output, queue.input)
        >>> run = run_local(app)
        >>> other = Application("mail")
        >>> orders = other.add_operator("orders", QueueInput(path=f"{folder.name}/orders", schema=Order))
        >>> mail = other.add_operator("mail", CollectorSink(Order))
        >>> other.add_stream("orders", orders.output, mail.input)
        >>> run_local(other).collected("mail")
        [Order(customer='Ann'), Order(customer='Bob')]
        >>> folder.cleanup()
    """

    progress_unit = "tuples"
    output = OutputPort[T](Any)

    path: str | Path
    schema: SchemaType[T] | None = None
    begin: Literal["earliest", "latest"] = "earliest"
    when_lost: Literal["fail", "skip"] = "fail"
    when_missing: Literal["fail", "wait"] = "fail"

    def __post_init__(self) -> None:
        """Give the output port its schema: the one that is given, or the queue's."""
        if "path" not in vars(self):
            return
        with contextlib.suppress(RidgelineError):  # a fault says it
            schema: Any = self.schema if self.schema is not None else self._schema_of_queue()
            if schema is not None:
                self.declare_schema("output", schema)

    def _schema_of_queue(self) -> Any:
        """The columns of the rows, or `object`; None if there are none yet.

        Raises RidgelineError for a queue of another format, or a damaged one.
        """
        with contextlib.suppress(OSError, ValueError):
            text = folder_of(absolute(self.path)).description.get("schema")
            if text:
                found = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
                return object if found.equals(PICKLED, check_metadata=True) else found
        return None

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse times that are none, a `path` that is not on a disk, and a queue of unknown columns."""
        faults = super().property_faults()
        rule = "is not known, since nothing was written to the queue yet; give the type of its rows"
        try:
            known = self.schema is not None or self._schema_of_queue() is not None
        except RidgelineError as error:
            known, rule = False, f"is not known: {error}"
        if not known:
            faults.append(("schema", None, rule))
        return faults

    def lateness_of(self, port: str) -> float | None:
        """The `lateness` in seconds; 0 for the watermark of the writer."""
        return 0.0 if self.lateness is None else parse_duration(self.lateness)

    def enumerator(self) -> QueueEnumerator:
        """The part that runs on the driver."""
        return QueueEnumerator(self)

    def setup(self, context: OperatorContext) -> None:
        """Files are opened when rows are read."""
        self._place = _Place(folder_of(str(self.path)), QueueTrust(str(self.path), context.staging))

    def teardown(self) -> None:
        """Close the files."""
        self._place.folder.close()

    def emit_tuples(self) -> None:
        """Emit this partition's share of the entries that the window reads.

        Raises RidgelineError for a damaged file.
        """
        attempt, offsets = (self.context.window_id, self.context.container_attempt), self.context.offsets
        if attempt == self._place.attempt or offsets is None or offsets.end is None:
            return
        self._place.attempt = attempt
        end, start = Offset(**offsets.end), offsets.start
        if self.lateness is None:
            self.context.engine.marks_read = [*end.marks[self.context.partition :: self.context.partitions]]
        if start is not None and (end.next, end.rest) == (start["next"], start["rest"]):
            return
        entries = self._waiting(lambda: self._place.entries(end.first, end.next + (end.rest > 0)))
        controls, wanted = [], {}
        for entry in entries:
            begin = end.skip if entry.number == end.first else 0
            stop = end.rest if entry.number == end.next else entry.rows
            controls += [one for one in entry.controls if (stop == entry.rows if one[0] else begin == 0)]
            for part in entry.parts:
                if part.rows and part.partition % self.context.partitions == self.context.partition:
                    wanted[part] = part.rows * begin // entry.rows, part.rows * stop // entry.rows
        self._pass_on_controls(controls)
        parts = [part for part, (begin, stop) in wanted.items() if begin < stop]
        self._place.folder.expect(parts)
        for part in parts:
            batches = self._waiting(partial(self._place.folder.read, part))
            begin, stop = wanted[part]
            for batch in pa.Table.from_batches(batches).slice(begin, stop - begin).to_batches():
                self._emit(batch, part)
        if end.ended:
            self.finish()

    def _waiting(self, operation: Callable[[], _Result]) -> _Result:
        """Read something of the queue, and wait while its store is away. Raises OSError."""
        return waiting_for_store(operation, self.context.clock, lasting=self._place.folder.lasting)

    def _pass_on_controls(self, controls: Sequence[tuple[bool, str]]) -> None:
        """Send the control tuples on; all partitions do, and each is delivered once."""
        if controls:
            self._place.trust.check(CONTROLS, *self._place.logs)
            origin = ~int.from_bytes(hashlib.blake2b(self.context.name.encode(), digest_size=7).digest())
            for number, (at_end, value) in enumerate(controls):
                self.output.pass_on_control(Control(origin, number, at_end, base64.b64decode(value)))

    def _emit(self, batch: pa.RecordBatch, part: Part) -> None:
        """Emit rows of a segment with their times. Raises UntrustedError for `object`."""
        if holds_pickles(batch):
            self._place.trust.check(OBJECTS, f"segments/{part.segment}")
        rows, times = divided_times(batch)
        if isinstance(times, str) and times not in self.output.schema.arrow.names:
            times = None
        self.output.emit_timed(rows, times)

    def progress(self) -> tuple[float, float | None] | None:
        """Tuples, this partition's share of them."""
        if self.context.offsets is None or self.context.offsets.end is None:
            return None
        end = Offset(**self.context.offsets.end)
        return end.rows / self.context.partitions, end.ahead / self.context.partitions
