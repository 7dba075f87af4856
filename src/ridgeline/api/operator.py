"""Operators: what an application is made of."""

from __future__ import annotations

import copy
import inspect
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Never, Self, cast, dataclass_transform

from pydantic import Field
from pydantic.fields import FieldInfo
from typing_extensions import TypeVar

from ridgeline.api.cells.list_state import ListState
from ridgeline.api.cells.migrations import Migration
from ridgeline.api.cells.per_instance import OWN, PerInstance, make_own
from ridgeline.api.columns.dead_letter import NAME as DEAD_LETTERS
from ridgeline.api.columns.dead_letter import DeadLetter
from ridgeline.api.columns.schema import Schema
from ridgeline.api.context import OperatorContext
from ridgeline.api.enumerator import Enumerator
from ridgeline.api.errors import StateError, did_you_mean, shorten
from ridgeline.api.partitioner import Partitioner
from ridgeline.api.ports import InputPort, OutputPort, Port
from ridgeline.api.publisher import Publisher
from ridgeline.api.state import Declaration, StateCell, cell_of
from ridgeline.api.support.emitting import Emits
from ridgeline.api.support.handlers import settle_handlers
from ridgeline.api.support.own_metric import Metric, MetricOptions, declared_metrics

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


T = TypeVar("T", default=Any)


@dataclass(frozen=True, slots=True)
class OperatorType:
    """The declarations of a class body: ports, state, metrics, and properties with their defaults as given.

    `positional`: the properties that may be given by position, in declared order.
    """

    inputs: Mapping[str, InputPort[Any]]
    outputs: Mapping[str, OutputPort[Any]]
    states: Mapping[str, Declaration]
    properties: Mapping[str, Any]
    positional: tuple[str, ...]
    metrics: Mapping[str, MetricOptions]
    every_output: Mapping[str, OutputPort[Any]]
    """The `outputs`, and the port of dead letters that operators have beside them."""


_FINISHED = "_finished"
HIDDEN = frozenset({"_forgotten", _FINISHED, "context"})
"""Attributes of an operator that belong to the platform."""
_LETTERS: OutputPort[DeadLetter] = OutputPort(DeadLetter, optional=True)
_TYPES: weakref.WeakKeyDictionary[type, OperatorType] = weakref.WeakKeyDictionary()
REQUIRED: Any = type("Required", (), {"__repr__": lambda _self: "<required>"})()


def operator_type(cls: type) -> OperatorType:
    """The declarations of an operator or module class, its bases included. Computed once per class."""
    known = _TYPES.get(cls)
    if known is None:
        found: dict[str, Any] = {}
        annotated: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            if base is not object:  # a mixin need not be an operator
                found.update(vars(base))
                annotated.update(inspect.get_annotations(base))
        letters = found.get(DEAD_LETTERS)
        if letters is _LETTERS:
            del found[DEAD_LETTERS]
        ports = {name: value for name, value in found.items() if isinstance(value, Port)}
        states = {name: value for name, value in found.items() if isinstance(value, Declaration)}
        settle_handlers(cls, ports)
        settle_handlers(cls, states)
        properties = {
            name: found.get(name, REQUIRED)
            for name, kind in annotated.items()
            if not name.startswith("_")
            and "ClassVar" not in str(kind)
            and not isinstance(found.get(name), (PerInstance, Metric))
        }
        outputs = {name: port for name, port in ports.items() if isinstance(port, OutputPort)}
        known = _TYPES[cls] = OperatorType(
            {name: port for name, port in ports.items() if isinstance(port, InputPort)},
            outputs,
            states,
            properties,
            tuple(
                name
                for name, default in properties.items()
                if name != "context" and not (isinstance(default, FieldInfo) and default.kw_only)
            ),
            declared_metrics(found),
            {**outputs, DEAD_LETTERS: _LETTERS} if letters is _LETTERS else outputs,
        )
    return known


def no_attribute(instance: Any, name: str) -> AttributeError:
    """The error for an attribute that an operator or a module does not have."""
    kind, declared = type(instance).__name__, operator_type(type(instance))
    if declared.properties.get(name) is not None:
        return AttributeError(f"property `{name}` of `{kind}` was not given; pass `{name}=...`")
    names = [*declared.inputs, *declared.outputs, *declared.states, *declared.properties, *vars(instance)]
    public = [known for known in names if not known.startswith("_")]
    text = f"`{kind}` has no attribute `{name}`; {did_you_mean(name, public)}"
    if isinstance(instance, Operator):  # another container may have set it in a window
        text += f"; {_NOT_DECLARED.format(name=name)}"
    return AttributeError(text)


def port_schema(operator: Operator, port: str) -> Schema | None:
    """The schema of a port of one operator; None if it takes any stream that it is connected to.

    Raises SchemaError if what was declared cannot be a schema, KeyError for an unknown port.
    """
    declared = operator_type(type(operator))
    return (declared.inputs.get(port) or declared.every_output[port]).schema_of(operator)


def state_cells(operator: Operator) -> dict[str, StateCell]:
    """The state cells of one operator, by name; empty if its class declares no state."""
    states = operator_type(type(operator)).states
    return {name: cell_of(operator, declaration) for name, declaration in states.items()}


def lateness_seconds(operator: Operator) -> float | None:
    """The greatest lateness that an operator declares which makes a watermark; None if it makes none."""
    if not makes_watermark(operator):
        return None
    ports = operator_type(type(operator)).outputs
    found = [operator.lateness_of(name) for name, port in ports.items() if not port.error]
    return max((seconds for seconds in found if seconds is not None), default=None)


def makes_watermark(operator: Operator) -> bool:
    """True if a watermark may begin at an operator: at inputs, and where tuples get other times."""
    return isinstance(operator, InputOperator) or operator.gives_times


def has_finished(operator: InputOperator) -> bool:
    """True if an input operator has called `finish`, in the window that runs or before it."""
    return bool(vars(operator).get(_FINISHED))


def mark_finished(operator: InputOperator, *, finished: bool) -> None:
    """A window begins: the input operator had finished before it, or it had not."""
    vars(operator)[_FINISHED] = finished


def is_stateless(operator: Operator) -> bool:
    """True if the operator's class declares no state."""
    return not operator_type(type(operator)).states


_NOT_DECLARED = (
    "what is not declared lives until the end of its window; "
    "declare it, `{name} = State(...)`, `KeyedState(...)` or `ListState(...)`, to keep it"
)


class Component:
    """What an application is made of, an operator or a module: it has ports, and properties."""

    if TYPE_CHECKING:

        def _takes(self, value: Any, /) -> Self: ...

    def __init__(self, *values: Any, **properties: Any) -> None:
        """Set the properties, given by position and by name, and the defaults of others.

        Raises TypeError for values by position that do not fit.
        """
        declared, own = operator_type(type(self)), vars(self)
        given = properties
        if values:
            given = named_properties(type(self).__name__, declared.positional, values, properties)
        own["_given"] = dict(given)
        own["_schemas"] = {}
        for name, default in declared.properties.items():
            if name == "context":
                continue
            value = default
            if isinstance(default, FieldInfo):
                value = REQUIRED if default.is_required() else default.get_default(call_default_factory=True)
            value = given.get(name, value)
            if value is not REQUIRED:
                own[name] = copy.copy(value) if isinstance(value, (list, dict, set)) else value
        self.__post_init__()

    def __post_init__(self) -> None:
        """Finish a new instance: called once, when its properties are set and not yet checked.

        A property without a default that was not given is missing. A class that declares an `__init__` of its
        own need not call this.
        """

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Faults of properties in combination: (property, value, rule) each.

        Such as `("timestamp", "at", "must be one of `values`")`. Called when the application is validated, on
        a copy with validated properties, and only if each property is valid by itself. No I/O; raises
        nothing.
        """
        return []

    def __getstate__(self) -> dict[str, Any]:
        """Properties and what `__init__` made: neither ports, state, context nor anything of a window."""
        hidden = {"_forgotten", "context", "__orig_class__"}
        return {
            name: value
            for name, value in vars(self).items()
            if name not in hidden and not name.startswith(OWN)
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


@dataclass_transform(eq_default=False, field_specifiers=(Field,))
class Operator(Component):
    """One step of an application: ports, properties, declared state, callbacks.

    Life cycle, all in one thread: `setup(context)`, [`activate()`], (`begin_window(id)`, the ports' `process`
    methods, timers that expire, `end_window()`, [`before_checkpoint(id)`])*, [`deactivate()`], `teardown()`.
    Before the last `end_window`: `end_of_input()`. With an application window, `begin_window` and
    `end_window` are called at its borders only. [`checkpointed(id)`, `committed(id)`] come between windows.

    Properties are plain annotated fields (`limit: int = Field(10, gt=0)`), given as keyword arguments. They
    are checked, all together, when the application is validated. `docs/values.md` lists the checks.

    An attribute that is not declared as state is dropped at the end of the window that set it. Objects made
    in `setup` live as long as the container, which may end between any two windows; the next container calls
    `setup` again. `known = Cache(dict)` declares a value that windows may change and that may be lost.

    Example:
        >>> from typing import NamedTuple
        >>> from pydantic import Field
        >>> from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Payment(NamedTuple):
        ...     account: int
        ...     cents: int
        >>> class Large(Operator):
        ...     payments = InputPort(Payment, key="account")
        ...     large = OutputPort(Payment)
        ...     totals = KeyedState(int, key=int, default=0)
        ...     least: int = Field(100, ge=0)
        ...
        ...     @payments.process
        ...     def add(self, payment: Payment) -> None:
        ...         self.totals[payment.account] += payment.cents
        ...
        ...     def end_window(self) -> None:
        ...         for account, cents in self.totals.changed():
        ...             if cents >= self.least:
        ...                 self.large.emit(Payment(account, cents))
        >>> app = Application("payments")
        >>> source = app.add_operator("source", ListInput(Payment, [(1, 60), (2, 5), (1, 50)]))
        >>> large = app.add_operator("large", Large(least=50), partitions=2)
        >>> sink = app.add_operator("sink", CollectorSink(Payment))
        >>> app.add_stream("payments", source.output, large.payments)
        >>> app.add_stream("large", large.large, sink.input)
        >>> run_local(app).collected("sink")
        [Payment(account=1, cents=110)]
    """

    partitioner_default: ClassVar[Partitioner | None] = None
    """The `Partitioner` that an operator class brings; the attribute `partitioner` wins over it."""
    parallelizable: ClassVar[bool] = True
    """False: the operator cannot have more than one partition."""
    leaves_with_streams: ClassVar[bool] = False
    """True: a change of the plan that takes away all that the operator reads removes it, too."""
    gives_times: ClassVar[bool] = False
    """True: it gives tuples times of its own, and a watermark begins at it, as at an input operator.

    It declares `timestamp` and `lateness`, and overrides `idle_seconds` and `end_of_input`.
    """
    state_depends_on: ClassVar[Sequence[str]] = ()
    """Properties, and input ports for their columns, without which its state means something else.

    Where one has another value, a start that keeps the state and a live change are refused.
    """
    migrations: ClassVar[Sequence[Migration]] = ()
    """What became of its state since its first version, the oldest first: see `docs/releases.md`."""

    dead_letters = _LETTERS
    """Tuples that it leaves out with `on_error=SKIP`, as `DeadLetter`; see `Application.dead_letters`."""

    context: OperatorContext

    # What authors override ----------------------------------------------------------------------------------

    def setup(self, context: OperatorContext) -> None:
        """Make what is not state: connections, files, caches.

        Called before the first window in a container, and again in another.
        """

    def activate(self) -> None:
        """The operator is about to see its first window in this container."""

    def begin_window(self, window_id: int) -> None:
        """A window begins; with an application window, its first streaming window's id."""

    def end_window(self) -> None:
        """All tuples of the window have been processed; what is emitted here still belongs to the window."""

    def end_of_input(self) -> None:
        """All inputs of the operator have finished: nothing more will come. Tuples emitted here count.

        Called once per partition, in the window in which the last of its inputs finishes, after its timers
        and before `end_window`. Not called if the run is stopped before, nor of an input operator. Loops are
        not waited for: tuples that go round one may come later.
        """

    def handle_idle_time(self) -> None:
        """Do what can wait: nothing came in the window, or an input operator has emitted nothing.

        Called once in such a window, after `begin_window`; it may emit. It must take less than
        `context.idle_seconds`: operators that share the slot wait meanwhile. An input that has finished is
        not called.
        """

    def before_checkpoint(self, window_id: int) -> None:
        """The window's state is about to be written: put into it what must survive; no emission.

        Called in each attempt at each streaming window, after all other callbacks of the window.
        """

    def deactivate(self) -> None:
        """No more windows in this container."""

    def teardown(self) -> None:
        """Release what `setup` made."""

    def checkpointed(self, window_id: int) -> None:
        """The operator's state as of the window is durable. Called just before `committed`, as that is."""

    def committed(self, window_id: int) -> None:
        """The window is committed: its results can never be taken back.

        Called after the commit; no emission, and no change of state. Window ids ascend. Windows may be passed
        over: every window up to `window_id` is committed. So are those before a process that has ended: the
        next one is not called for them again.
        """

    def publisher(self) -> Publisher | None:
        """The driver's half of an output operator (see `Publisher`); None for all other operators."""
        return None

    def settle_properties(self) -> None:
        """Resolve properties that depend on the driver, such as paths relative to its working directory.

        Called on the driver when the application is valid, on the copy that is sent to the containers. It is
        called again if the application is validated again, so it must be idempotent. No I/O; raises nothing.
        """

    def unifier_of(self, port: str) -> Operator | type[Unifier] | None:
        """The unifier of the partitions' outputs on a port: a `Unifier`, or the operator itself.

        It is the one that the port declares. Override it if the unifier depends on properties.
        """
        declared = operator_type(type(self)).every_output[port].unifier
        return self if isinstance(declared, str) and declared == "self" else cast("Any", declared)

    def slider_of(self, port: str) -> Operator | type[Unifier] | None:
        """The unifier that merges the results of several windows on a port, with `slide_by_window_count`.

        The same as `unifier_of`. Override it if results of windows are merged in another way than those of
        partitions, and return None if they cannot be merged.
        """
        return self.unifier_of(port)

    def timestamp_of(self, port: str) -> str | None:
        """The column that holds the tuples' times on an output port; the one that the port declares.

        Override it if the column depends on properties.
        """
        return operator_type(type(self)).every_output[port].timestamp

    def lateness_of(self, port: str) -> float | None:
        """The `lateness` on an output port in seconds, None if nothing is promised; what the port declares.

        Override it if it depends on properties.
        """
        return operator_type(type(self)).every_output[port].lateness_seconds

    def idle_seconds(self) -> float | None:
        """Seconds without a record after which a partition holds no watermark up; None: it always does.

        Override it. Asked in each window.
        """
        return None

    def needs_times(self) -> str:
        """The use of record times, such as "puts records into windows"; "" for nothing.

        The application is refused if no watermark reaches one of its input ports. Called when it is
        validated, with properties that may be faulty. No I/O; raises nothing.
        """
        return ""

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The schema of an output port declared as `typing.Any`, which depends on those of the `inputs`.

        None: that of the first input. Called when the application is validated; no I/O. Raises SchemaError
        for inputs that do not fit.
        """
        return None

    # What the platform uses ---------------------------------------------------------------------------------

    def declare_schema(self, port: str, schema: object) -> None:
        """Give a port declared as `typing.Any` the schema of this instance.

        Call it in `__post_init__` or `__init__`. Raises KeyError for an unknown port.
        """
        declared = operator_type(type(self))
        if port not in declared.inputs and port not in declared.outputs:
            raise KeyError(port)
        self.__dict__.setdefault("_schemas", {})[port] = schema

    if not TYPE_CHECKING:  # checkers know ports, states and properties by their declarations

        def __getattr__(self, name: str) -> Any:
            """Make a port or state on first access; for all other names raise the error that says what to do.

            Python calls it for attributes that it does not find. Raises StateError for an attribute that a
            window set and that was dropped at its end, AttributeError for any other.
            """
            if name.startswith(OWN):
                return make_own(self, name)
            if name.startswith("__"):
                raise AttributeError(name)
            forgotten = self.__dict__.get("_forgotten", {})
            kind = type(self).__name__
            if name in forgotten:
                what = f"`{kind}.{name}` was set in window {forgotten[name]} and is gone"
                raise StateError(f"{what}: {_NOT_DECLARED.format(name=name)}")
            if name == "context":
                raise AttributeError(f"`{kind}` has no context before it runs; use it from `setup` on")
            raise no_attribute(self, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class InputOperator(Operator):
    """An operator without input ports that makes tuples; its position belongs into declared state.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import InputOperator, OutputPort, State
        >>> class Tick(NamedTuple):
        ...     number: int
        >>> class Ticks(InputOperator):
        ...     ticks = OutputPort(Tick)
        ...     count: int = 3
        ...     position = State(0)
        ...
        ...     def emit_tuples(self) -> None:
        ...         self.ticks.emit(Tick(self.position))
        ...         self.position += 1
        ...         if self.position == self.count:
        ...             self.finish()
        >>> Ticks(5).count
        5
    """

    progress_unit: ClassVar[str] = "units"
    """The unit of `progress`, in the plural: `records`, `bytes`, `files`, `windows`, `seconds`."""

    leaves_out_records: ClassVar[bool] = False
    """True: with `on_error=SKIP` it leaves records out that it cannot read, by `context.leave_out`."""

    if TYPE_CHECKING:  # so that an `__init__` of a subclass may pass its properties on

        def __init__(self, *values: Any, **properties: Any) -> None: ...

        def _takes(self, value: Never, /) -> Self: ...

    def emit_tuples(self) -> None:
        """Emit this window's tuples. Called once a window, between `begin_window` and `end_window`."""
        raise NotImplementedError(f"`{type(self).__name__}` must override `emit_tuples`")

    def finish(self) -> None:
        """Nothing more will come: `emit_tuples` is not called again.

        When all inputs have finished, the application ends by itself.
        """
        self.__dict__[_FINISHED] = True

    def enumerator(self) -> Enumerator | None:
        """The driver's half of the input (see `Enumerator`); None: each partition decides what it reads."""
        return None

    def unreachable(self, states: Mapping[str, Any]) -> str:
        """Why a partition that goes back to these values of its states cannot read on; empty if it can.

        Asked before a rewind, of inputs without an enumerator, before `setup`: it is refused then, and
        nothing has changed.
        """
        return ""

    def progress(self) -> tuple[float, float | None] | None:
        """Progress after the window, in `progress_unit`: (work consumed, work remaining or None if unknown).

        None if nothing is known. It is also asked while a window runs, or between two, from another thread:
        it should read plain values only.
        """
        return None

    def is_paced(self) -> bool:
        """True if it holds back what is not due yet: what remains is no backlog then.

        Asked in each window.
        """
        return False


def reads_ranges(operator: Operator) -> bool:
    """True for an input that reads what its `Enumerator` says: the same again in another attempt."""
    return isinstance(operator, InputOperator) and (type(operator).enumerator is not InputOperator.enumerator)


class SparkSource(InputOperator, Emits[T]):
    """An input operator whose tuples are read by Spark, as a source of the Structured Streaming query.

    The engine calls `frame` once, on the driver. In the containers it emits the rows of each micro-batch on
    `output`.
    """

    output = OutputPort[T](Any)

    if TYPE_CHECKING:

        def __init__(self, *values: Any, **properties: Any) -> None: ...

    def frame(self, spark: SparkSession) -> DataFrame:
        """The streaming DataFrame, with the columns of the output port's schema, for a SparkSession."""
        raise NotImplementedError

    def sifting_frame(self, spark: SparkSession) -> DataFrame:
        """As `frame`, with what `emit_rows` needs to leave rows out that do not fit.

        Called with `on_error=SKIP`, where `leaves_out_records`.
        """
        return self.frame(spark)

    def order_note(self) -> str | None:
        """The note of `validate` and `plan` on the order of its rows; None for none."""
        return None

    def emit_rows(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Emit the rows of a micro-batch, in a container; called once in a window, for `emit_tuples`."""
        for rows in batches:
            self.output.emit_batch(rows)

    def emit_tuples(self) -> None:
        """Nothing: rows come from Spark."""


class Unifier(Operator):
    """Merges the outputs of an operator's partitions.

    It has one input port and one output port, both of the schema of the port that it unifies. It runs in the
    application window of the operator whose partitions it merges.

    `InputPort(..., key=...)` says that it merges key by key, and emits tuples of a key for tuples of that key
    only. If the operator downstream is divided by this key, each of its partitions has a unifier of its own.

    A unifier that overrides `begin_window` or `end_window` gets all tuples of an application window in its
    last streaming window: `begin_window`, the tuples, `end_window`. Values kept between these calls need
    not be state. Any other unifier gets the tuples of each streaming window in that window.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import InputPort, OutputPort, Unifier
        >>> class Count(NamedTuple):
        ...     value: int
        >>> class Add(Unifier):
        ...     counts = InputPort(Count)
        ...     total = OutputPort(Count)
        ...
        ...     def begin_window(self, window_id: int) -> None:
        ...         self.sum = 0
        ...
        ...     @counts.process
        ...     def add(self, count: Count) -> None:
        ...         self.sum += count.value
        ...
        ...     def end_window(self) -> None:
        ...         self.total.emit(Count(self.sum))
        >>> counts = OutputPort(Count, unifier=Add)
    """

    _waiting = ListState()
    """Tuples of the open application window: see `ridgeline.engine.operator.application_window`."""


class PassThroughUnifier(Unifier):
    """The default unifier: all tuples of all partitions, in the partitions' order."""

    _waiting = None  # type: ignore[assignment] # nothing waits here, so it has no state
    input = InputPort(Any)
    output = OutputPort(Any)


def named_properties(
    kind: str, names: Sequence[str], values: Sequence[Any], properties: Mapping[str, object]
) -> dict[str, object]:
    """Return all properties by name.

    `values` were given by position, for the first of `names`; `properties` were given by name. `kind` is the
    operator class, for errors. Raises TypeError for more values than names, and for a property that is given
    twice.

    >>> named_properties("Filter", ["predicate", "batch_predicate"], [callable], {})
    {'predicate': <built-in function callable>}
    """
    if len(values) > len(names):
        surplus = shorten(values[len(names)])
        if not names:
            raise TypeError(f"`{kind}` takes no properties by position; got {surplus}; leave it out")
        listed = ", ".join(f"`{name}`" for name in names)
        by_position = f"at most {len(names)} by position, {listed}"
        raise TypeError(f"`{kind}` takes {by_position}; got {len(values)}, then {surplus}; leave it out")
    for name in names[: len(values)]:
        if name in properties:
            raise TypeError(f"`{kind}` got `{name}` twice, by position and by name; give it once")
    return {**dict(zip(names, values, strict=False)), **properties}
