"""The typed places where tuples enter and leave an operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

import pyarrow as pa

from ridgeline.api.codec import ColumnCodec, FunctionCodec, StreamCodec
from ridgeline.api.errors import RidgelineError, SchemaError
from ridgeline.api.schema import Schema
from ridgeline.api.tuples import Tuples

if TYPE_CHECKING:
    from ridgeline.api.operator import Operator, Unifier

Key = str | Sequence[str] | Callable[[Any], Any]
Function = TypeVar("Function", bound=Callable[..., Any])
BoundPort = TypeVar("BoundPort", bound="InputPoint | OutputPoint")


class Port(Generic[BoundPort]):
    """What input and output ports share: a schema, and a name that the class body gives. A descriptor: one `BoundPort` an instance."""

    def __init__(self, schema: Any, *, optional: bool) -> None:
        self.declared = schema
        self.optional = optional
        self.name = ""

    @property
    def schema(self) -> Schema:
        """The schema of the port's tuples. Raises SchemaError if the declared type cannot be one."""
        cached = self.__dict__.get("_schema")
        if cached is None or cached.type is not self.declared:
            cached = self.__dict__["_schema"] = Schema(self.declared)
        return cached

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: Operator, owner: type) -> BoundPort: ...
    def __get__(self, instance: Operator | None, owner: type) -> Self | BoundPort:
        if instance is None:
            return self
        points: dict[str, BoundPort] = instance.__dict__.setdefault("_points", {})
        if self.name not in points:
            points[self.name] = self.bind(instance)
        return points[self.name]

    def __set__(self, instance: Operator, value: object) -> None:
        msg = f"`{type(instance).__name__}.{self.name}` is a port; it cannot be assigned"
        raise AttributeError(msg)

    def bind(self, operator: Operator) -> BoundPort:
        """The port of one operator instance."""
        raise NotImplementedError


class InputPort(Port["InputPoint"]):
    """Where tuples enter. `schema`: NamedTuple, dataclass, `pyarrow.Schema` or `object` (any picklable value).

    `key`: the column, columns or function by which tuples stick to a partition; `codec` instead decides all by itself; neither means
    round robin. `optional`: need not be connected. `parallel`: partitions follow the upstream operator's, one to one, without a shuffle.
    """

    def __init__(
        self, schema: Any, *, key: Key | None = None, codec: StreamCodec | None = None, optional: bool = False, parallel: bool = False
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
        if self.name:  # the class is made already, so this is the body of a subclass; `operator_type` sees to it
            vars(function).setdefault("_processes", []).append((self, attribute))
        else:
            setattr(self, attribute, function.__name__)
        return function

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The key's columns; empty if there is no key or it is a function."""
        if self.key is None or callable(self.key):
            return ()
        return (self.key,) if isinstance(self.key, str) else tuple(self.key)

    @property
    def codec(self) -> StreamCodec | None:
        """What hashes tuples into partitions; None means round robin."""
        if self.declared_codec is not None or self.key is None:
            return self.declared_codec
        return FunctionCodec(self.key) if callable(self.key) else ColumnCodec(self.key_columns)

    def bind(self, operator: Operator) -> InputPoint:
        """The input port of one operator instance."""
        return InputPoint(operator, self)


class OutputPort(Port["OutputPoint"]):
    """Where tuples leave. `unifier`: the class or instance that merges the outputs of partitions (default: pass through).

    `optional=False`: must be connected; `optional=True`: need not be; None: at least one of the operator's outputs must be, unless
    all are optional. `error`: an error port; its tuples are counted as errors. `timestamp`: the column that holds the record's time.
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

    def bind(self, operator: Operator) -> OutputPoint:
        """The output port of one operator instance."""
        return OutputPoint(operator, self)


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
        self.port_schema: Schema | None = None
        self._open = False
        self._rows: list[Any] = []
        self._parts: list[Tuples] = []

    @property
    def schema(self) -> Schema:
        """The schema of the tuples: the plan's where it was resolved, else the declared one."""
        return self.port_schema or self.operator.port_schema(self.name) or self.port.schema

    def emit(self, value: Any, timestamp: datetime | None = None) -> None:
        """Send one tuple downstream. Allowed in `begin_window`, `process`, `emit_tuples` and `end_window`.

        A tuple belongs to the stream once emitted: do not change it afterwards. Raises RidgelineError outside of a window.
        """
        if timestamp is not None:
            remedy = 'declare `OutputPort(..., timestamp="column")`'
            msg = f"`{self.name}.emit(timestamp=...)`: records do not carry times of their own yet; {remedy}"
            raise NotImplementedError(msg)
        if not self._open:
            self._refuse()
        self._rows.append(value)

    def emit_batch(self, batch: pa.RecordBatch) -> None:
        """Send an Arrow batch downstream: columns by name, cast to the port's schema where that loses nothing. Raises SchemaError."""
        if not self._open:
            self._refuse()
        if not isinstance(batch, pa.RecordBatch):
            remedy = "for a table, emit each of its batches"
            msg = f"`{self.name}.emit_batch` takes a `pyarrow.RecordBatch`; got a {type(batch).__name__}; {remedy}"
            raise SchemaError(msg)
        if batch.num_rows:
            self._flush()
            schema = self.schema if self.connected else Schema(batch.schema)
            self._parts.append(Tuples.of_batch(schema, schema.conform(batch)))

    def _flush(self) -> None:
        if self._rows:
            rows, self._rows = self._rows, []
            self._parts.append(Tuples.of_rows(self.schema if self.connected else Schema(object), rows))

    def _refuse(self) -> None:
        msg = f"`{self.name}` cannot emit outside of a window; emit in `begin_window`, `process`, `emit_tuples` or `end_window`"
        raise RidgelineError(msg)

    # For the container that runs the operator ----------------------------------------------------------------------

    def open(self) -> None:
        """A callback that may emit is about to run."""
        self._open = True

    def close(self) -> None:
        """No emission from here on."""
        self._open = False

    @property
    def pending(self) -> int:
        """How many tuples were emitted since the last `drain`. May be read from any thread."""
        return sum(map(len, list(self._parts))) + len(self._rows)

    def drain(self) -> list[Tuples]:
        """What was emitted since the last call, in order. Raises SchemaError for the first tuple that does not fit."""
        self._flush()
        parts, self._parts = self._parts, []
        return parts

    def discard(self) -> None:
        """Forget what was emitted and not drained."""
        self._rows, self._parts, self._open = [], [], False
