"""The typed places where tuples enter and leave an operator."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    NoReturn,
    Self,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

import typing_extensions

from ridgeline.api.cells.per_instance import PerInstance
from ridgeline.api.codec import ColumnCodec, FunctionCodec, StreamCodec
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.struct_types import ArrowSchema, Struct
from ridgeline.api.points import InputPoint, OutputPoint
from ridgeline.api.support.duration import parse_duration
from ridgeline.api.support.handlers import mark

if TYPE_CHECKING:
    import pyarrow as pa

    from ridgeline.api.module import InputProxy, Module, OutputProxy
    from ridgeline.api.operator import Operator, Unifier

T = typing_extensions.TypeVar("T", default=Any)
Op = TypeVar("Op")
Key = str | Sequence[str] | Callable[[Any], object]
"""The key of an input port: a column, columns, or a function of a tuple."""
OrderName: TypeAlias = Literal["KEPT", "BY_TIME"]


class Order(enum.StrEnum):
    """The order within a key that an input port needs: `InputPort(Price, key="symbol", order=Order.KEPT)`.

    KEPT: a key's tuples come in the order in which the source emitted them. A plan that may lose this order
    is refused. BY_TIME: the tuples of each streaming window come in the order of their times, whatever way
    they took. Tuples with the same time keep the order in which they came.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import InputPort, Operator, Order
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> class LastPrice(Operator):
        ...     prices = InputPort(Price, key="symbol", order=Order.BY_TIME)
    """

    KEPT = "KEPT"
    BY_TIME = "BY_TIME"


class Port(PerInstance):
    """The base of input and output ports: a schema, and a name that the class body gives.

    A descriptor: each operator instance has one `InputPoint` or `OutputPoint` for it.
    """

    def __init__(self, schema: object, *, optional: bool) -> None:
        self.declared = schema
        self.optional = optional

    @property
    def schema(self) -> Schema:
        """The schema of the port's tuples. Raises SchemaError if the declared type cannot be one."""
        cached = self.__dict__.get("_schema")
        if cached is None or cached.type is not self.declared:
            cached = self.__dict__["_schema"] = Schema(self.declared)
        return cached

    def schema_of(self, operator: Operator) -> Schema | None:
        """The schema of the port of one operator; None if it takes any stream. Raises SchemaError."""
        declared = vars(operator).get("_schemas", {}).get(self.name, self.declared)
        if declared is Any:
            return None
        return self.schema if declared is self.declared else Schema(declared)

    def __set__(self, instance: Operator, value: object) -> NoReturn:
        raise AttributeError(f"`{type(instance).__name__}.{self.name}` is a port; it cannot be assigned")


class _OfInput(TypedDict, total=False):
    key: Key | None
    codec: StreamCodec | None
    optional: bool
    parallel: bool
    order: Order | OrderName | None


class InputPort(Port, Generic[T]):
    """Where tuples of type `T` enter an operator: `payments = InputPort(Payment)`.

    `schema`: a NamedTuple, a dataclass, a `pyarrow.Schema` (tuples are dictionaries) or `object` (any
    picklable value; `InputPort[Event](object)` says which). `key`: the column, columns or function by which
    tuples stick to a partition; without, they go round robin. `codec`: hashes tuples into partitions instead
    of `key`, serialises them, or both, see `StreamCodec`. `optional`: need not be connected. `parallel`:
    partitions follow the upstream operator's, one to one, without a shuffle. `order`: results depend on the
    order of a key's tuples, see `Order`.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import InputPort, Operator
        >>> class Payment(NamedTuple):
        ...     account: int
        ...     cents: int
        >>> class Check(Operator):
        ...     payments = InputPort(Payment, key="account")
        ...
        ...     @payments.process
        ...     def check(self, payment: Payment) -> None:
        ...         assert payment.cents >= 0
        >>> Check().payments.schema.describe()
        'Payment(account: int64, cents: int64)'
    """

    @overload
    def __init__(
        self: InputPort[dict[str, Any]], schema: ArrowSchema, **options: Unpack[_OfInput]
    ) -> None: ...
    @overload
    def __init__(self: InputPort[Struct], schema: type[Struct], **options: Unpack[_OfInput]) -> None: ...
    @overload
    def __init__(self, schema: object, **options: Unpack[_OfInput]) -> None: ...
    def __init__(
        self,
        schema: object,
        *,
        key: Key | None = None,
        codec: StreamCodec | None = None,
        optional: bool = False,
        parallel: bool = False,
        order: Order | OrderName | None = None,
    ) -> None:
        super().__init__(schema, optional=optional)
        self.key = key
        self.declared_codec = codec
        self.parallel = parallel
        self.order = order
        self.process_name: str | None = None
        self.process_batch_name: str | None = None
        self.control_name: str | None = None
        self.controls = False
        """Whether its class body decorates a method for control tuples, also if that cannot be found."""
        self.doubled: tuple[str, ...] = ()
        """Methods in the place of which another one is called."""

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __get__(self, instance: None, owner: type) -> Self: ...
        @overload
        def __get__(self, instance: Operator, owner: type) -> InputPoint[T]: ...
        @overload
        def __get__(self, instance: Module, owner: type) -> InputProxy[T]: ...
        def __get__(
            self, instance: Operator | Module | None, owner: type
        ) -> Self | InputPoint[T] | InputProxy[T]: ...

    def process(self, function: Callable[[Op, T], None]) -> Callable[[Op, T], None]:
        """Decorate the method that takes one tuple at a time; in a subclass too: `@Base.port.process`."""
        mark(self, "process_name", function)
        return function

    def process_batch(
        self, function: Callable[[Op, pa.RecordBatch], None]
    ) -> Callable[[Op, pa.RecordBatch], None]:
        """Decorate the method that takes one Arrow batch at a time; preferred to `process` if both exist."""
        mark(self, "process_batch_name", function)
        return function

    def control(self, function: Callable[[Op, Any], object]) -> Callable[[Op, Any], object]:
        """Decorate the method that takes control tuples: see `OutputPoint.emit_control`.

        They are forwarded to all output ports. If it returns True they do not: the operator emits its own
        instead.
        """
        self.controls = self.controls or not self.name  # it has its name once the class body is over
        mark(self, "control_name", function)
        return function

    @property
    def methods(self) -> list[str]:
        """The methods that take what comes at the port."""
        names = (self.process_name, self.process_batch_name, self.control_name)
        return [name for name in names if name is not None]

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The key's columns; empty if there is no key or it is a function, or what cannot be a key."""
        names = (self.key,) if isinstance(self.key, str) else self.key
        if isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names):
            return tuple(names)
        return ()

    @property
    def codec(self) -> StreamCodec | None:
        """The codec that hashes tuples into partitions; None means round robin."""
        declared = self.declared_codec
        if declared is not None and declared.divides:
            return declared
        if self.key is None:
            return None
        return FunctionCodec(self.key) if callable(self.key) else ColumnCodec(self.key_columns)

    @property
    def serialiser(self) -> StreamCodec | None:
        """The codec that serialises tuples on their way to the port; None: Arrow, or the application's."""
        declared = self.declared_codec
        return declared if declared is not None and declared.serialises else None

    def make(self, instance: Operator) -> InputPoint[T]:
        """The input port of one operator instance."""
        return InputPoint(instance, self)


class _OfOutput(TypedDict, total=False):
    unifier: Unifier | type[Unifier] | Literal["self"] | None
    optional: bool | None
    error: bool
    late: bool
    timestamp: str | None
    lateness: float | str | None
    divided_by: str | Sequence[str]


class OutputPort(Port, Generic[T]):
    """Where tuples of type `T` leave an operator: `valid = OutputPort(Payment)`.

    `schema`: as of an `InputPort`. `unifier`: the class or instance that merges the outputs of partitions,
    `"self"` for an operator that merges its own results; default: they pass through. `optional=False`: must
    be connected. `optional=True`: need not be. None: at least one of the operator's outputs must be, unless
    all are optional. `error`: an error port; its tuples are counted as errors. `late`: an error port for
    records that came too late; they are counted as late, and not as errors. `timestamp`: the column that
    holds the tuples' times.

    `lateness`, of an input operator, promises that no record is older by more than the newest before it.
    Seconds, or a text such as "5s". Watermarks follow from it: see `OperatorContext.watermark`. Raises
    ValueError for what is no duration.

    `divided_by`: the columns by which an input operator divides what its partitions read. It is a promise:
    tuples with equal values come from one partition. `Order.KEPT` downstream needs it.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import InputOperator, OutputPort
        >>> class Tick(NamedTuple):
        ...     number: int
        >>> class Ticks(InputOperator):
        ...     ticks = OutputPort(Tick)
        ...
        ...     def emit_tuples(self) -> None:
        ...         self.ticks.emit(Tick(1))
        >>> Ticks().ticks.schema.describe()
        'Tick(number: int64)'
    """

    @overload
    def __init__(
        self: OutputPort[dict[str, Any]], schema: ArrowSchema, **options: Unpack[_OfOutput]
    ) -> None: ...
    @overload
    def __init__(self: OutputPort[Struct], schema: type[Struct], **options: Unpack[_OfOutput]) -> None: ...
    @overload
    def __init__(self, schema: object, **options: Unpack[_OfOutput]) -> None: ...
    def __init__(
        self,
        schema: object,
        *,
        unifier: Unifier | type[Unifier] | Literal["self"] | None = None,
        optional: bool | None = None,
        error: bool = False,
        late: bool = False,
        timestamp: str | None = None,
        lateness: float | str | None = None,
        divided_by: str | Sequence[str] = (),
    ) -> None:
        super().__init__(schema, optional=bool(optional))
        self.required = optional is False
        self.unifier = unifier
        self.error = error or late
        self.late = late
        self.timestamp = timestamp
        self.lateness_seconds = None if lateness is None else parse_duration(lateness)
        self.divided_by = (divided_by,) if isinstance(divided_by, str) else tuple(divided_by)

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __get__(self, instance: None, owner: type) -> Self: ...
        @overload
        def __get__(self, instance: Operator, owner: type) -> OutputPoint[T]: ...
        @overload
        def __get__(self, instance: Module, owner: type) -> OutputProxy[T]: ...
        def __get__(
            self, instance: Operator | Module | None, owner: type
        ) -> Self | OutputPoint[T] | OutputProxy[T]: ...

    def make(self, instance: Operator) -> OutputPoint[T]:
        """The output port of one operator instance."""
        return OutputPoint(instance, self)
