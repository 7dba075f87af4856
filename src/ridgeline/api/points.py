"""The ports of one operator instance: `add_stream` connects them; the operator emits on its outputs."""

from __future__ import annotations

from array import array
from collections.abc import Sequence, Sized
from datetime import datetime
from threading import current_thread, get_ident
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import TypeVar

from ridgeline.api.columns.dataframes import ArrowStream, table_of
from ridgeline.api.columns.nulls import MisplacedNullError, refuse_nulls
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.context import Control
from ridgeline.api.errors import RidgelineError, SchemaError
from ridgeline.api.times import Processing, Times, check_timestamp, joined_times, to_times

if TYPE_CHECKING:
    from ridgeline.api.operator import Operator
    from ridgeline.api.ports import OutputPort

T = TypeVar("T", default=Any)
T_contra = TypeVar("T_contra", contravariant=True, default=Any)
Rows: TypeAlias = "Sequence[int] | npt.NDArray[Any] | pa.Array[Any]"
"""Rows of a batch: a mask or positions."""


class _Point:
    """A port of one operator instance. `port_schema`, for the engine: the schema that the plan resolved."""

    def __init__(self, operator: Operator, port: Any) -> None:
        self.operator = operator
        self.port = port
        self.name = port.name
        self.port_schema: Schema | None = None

    @property
    def schema(self) -> Schema:
        """The schema of the tuples: the one that the plan resolved, else the declared one."""
        return self.port_schema or self.port.schema_of(self.operator) or self.port.schema


class InputPoint(_Point, Generic[T_contra]):
    """An input port of one operator instance, `check.payments`: a sink for `add_stream`.

    It is contravariant in its element type: a port of `object` may read a stream of payments.

    Example:
        >>> from ridgeline import InputPort, Operator
        >>> class Check(Operator):
        ...     payments = InputPort(object)
        >>> Check().payments.name, Check().payments.schema.describe()
        ('payments', 'object')
    """


class OutputPoint(_Point, Generic[T]):
    """An output port of one operator instance, `check.valid`: a source for `add_stream`.

    The operator emits tuples on it, by `emit` and `emit_batch`.

    Example:
        >>> import pyarrow as pa
        >>> from ridgeline import Application, InputOperator, OutputPort
        >>> from ridgeline.testing import CollectorSink, run_local
        >>> NUMBERS = pa.schema([("number", pa.int64())])
        >>> class Numbers(InputOperator):
        ...     numbers = OutputPort(NUMBERS)
        ...
        ...     def emit_tuples(self) -> None:
        ...         self.numbers.emit({"number": 1})
        ...         self.numbers.emit_batch(pa.table({"number": [2, 3]}))
        ...         self.finish()
        >>> app = Application("numbers")
        >>> source = app.add_operator("source", Numbers())
        >>> sink = app.add_operator("sink", CollectorSink(NUMBERS))
        >>> app.add_stream("numbers", source.numbers, sink.input)
        >>> run_local(app).collected("sink")
        [{'number': 1}, {'number': 2}, {'number': 3}]

    For the engine: `connected`: a stream reads it. `timed`: the times of its tuples are needed.
    `time_column`: the column with the tuples' times.
    `thread`: the thread that runs the operator. `stray`: the text of the error that refused an emission by
    another thread.
    """

    def __init__(self, operator: Operator, port: OutputPort[T]) -> None:
        super().__init__(operator, port)
        self.connected = True
        self.timed = False
        self.time_column: str | None = None
        self.thread = get_ident()
        self.stray: str | None = None
        self.controls: list[tuple[bool, object] | Control] = []
        self._clear()

    def _clear(self) -> None:
        """Drop everything that was emitted. Emission is closed until `open`.

        `_batches`: each with the number of single tuples before it. `_in_batches`: how many tuples they have.
        `_start`: the index of the first single tuple emitted while `_processing` is processed.
        `_inherited`: times of ranges of single tuples, each with the index of its first one. `_stamped`: the
        indices of the tuples with a `timestamp`, which is in `_stamps`.
        """
        self._open = False
        self._rows: list[T] = []
        self._batches: list[tuple[int, Tuples]] = []
        self._in_batches = 0
        self._processing: Processing | None = None
        self._start = 0
        self._inherited: list[tuple[int, Times]] = []
        self._stamped = array("q")
        self._stamps: list[datetime] = []

    def emit(self, value: T, timestamp: datetime | None = None) -> None:
        """Send one tuple downstream. Allowed in `begin_window`, `process`, `emit_tuples` and `end_window`.

        `timestamp`: when it happened; UTC if it has no zone. Default: the port's timestamp column, else the
        time of the tuple that is being processed (see `ridgeline.api.times`).

        A tuple belongs to the stream once emitted: do not change it afterwards. Emit only in the thread that
        calls the callbacks. Raises RidgelineError outside of a window, SchemaError for a `timestamp` that is
        no time.
        """
        if timestamp is not None:
            self._stamp(timestamp)
        if not self._open:
            self._refuse()
        self._rows.append(value)

    def emit_control(self, value: object, *, at_end: bool = False) -> None:
        """Send a control tuple, any picklable value, to all partitions of all operators downstream.

        Each operator gets it once a port, by the method that `InputPort.control` decorates. It gets it before
        the window's tuples; with `at_end` after them, before `end_window`. Raises RidgelineError outside of a
        window.
        """
        if not self._open:
            self._refuse()
        self.controls.append((at_end, value))

    def pass_on_control(self, control: Control) -> None:
        """Send a control tuple of another operator on, as `emit_control`; for inputs of the library.

        Partitions that send the same one deliver it once.
        """
        if not self._open:
            self._refuse()
        self.controls.append(control)

    def _stamp(self, timestamp: datetime) -> None:
        if not self._open:
            self._refuse()
        check_timestamp(timestamp, self.name)
        # times that no operator downstream needs are checked, but not kept
        if self.timed:
            self._stamped.append(len(self._rows))
            self._stamps.append(timestamp)

    def emit_batch(self, batch: pa.RecordBatch | ArrowStream, rows: Rows | None = None) -> None:
        """Send many tuples downstream: an Arrow batch or table, or a DataFrame of pandas or polars.

        Columns are taken by name and cast to the port's schema where every value stays equal. The index of a
        pandas DataFrame is a column if it has a name. A null is refused where the port's type does not allow
        None. A NaN in a column of floats stays NaN, also that of pandas, which marks missing values by it.

        The port takes over the memory, also that of numpy arrays that Arrow did not copy: do not change it
        afterwards.

        `rows`: while a batch is processed, the rows of it from which the tuples came. The tuples get these
        rows' times. Either a boolean mask over the processed batch (Arrow or numpy; null is False), or one
        position for each tuple (Arrow, numpy or a list). Without `rows`, a batch that is as long as the
        processed one inherits its times row by row. Tuples of any other batch have the newest and the oldest
        time of the processed batch.

        Raises RidgelineError outside of a window, SchemaError for what does not fit.
        """
        if not self._open:
            self._refuse()
        if not isinstance(batch, pa.RecordBatch):
            self._emit_table(table_of(batch, self.name, self.schema), rows)
        elif batch.num_rows:
            self._append(batch, self._times_of(batch.num_rows, rows))

    def _emit_table(self, table: pa.Table, rows: Rows | None) -> None:
        """Emit a table as one batch; as several only if a column is too long for one."""
        parts = [part for part in table.combine_chunks().to_batches() if part.num_rows]
        if len(parts) == 1:
            self.emit_batch(parts[0], rows)
            return
        times = self._times_of(table.num_rows, rows) if parts else None
        start = 0
        for part in parts:
            own = slice(start, start + part.num_rows)
            self._append(part, times.take(own) if isinstance(times, Times) else times)
            start = own.stop

    def _times_of(self, count: int, rows: Rows | None) -> Times | str | None:
        """The times of `count` tuples that are emitted as batches now."""
        if self.inherits and self._processing is not None:
            return self._processing.of_batch(count, rows, self.name)
        return self.time_column

    def emit_timed(self, batch: pa.RecordBatch, times: Times | str | None) -> None:
        """Send a batch whose tuples bring their times along: as such, or as the name of a column.

        For inputs of the library. The column of `timestamp_of` wins. Raises as `emit_batch`.
        """
        if not self._open:
            self._refuse()
        if batch.num_rows:
            self._append(batch, self.time_column or (times if self.timed else None))

    def pass_on(self, tuples: Tuples) -> None:
        """Send on what came, as it is; for unifiers of the platform, and `PendingTuples` of steps.

        Raises as `emit_batch`.
        """
        if not self._open:
            self._refuse()
        self._batches.append((len(self._rows), tuples))
        self._in_batches += len(tuples)

    def conformed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch in the schema of the port. Raises SchemaError as `emit_batch`."""
        if not self.connected:
            return batch  # no stream reads the port: a conversion would cost time for nothing
        schema = self.schema
        batch = schema.conform(batch)
        self._refuse_nulls(schema, batch)
        return batch

    def _append(self, batch: pa.RecordBatch, times: Times | str | None) -> None:
        batch = self.conformed(batch)
        schema = self.schema if self.connected else Schema(batch.schema)
        self._batches.append((len(self._rows), Tuples.of_batch(schema, batch, times)))
        self._in_batches += batch.num_rows

    def _refuse_nulls(self, schema: Schema, batch: pa.RecordBatch) -> None:
        """Raise SchemaError for a null that the port's type does not allow."""
        try:
            refuse_nulls(schema, batch)
        except MisplacedNullError as error:
            what = f"column `{error.field}` of a batch emitted on `{self.name}` is null in row {error.row}"
            raise SchemaError(
                f"{what}; `{schema.name}` does not allow that; fill it in, or {error.remedy}"
            ) from None

    def _refuse(self) -> NoReturn:
        if get_ident() != self.thread:
            remedy = "hand its tuples over, such as in a `queue.Queue` that `emit_tuples` empties"
            what = f"was emitted to by another thread than the operator's, `{current_thread().name}`"
            self.stray = msg = f"`{self.name}` {what}; {remedy}"
            raise RidgelineError(msg)
        remedy = "emit in `begin_window`, `process`, `emit_tuples` or `end_window`"
        msg = f"`{self.name}` cannot emit outside of a window; {remedy}"
        raise RidgelineError(msg)

    # For the container that runs the operator ---------------------------------------------------------------

    @property
    def inherits(self) -> bool:
        """True if tuples inherit the times of the tuples being processed."""
        return self.timed and self.time_column is None

    def open(self) -> None:
        """Allow emission: a callback that may emit is about to run."""
        self.time_column = self.operator.timestamp_of(self.name) if self.timed else None
        # a container may run each window in another thread of its slot
        self.thread = get_ident()
        self._open = True

    def refuse_strays(self) -> None:
        """Raise RidgelineError if another thread tried to emit: the exception in that thread may be lost."""
        if self.stray is not None:
            raise RidgelineError(self.stray)

    def close(self) -> None:
        """Refuse emission until `open`."""
        self._open = False

    def begin(self, processing: Processing) -> Sized:
        """Begin to process: tuples emitted until `end` inherit the times of `processing`.

        Returns the output buffer, which grows by one with each `emit`.
        """
        self._processing, self._start = processing, len(self._rows)
        return self._rows

    def end(self, lengths: Sequence[int] | None = None) -> None:
        """Finish the batch passed to `begin`.

        `lengths[i]`: size of the output buffer after input row `i`; None: exactly one output per row.
        """
        processing, start, count = self._processing, self._start, len(self._rows) - self._start
        self._processing = None
        if processing is None or not count:
            return
        if processing.remaining is None:
            times = processing.of_all(count)
        else:
            times = processing.of_tuples(None if lengths is None else np.diff(lengths, prepend=start))
        if times is not None:
            self._inherited.append((start, times))

    @property
    def pending(self) -> int:
        """How many tuples were emitted since the last `drain`. May be read from any thread."""
        return self._in_batches + len(self._rows)

    def take(self) -> list[Tuples]:
        """Return the batches emitted so far, in order, and drop them; nothing once a tuple was emitted alone.

        They stay in `pending`. `drain` returns the same sequences of tuples if it gets all.
        """
        if self._rows:
            return []
        found = [batch for _, batch in self._batches]
        self._batches.clear()
        return found

    def drain(self) -> list[Tuples]:
        """Return what was emitted since the last call, in order, and drop it.

        Raises SchemaError for the first tuple that does not fit.
        """
        if not self._rows:
            found = [batch for _, batch in self._batches]
            self._batches.clear()
            self._inherited.clear()
            return found
        rows, batches, times = self._rows, self._batches, self._row_times()
        stamped, stamps = np.array(self._stamped, np.int64), to_times(self._stamps)
        opened = self._open
        # `_clear` closes the port, which only `close` should
        self._clear()
        self._open = opened
        schema = self.schema if self.connected else Schema(object)
        parts: list[Tuples] = []
        start = 0
        for stop, batch in [*batches, (len(rows), None)]:
            if stop > start:
                piece = rows[start:stop] if batches else rows
                part = Tuples.of_rows(
                    schema, piece, times.take(slice(start, stop)) if isinstance(times, Times) else times
                )
                mine = slice(*np.searchsorted(stamped, (start, stop)))
                parts.append(
                    part.restamped(stamped[mine] - start, stamps[mine]) if mine.start < mine.stop else part
                )
            if batch is not None:
                parts.append(batch)
            start = stop
        return parts

    def hold(self, keep: int) -> list[Tuples]:
        """Keep the first `keep` of what was emitted, as if no more had been; returns the others, in order.

        Raises as `drain`.
        """
        parts, rest = self.drain(), []
        self._in_batches = 0
        for part in parts:
            room = max(0, keep - self.pending)
            if room:
                self.pass_on(part.slice(0, room) if room < len(part) else part)
            if room < len(part):
                rest.append(part.slice(room, len(part)))
        return rest

    def _row_times(self) -> Times | str | None:
        """The times of the tuples emitted one by one, before those given as `timestamp` are put in."""
        if not self.timed or self.time_column is not None:
            return self.time_column
        runs: list[tuple[int, Times | None]] = []
        stop = 0
        for start, times in self._inherited:
            runs += [(start - stop, None), (len(times), times)]
            stop = start + len(times)
        return joined_times([*runs, (len(self._rows) - stop, None)])

    def mark(self) -> tuple[int, int, int, int]:
        """A mark of what was emitted so far, for `roll_back`."""
        return len(self._rows), len(self._batches), len(self._stamped), len(self.controls)

    def roll_back(self, mark: tuple[int, int, int, int]) -> None:
        """Drop what was emitted since the mark."""
        del self.controls[mark[3] :]
        del self._rows[mark[0] :], self._batches[mark[1] :], self._stamped[mark[2] :], self._stamps[mark[2] :]
        self._in_batches = sum(len(part) for _, part in self._batches)

    def discard(self) -> None:
        """Drop what was emitted and not drained."""
        self.controls = []
        self._clear()
