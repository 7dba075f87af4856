"""The typed places where tuples enter and leave an operator."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence, Sized
from datetime import datetime
from threading import current_thread, get_ident
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar, overload

import numpy as np
import pyarrow as pa

from ridgeline.api.codec import ColumnCodec, FunctionCodec, StreamCodec
from ridgeline.api.errors import RidgelineError, SchemaError
from ridgeline.api.per_instance import PerInstance
from ridgeline.api.schema import Schema
from ridgeline.api.times import Processing, Times, check_timestamp, joined_times, to_times
from ridgeline.api.tuples import Tuples

if TYPE_CHECKING:
    from ridgeline.api.operator import Operator, Unifier

Key = str | Sequence[str] | Callable[[Any], Any]
Function = TypeVar("Function", bound=Callable[..., Any])
BoundPort = TypeVar("BoundPort", bound="InputPoint | OutputPoint")


class Port(PerInstance, Generic[BoundPort]):
    """What input and output ports share: a schema, and a name that the class body gives.

    A descriptor: one `BoundPort` an instance.
    """

    def __init__(self, schema: Any, *, optional: bool) -> None:
        self.declared = schema
        self.optional = optional

    @property
    def schema(self) -> Schema:
        """The schema of the port's tuples. Raises SchemaError if the declared type cannot be one."""
        cached = self.__dict__.get("_schema")
        if cached is None or cached.type is not self.declared:
            cached = self.__dict__["_schema"] = Schema(self.declared)
        return cached

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __get__(self, instance: None, owner: type) -> Self: ...
        @overload
        def __get__(self, instance: Operator, owner: type) -> BoundPort: ...
        def __get__(self, instance: Operator | None, owner: type) -> Self | BoundPort: ...

    def __set__(self, instance: Operator, value: object) -> None:
        msg = f"`{type(instance).__name__}.{self.name}` is a port; it cannot be assigned"
        raise AttributeError(msg)

    def make(self, instance: Operator) -> BoundPort:
        """The port of one operator instance."""
        raise NotImplementedError


class InputPort(Port["InputPoint"]):
    """Where tuples enter.

    `schema`: NamedTuple, dataclass, `pyarrow.Schema` or `object` (any picklable value).

    `key`: the column, columns or function by which tuples stick to a partition; `codec` instead decides all
    by itself; neither means round robin. `optional`: need not be connected. `parallel`: partitions follow the
    upstream operator's, one to one, without a shuffle.
    """

    def __init__(
        self,
        schema: Any,
        *,
        key: Key | None = None,
        codec: StreamCodec | None = None,
        optional: bool = False,
        parallel: bool = False,
    ) -> None:
        super().__init__(schema, optional=optional)
        self.key = key
        self.declared_codec = codec
        self.parallel = parallel
        self.process_name: str | None = None
        self.process_batch_name: str | None = None

    def process(self, function: Function) -> Function:
        """Decorate the method that takes one tuple at a time; in a subclass too: `@Base.port.process`."""
        return self._register("process_name", function)

    def process_batch(self, function: Function) -> Function:
        """Decorate the method that takes one Arrow batch at a time; the engine prefers it if both are given."""
        return self._register("process_batch_name", function)

    def _register(self, attribute: str, function: Function) -> Function:
        if (
            self.name
        ):  # the class is made already, so this is the body of a subclass; `operator_type` sees to it
            vars(function).setdefault("_processes", []).append((self, attribute))
        else:
            setattr(self, attribute, function.__name__)
        return function

    @property
    def names_columns(self) -> bool:
        """True if the key is a column or several."""
        names = (self.key,) if isinstance(self.key, str) else self.key
        return (
            isinstance(names, (list, tuple)) and bool(names) and all(isinstance(name, str) for name in names)
        )

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The key's columns; empty if there is no key or it is a function."""
        if self.key is None or callable(self.key) or not self.names_columns:
            return ()  # also for what cannot be a key, which is a fault
        return (self.key,) if isinstance(self.key, str) else tuple(self.key)

    @property
    def codec(self) -> StreamCodec | None:
        """What hashes tuples into partitions; None means round robin."""
        if self.declared_codec is not None or self.key is None:
            return self.declared_codec
        return FunctionCodec(self.key) if callable(self.key) else ColumnCodec(self.key_columns)

    def make(self, instance: Operator) -> InputPoint:
        """The input port of one operator instance."""
        return InputPoint(instance, self)


class OutputPort(Port["OutputPoint"]):
    """Where tuples leave.

    `unifier`: the class or instance that merges the outputs of partitions (default: pass through).

    `optional=False`: must be connected; `optional=True`: need not be; None: at least one of the operator's
    outputs must be, unless all are optional. `error`: an error port; its tuples are counted as errors.
    `timestamp`: the column that holds the record's time.
    """

    def __init__(
        self,
        schema: Any,
        *,
        unifier: Unifier | type[Unifier] | None = None,
        optional: bool | None = None,
        error: bool = False,
        timestamp: str | None = None,
    ) -> None:
        super().__init__(schema, optional=bool(optional))
        self.required = optional is False
        self.unifier = unifier
        self.error = error
        self.timestamp = timestamp

    def make(self, instance: Operator) -> OutputPoint:
        """The output port of one operator instance."""
        return OutputPoint(instance, self)


class InputPoint:
    """The input port of one operator instance: what `add_stream` connects."""

    def __init__(self, operator: Operator, port: InputPort) -> None:
        self.operator = operator
        self.port = port
        self.name = port.name

    @property
    def schema(self) -> Schema:
        """The schema of the tuples."""
        return self.operator.port_schema(self.name) or self.port.schema


class OutputPoint:
    """The output port of one operator instance: what `add_stream` connects, and where the operator emits."""

    def __init__(self, operator: Operator, port: OutputPort) -> None:
        self.operator = operator
        self.port = port
        self.name = port.name
        self.connected = True
        self.timed = False
        self.port_schema: Schema | None = None
        self.time_column: str | None = None
        self.thread = get_ident()
        """The thread that runs the operator."""
        self.stray: str | None = None
        """What another thread's emission was refused with."""
        self._clear()

    def _clear(self) -> None:
        self._open = False
        self._rows: list[Any] = []
        self._batches: list[tuple[int, Tuples]] = []
        """Each with the number of single tuples before it."""
        self._processing: Processing | None = None
        self._start = 0
        """The number of the first single tuple emitted while this is processed."""
        self._inherited: list[tuple[int, Times]] = []
        """Times of runs of single tuples, each with its first tuple's number."""
        self._stamped = array("q")
        """Numbers of the tuples that the author gave a time for."""
        self._stamps: list[datetime] = []

    @property
    def schema(self) -> Schema:
        """The schema of the tuples: the plan's where it was resolved, else the declared one."""
        return self.port_schema or self.operator.port_schema(self.name) or self.port.schema

    def emit(self, value: Any, timestamp: datetime | None = None) -> None:
        """Send one tuple downstream. Allowed in `begin_window`, `process`, `emit_tuples` and `end_window`.

        `timestamp`: when it happened, if that is neither in the port's timestamp column nor the time of what
        is being processed; see `ridgeline.api.times`. Without a zone it is UTC. A tuple belongs to the stream
        once emitted: do not change it afterwards. Emit in the thread that calls the callbacks only. Raises
        RidgelineError outside of a window, SchemaError for a `timestamp` that is none.
        """
        if timestamp is not None:
            self._stamp(timestamp)
        if not self._open:
            self._refuse()
        self._rows.append(value)

    def _stamp(self, timestamp: datetime) -> None:
        if not self._open:
            self._refuse()
        check_timestamp(timestamp, self.name)
        if self.timed:
            self._stamped.append(len(self._rows))
            self._stamps.append(timestamp)

    def emit_batch(self, batch: pa.RecordBatch, rows: Any = None) -> None:
        """Send an Arrow batch downstream: columns by name, cast to the port's schema where every value stays equal.

        The port takes the batch's memory over, also that of numpy arrays that Arrow did not copy: do not
        change it afterwards.

        `rows`: while a batch is processed, from which of its rows the tuples came, so that they have these
        rows' times: a boolean mask over the processed batch (Arrow or numpy; null is False) or, for each
        tuple, a position in it (Arrow, numpy or a list). Without it, a batch of as many tuples as the
        processed one is taken to be made from it row by row; tuples of any other have the newest and the
        oldest time of the processed batch. Raises RidgelineError outside of a window, SchemaError for what
        does not fit.
        """
        if not self._open:
            self._refuse()
        if not isinstance(batch, pa.RecordBatch):
            remedy = "for a table, emit each of its batches"
            msg = f"`{self.name}.emit_batch` takes a `pyarrow.RecordBatch`; got a {type(batch).__name__}; {remedy}"
            raise SchemaError(msg)
        if batch.num_rows:
            times: Times | str | None = self.time_column
            if self.inherits and self._processing is not None:
                times = self._processing.of_batch(batch.num_rows, rows, self.name)
            schema = self.schema if self.connected else Schema(batch.schema)
            self._batches.append((len(self._rows), Tuples.of_batch(schema, schema.conform(batch), times)))

    def _refuse(self) -> NoReturn:
        if get_ident() != self.thread:
            remedy = "hand its tuples over, such as in a `queue.Queue` that `emit_tuples` empties"
            self.stray = msg = (
                f"`{self.name}` was emitted to by another thread than the operator's, `{current_thread().name}`; {remedy}"
            )
            raise RidgelineError(msg)
        msg = f"`{self.name}` cannot emit outside of a window; emit in `begin_window`, `process`, `emit_tuples` or `end_window`"
        raise RidgelineError(msg)

    # For the container that runs the operator ----------------------------------------------------------------------

    @property
    def inherits(self) -> bool:
        """True if tuples take the times of what was processed when they were emitted."""
        return self.timed and self.time_column is None

    def open(self) -> None:
        """A callback that may emit is about to run."""
        self.time_column = self.operator.timestamp_of(self.name) if self.timed else None
        self.thread = get_ident()
        self._open = True

    def refuse_strays(self) -> None:
        """Raise RidgelineError if another thread emitted here, also if it was between windows: nobody else hears of its exception."""
        if self.stray is not None:
            raise RidgelineError(self.stray)

    def close(self) -> None:
        """No emission from here on."""
        self._open = False

    def begin(self, processing: Processing) -> Sized:
        """What is emitted until `end` inherits the times of what is processed.

        Returns what grows by one with each `emit` until then.
        """
        self._processing, self._start = processing, len(self._rows)
        return self._rows

    def end(self, lengths: Sequence[int] | None = None) -> None:
        """What `begin` was told has been processed.

        If tuple by tuple, `lengths` says how long what it returned was after each of them; None if each made
        it one longer.
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
        return sum(len(part) for _, part in list(self._batches)) + len(self._rows)

    def drain(self) -> list[Tuples]:
        """What was emitted since the last call, in order.

        Raises SchemaError for the first tuple that does not fit.
        """
        rows, batches, times = self._rows, self._batches, self._row_times()
        stamped, stamps = np.array(self._stamped, np.int64), to_times(self._stamps)
        opened = self._open
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

    def _row_times(self) -> Times | str | None:
        """The times of the tuples that were emitted one by one, as far as the author gave none."""
        if not self.timed or self.time_column is not None:
            return self.time_column
        runs: list[tuple[int, Times | None]] = []
        stop = 0
        for start, times in self._inherited:
            runs += [(start - stop, None), (len(times), times)]
            stop = start + len(times)
        return joined_times([*runs, (len(self._rows) - stop, None)])

    def mark(self) -> tuple[int, int, int]:
        """How much was emitted so far, for `roll_back`."""
        return len(self._rows), len(self._batches), len(self._stamped)

    def roll_back(self, mark: tuple[int, int, int]) -> None:
        """Forget what was emitted since the mark."""
        del self._rows[mark[0] :], self._batches[mark[1] :], self._stamped[mark[2] :], self._stamps[mark[2] :]

    def discard(self) -> None:
        """Forget what was emitted and not drained."""
        self._clear()
