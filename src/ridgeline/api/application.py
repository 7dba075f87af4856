"""The logical plan as an author writes it."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, TypeVar, Unpack, overload
from weakref import WeakKeyDictionary, ref

from ridgeline.api.affinity import AffinityRule
from ridgeline.api.attributes import (
    ApplicationAttributes,
    InputPortAttributes,
    Locality,
    LocalityName,
    OperatorAttributes,
    OutputPortAttributes,
    StreamAttributes,
    UnifierAttributes,
)
from ridgeline.api.cells.migrations import Migration
from ridgeline.api.columns.dead_letter import DeadLetter
from ridgeline.api.errors import (
    ChangeError,
    RidgelineError,
    StructureError,
    did_you_mean,
    shorten,
)
from ridgeline.api.module import InputProxy, Module, OutputProxy, check_end, owner_of
from ridgeline.api.operator import InputOperator, Operator, operator_type
from ridgeline.api.points import InputPoint, OutputPoint
from ridgeline.api.policy import Policy, Promise, StatsListener
from ridgeline.api.support.attribute_types import queries
from ridgeline.api.support.duration import FORMS, parse_duration
from ridgeline.api.support.emitting import Emits, HasOutput, Takes

if TYPE_CHECKING:
    from pyspark import SparkContext

    from ridgeline.engine.driver.checkpoint.resuming import ResumeOptions
    from ridgeline.service.handle import Handle
    from ridgeline.streams.stream import Stream


Persist: TypeAlias = Operator | InputPoint[Any]
"""Writes a stream: an output operator, or one of its input ports."""
_WITH_ATTRIBUTES = (Operator, Module, InputPoint, OutputPoint, InputProxy, OutputProxy)
_AN = {"operator": "an operator", "module": "a module"}
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST = 150
"""The most characters of a name: it goes into those of files."""
_REMEDY = 'give an output operator, such as `FileOutput("folder")`, or an input port of one'


def check_name(noun: str, name: object) -> None:
    """Raise StructureError for a name that a `noun` of an application cannot have."""
    if not isinstance(name, str):
        raise StructureError(
            f"the name of the {noun} is {shorten(name)}, which is no text",
            "give a text of letters, digits, `_` and `-`",
        )
    if not name.strip():
        raise StructureError(f"the name of the {noun} is empty", "give it a name")
    if not _NAME.fullmatch(name):
        wrong = sorted({character for character in name if not _NAME.fullmatch(character)})
        raise StructureError(
            f"the name of the {noun} `{name}` has {', '.join(map(repr, wrong))} in it",
            "use letters, digits, `_` and `-` only: names go into files, metrics and addresses",
        )
    if len(name) > _LONGEST:
        what = f"the name of the {noun} has {len(name)} characters"
        raise StructureError(what, f"use at most {_LONGEST}: names go into those of files")


def _among(thing: object, others: Iterable[object]) -> bool:
    """Whether one of the others is this very thing."""
    return any(thing is other for other in others)


def _decoupled(sinks: Sequence[object], decoupled: object) -> tuple[object, ...]:
    """The sinks of a stream that `decoupled` names. Raises StructureError for what is none."""
    if isinstance(decoupled, bool):
        return tuple(sinks) if decoupled else ()
    remedy = "give True, or some of its sinks: `decoupled={slow.data}`"
    if isinstance(decoupled, str) or not isinstance(decoupled, Collection):
        raise StructureError(f"`decoupled` is {shorten(decoupled)}", remedy)
    _refuse_others("`decoupled` names", decoupled, sinks, remedy)
    return tuple(sink for sink in sinks if _among(sink, decoupled))


def _refuse_others(what: str, named: Iterable[object], sinks: Sequence[object], remedy: str) -> None:
    """Raise StructureError if something is named that is no sink of a stream."""
    for one in named:
        if not _among(one, sinks):
            raise StructureError(f"{what} {shorten(one)}, which is no sink of the stream", remedy)


def _check_duration(role: str, given: object) -> None:
    """Raise StructureError for what is no duration."""
    try:
        parse_duration(given)
    except ValueError:
        raise StructureError(f"{role} is {shorten(given)}", f"give {FORMS}") from None


def _check_decider(noun: str, given: Any, method: str, base: str) -> None:
    """Raise StructureError for what cannot see figures and decide: it has no such method."""
    if isinstance(given, type) or not callable(getattr(given, method, None)):
        shown = f"the class `{given.__name__}`" if isinstance(given, type) else shorten(given)
        remedy = f"give an instance of a subclass of `ridgeline.policies.{base}`"
        raise StructureError(f"{noun} is {shown}, which has no method `{method}`", remedy)


def _port(given: object) -> InputPoint[Any]:
    """The input port of an operator that a stream leads to. Raises StructureError if that is not clear."""
    if isinstance(given, InputPoint):
        return given
    if not isinstance(given, Operator) or isinstance(given, InputOperator):
        raise StructureError(f"what is to write is {shorten(given)}, which takes no tuples", _REMEDY)
    declared, kind = operator_type(type(given)), type(given).__name__
    inputs = [name for name, port in declared.inputs.items() if not port.optional] or list(declared.inputs)
    needed = [name for name, port in declared.outputs.items() if not port.optional and not port.error]
    if len(inputs) != 1:
        what = f"what is to write is a `{kind}`, which has {len(inputs)} input ports"
        raise StructureError(what, "name the port: add the operator first, and give `operator.port`")
    if needed:
        what = f"what is to write is a `{kind}`, whose output port `{needed[0]}` would lead nowhere"
        raise StructureError(what, "give an output operator; or add it first, and give `operator.port`")
    port: InputPoint[Any] = getattr(given, inputs[0])
    return port


Op = TypeVar("Op", bound=Operator)
M = TypeVar("M", bound=Module)
T = TypeVar("T")
Entry: TypeAlias = InputPoint[T] | InputProxy[T]
"""Where a stream leads to: an input port of an operator or of a module."""
AnyLocality: TypeAlias = Locality | LocalityName
_RUNNING: WeakKeyDictionary[Application, ref[Handle]] = WeakKeyDictionary()
"""The handle of the last run of each application that `start` began."""
KEEP = "1h"
"""How long the queue of a decoupled stream keeps rows that were read, by default."""


Kind: TypeAlias = Literal["property", "attribute", "port", "unifier"]
"""What a value is of. `port`: an attribute of a port; `unifier`: one of the unifiers of an output port."""
Values: TypeAlias = Mapping[str, Any]
_SECTIONS: Mapping[Kind, str] = {
    "property": "properties",
    "attribute": "attributes",
    "port": "ports",
    "unifier": "unifiers",
}


@dataclass(frozen=True, slots=True)
class Added:
    """An operator or a module, as the author's calls have said. `instance`: the author's.

    `attributes`, `ports` and `unifiers` are the attributes that are given: of it, and by port of its ports
    and of the unifiers behind these. What is inside of a module gets its own when it is expanded.
    """

    name: str
    instance: Any
    attributes: Values = field(default_factory=dict)
    ports: Mapping[str, Values] = field(default_factory=dict, kw_only=True)
    unifiers: Mapping[str, Values] = field(default_factory=dict, kw_only=True)

    def given(self, kind: Kind, port: str, values: Values) -> Self:
        """It with more values of a kind; these win."""
        before: Values = getattr(self, _SECTIONS[kind])
        if port:
            values = {port: {**before.get(port, {}), **values}}
        changed: Any = {_SECTIONS[kind]: {**before, **values}}
        return replace(self, **changed)

    def without(self, attribute: str) -> Self:
        """It without an attribute."""
        return replace(
            self, attributes={name: value for name, value in self.attributes.items() if name != attribute}
        )

    @property
    def of_ports(self) -> list[tuple[Kind, str, Values]]:
        """The attributes that ports and unifiers are given, with the port."""
        kinds: tuple[Kind, ...] = ("port", "unifier")
        return [(kind, *one) for kind in kinds for one in getattr(self, _SECTIONS[kind]).items()]


@dataclass(frozen=True, slots=True)
class Node(Added):
    """An operator. `properties`: set from outside, in order."""

    listeners: tuple[StatsListener, ...] = ()
    """Who listens to its figures."""
    remedies: dict[str, str] = field(default_factory=dict)
    """Remedies of its faults: by property, and by "output" that of an output port that nothing reads."""
    migrations: tuple[Migration, ...] = ()
    """What `add_migrations` was given for it."""
    properties: Values = field(default_factory=dict)

    @property
    def operator(self) -> Operator:
        """The author's instance."""
        found: Operator = self.instance
        return found


@dataclass
class AddedStream:
    """One call of `add_stream`, as it was made."""

    name: str
    source: Any
    sinks: tuple[Any, ...]
    locality: AnyLocality | Mapping[Any, AnyLocality] | None = None
    persisted: tuple[Any, ...] = ()
    """Those of the `sinks` that only write the stream down."""
    decoupled: tuple[Any, ...] = ()
    """Those of the `sinks` that read it from a durable queue."""
    keep: float | str = KEEP
    """How long the queue keeps rows that were read."""
    queue: str = ""
    """The name of the operator that writes the queue; empty: after the stream."""


@dataclass
class AddedRegion:
    """One call of `set_region`, as it was made."""

    name: str
    operators: tuple[Any, ...]
    window: float | str | None
    attributes: ApplicationAttributes


@dataclass(frozen=True, slots=True)
class AddedModule(Added):
    """A module. `position`: how many operators were added before it."""

    position: int = 0

    @property
    def module(self) -> Module:
        """The author's instance."""
        found: Module = self.instance
        return found


class Application:
    """Operators and streams under one name: `Application("payments", window="200ms")`.

    `window` is the width of a streaming window: a number of seconds or a text such as `"200ms"`, `"1s"`,
    `"5m"`. With `0` each window begins when the one before has ended. Further keyword arguments are
    application attributes. What does not fit together raises StructureError where it is added. All else is
    checked by `ridgeline.plan.validate`, which every way to run an application calls first.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Filter
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Payment(NamedTuple):
        ...     account: int
        ...     cents: int
        >>> app = Application("payments", window="200ms")
        >>> source = app.add_operator("source", ListInput(Payment, [(1, 100), (2, -5)]))
        >>> valid = app.add_operator("valid", Filter(lambda payment: payment.cents > 0), partitions=2)
        >>> sink = app.add_operator("sink", CollectorSink(Payment))
        >>> app.add_stream("payments", source.output, valid.data)
        >>> app.add_stream("valid", valid.output, sink.input)
        >>> run_local(app).collected("sink")
        [Payment(account=1, cents=100)]
    """

    def __init__(
        self, name: str, window: str | float = "500ms", **attributes: Unpack[ApplicationAttributes]
    ) -> None:
        self.name = name
        self.window = window
        self.operators: list[Node] = []
        self.streams: list[AddedStream] = []
        self.modules: list[AddedModule] = []
        self.affinity: list[AffinityRule] = []
        self.regions: list[AddedRegion] = []
        self.policies: list[Policy] = []
        self.promises: list[Promise] = []
        self.dead_letter_port: InputPoint[Any] | None = None
        """Where the dead letters of all operators go."""
        self.cut: Callable[[Any], Any] | None = None
        """Leaves one region of it, while it is planned; see `ridgeline.plan.regional`."""
        self.origins: Mapping[str, str] = {}
        """The files that parts of a specification were included from, by section and name, for errors."""
        self.attributes = attributes

    def add_operator(
        self,
        name: str,
        operator: Op,
        *,
        stats_listeners: Sequence[StatsListener] = (),
        **attributes: Unpack[OperatorAttributes],
    ) -> Op:
        """Add an operator under a unique name, with attributes such as `partitions=2`.

        `stats_listeners` see its figures, and answer with changes: see `ridgeline.policies.StatsListener`.
        Returns the operator, for its ports. Raises StructureError for what is no operator, or was added.
        """
        self._refuse_if_running("add_operator")
        self._check_new(Operator, name, operator)
        given: Any = stats_listeners
        listeners = tuple(given) if isinstance(given, Iterable) else (given,)
        for listener in listeners:
            _check_decider(f"a listener of the figures of `{name}`", listener, "observe", "StatsListener")
        self.operators.append(Node(name, operator, attributes, listeners))
        return operator

    @overload
    def read(
        self,
        name: str,
        input: Emits[T] | OutputPoint[T],
        **attributes: Unpack[OperatorAttributes],
    ) -> Stream[T]: ...
    @overload
    def read(
        self,
        name: str,
        input: HasOutput[T],
        **attributes: Unpack[OperatorAttributes],
    ) -> Stream[T]: ...
    @overload
    def read(
        self, name: str, input: InputOperator | Module, **attributes: Unpack[OperatorAttributes]
    ) -> Any: ...
    def read(self, name: str, input: Any, **attributes: Unpack[OperatorAttributes]) -> Any:
        """Add an input operator under a unique name, and return its output as a `Stream`.

        If it has several output ports, returns their streams by the ports' names, see `Outputs`. A module
        without input ports may stand for an input operator, and so may one of its output ports.
        """
        return importlib.import_module("ridgeline.streams.stream").read(self, name, input, attributes)

    def stream(self, point: OutputPoint[T] | OutputProxy[T] | InputProxy[T]) -> Stream[T]:
        """The tuples that leave an output port, as a `Stream`.

        Within a module an input port of its own may be given: `app.stream(self.quotes)`. Raises
        RidgelineError for a name.
        """
        if isinstance(point, str):
            msg = f"`app.stream` takes an output port, such as `totals.output`; got the text '{point}'; "
            msg += "give the port, or keep the stream that the step has returned"
            raise RidgelineError(msg)
        found: Stream[T] = importlib.import_module("ridgeline.streams.stream").Stream(self, point)
        return found

    @queries
    def sql(self, name: str, sql: str, /, *, schema: Any = None, **given: Any) -> Any:
        """Add a step that is one SELECT over streams, and return its rows as a `Stream`.

        `app.sql("sums", "select country, sum(cents) as cents from orders group by country", orders=orders)`.
        Streams are given by the names that the SQL has for them. Other keyword arguments are `windows`,
        `key`, `timestamp` and `memory_mb` of the operator `Sql`, and attributes. `schema`: the type of the
        result. Raises RidgelineError without a stream, and for more than four.
        """
        return importlib.import_module("ridgeline.streams.stream").sql(self, name, sql, schema, given)

    def _repr_html_(self) -> str:
        """A table of the steps, for notebooks."""
        found: str = importlib.import_module("ridgeline.streams.preview").application_html(self)
        return found

    def add_policy(self, policy: Policy) -> None:
        """Let a policy decide on changes of the running application: see `ridgeline.policies`."""
        self._refuse_if_running("add_policy")
        _check_decider("the policy", policy, "decide", "Policy")
        self.policies.append(policy)

    def promise(self, *promises: Promise) -> None:
        """Promise what the application keeps: `app.promise(latency("store", p99="2s"))`.

        See `ridgeline.sla`.
        """
        self._refuse_if_running("promise")
        for promise in promises:
            if not isinstance(promise, Promise):
                remedy = 'make it with a function of `ridgeline.sla`, such as `latency("sink", p99="2s")`'
                raise StructureError(f"a promise is {shorten(promise)}", remedy)
            if any(promise.name == one.name for one in self.promises):
                raise StructureError(f"the promise `{promise.name}` is given twice", "leave one of them out")
            self.promises.append(promise)

    def add_migrations(self, operator: Operator | str, *migrations: Migration) -> None:
        """Give an operator migrations of its state: `app.add_migrations("sums", Migration(was="sum"))`.

        `operator`: the operator, or its name. They come after those of its class. Raises RidgelineError if
        the application has no such operator. See `docs/releases.md`.
        """
        self._refuse_if_running("add_migrations")
        for place, added in enumerate(self.operators):
            if added.operator is operator or added.name == operator:
                self.operators[place] = replace(added, migrations=(*added.migrations, *migrations))
                return
        name = operator if isinstance(operator, str) else type(operator).__name__
        known = did_you_mean(name, [added.name for added in self.operators])
        raise RidgelineError(f"migrations are given for `{name}`, which was not added; {known}")

    def add_module(self, name: str, module: M, **attributes: Unpack[OperatorAttributes]) -> M:
        """Add a module, an operator that is made of operators, under a unique name.

        `attributes` are those of its operators that do not say otherwise themselves. Returns the module, for
        its ports. Raises StructureError for what is no module, or was added.
        """
        self._refuse_if_running("add_module")
        self._check_new(Module, name, module)
        self.modules.append(AddedModule(name, module, attributes, len(self.operators)))
        return module

    def add_affinity(self, rule: AffinityRule) -> None:
        """Let operators run together, or apart: `app.add_affinity(AffinityRule("AFFINITY", ["a", "b"]))`.

        In a module names are the module's own.
        """
        self._refuse_if_running("add_affinity")
        self.affinity.append(rule)

    def add_stream(
        self,
        name: str,
        source: OutputPoint[T] | OutputProxy[T],
        *sinks: Entry[T],
        locality: AnyLocality | Mapping[Entry[T], AnyLocality] | None = None,
        persist: Persist | None = None,
        decoupled: bool | Collection[Entry[T]] = False,
        keep: float | str = KEEP,
    ) -> None:
        """Join one output port to one or more input ports: `add_stream("words", split.words, count.words)`.

        `locality`: where the operators of the stream run; default: the planner decides. A mapping gives some
        of the sinks a locality of their own: `locality={count.words: "CONTAINER_LOCAL"}`.

        `persist`: an output operator that writes the stream down beside its sinks. It is added under the name
        `words_persisted`, unless it is in the application already. An input port chooses one of several.

        `decoupled`: all sinks, or some of them, read the stream from a durable queue. They and what follows
        them are in another region of the application then. It has windows and commits of its own, and nothing
        before it waits for it until the queue is full. `keep` says for how long rows stay that were read.
        """
        self._refuse_if_running("add_stream")
        check_name("stream", name)
        if any(one.name == name for one in self.streams):
            remedy = "give each stream a name of its own, and all its sinks in one call"
            raise StructureError(f"there is a stream `{name}` already", remedy)
        check_end("the source of the stream", source, entry=False)
        self._check_added("the source of the stream", source)
        for place, sink in enumerate(sinks):
            check_end("the sink of the stream", sink, entry=True)
            self._check_added("the sink of the stream", sink)
            if _among(sink, sinks[:place]):
                raise StructureError(f"`{sink.name}` is a sink of the stream twice", "name it once")
        if isinstance(locality, Mapping):
            _refuse_others("a locality is given for", locality, sinks, "name one of its sinks")
        _check_duration("`keep` of the stream", keep)
        apart = _decoupled(sinks, decoupled)
        ports = () if persist is None else (self._writing(f"{name}_persisted", persist),)
        if not sinks and not ports:
            remedy = "name one or more input ports after its output port"
            raise StructureError("the stream has no sinks", remedy)
        self.streams.append(
            AddedStream(name, source, (*sinks, *ports), locality, persisted=ports, decoupled=apart, keep=keep)
        )

    def _writing(self, name: str, given: object) -> InputPoint[Any]:
        """The port that an operator writes by; it is added under a name unless it is there."""
        port = _port(given)
        if not _among(port.operator, (one.operator for one in self.operators)):
            self.add_operator(name, port.operator)
        return port

    def _check_added(self, role: str, thing: Any) -> Operator | Module:
        """The operator or module, or that of a port. Raises StructureError for one that was not added."""
        is_port = not isinstance(thing, (Operator, Module))
        owner: Any = owner_of(thing) if is_port else thing
        if _among(owner, (one.instance for one in self.added)):
            return owner
        noun = "module" if isinstance(owner, Module) else "operator"
        remedy = f"add it by `app.add_{noun}(name, {noun})`; a module is reached by its own ports"
        alike = [one.name for one in self.operators if is_port and type(one.operator) is type(owner)]
        if alike:
            remedy = f"did you mean `{alike[0]}.{thing.name}`? A module is reached by its own ports"
        what = f"{role}, `{thing.name}`, belongs to" if is_port else f"{role} is"
        raise StructureError(f"{what} a `{type(owner).__name__}` that was not added", remedy)

    @property
    def added(self) -> list[Added]:
        """All operators and modules."""
        return [*self.operators, *self.modules]

    def _check_new(self, kind: type[Operator | Module], name: object, thing: object) -> None:
        """Raise StructureError unless an operator, or a module, can be added under a name."""
        noun, other = ("operator", "module") if kind is Operator else ("module", "operator")
        check_name(noun, name)
        if isinstance(thing, type) and issubclass(thing, kind):
            what = f"the class `{thing.__name__}` was added as `{name}`, not {_AN[noun]}"
            raise StructureError(what, f"add an instance: `{thing.__name__}(...)`")
        if isinstance(thing, (Operator, Module)) and not isinstance(thing, kind):
            what = f"the {other} `{type(thing).__name__}` was added as {_AN[noun]}"
            raise StructureError(what, f"add it with `add_{other}`")
        if not isinstance(thing, kind):
            what = f"{shorten(thing)} was added as `{name}`, which is no {noun}"
            raise StructureError(what, f"add an instance of a subclass of `{kind.__name__}`")
        own = "operator" if any(one.name == name for one in self.operators) else "module"
        if own == "operator" or any(one.name == name for one in self.modules):
            raise StructureError(f"there is {_AN[own]} `{name}` already", "give each a name of its own")
        same = [one.name for one in self.added if one.instance is thing]
        if same:
            kind_name = type(thing).__name__
            what = f"the same `{kind_name}` is added twice, as `{same[0]}` and `{name}`"
            raise StructureError(what, f"make a new `{kind_name}(...)` for each")

    def set_region(
        self,
        name: str,
        *operators: Operator | Module,
        window: float | str | None = None,
        **attributes: Unpack[ApplicationAttributes],
    ) -> None:
        """Name the region of these operators, and give it a window and attributes of its own.

        Regions come from streams that are `decoupled`. One that is not named here has the name of its first
        operator. `window` and `attributes` that are not given are those of the application:
        `app.set_region("slow", store, window="1s", windows_in_flight=2)`.
        """
        self._refuse_if_running("set_region")
        check_name("region", name)
        if not operators:
            raise StructureError(
                f"region `{name}` names no operator", f'give one: `set_region("{name}", store)`'
            )
        for one in operators:
            self._check_added(f"what region `{name}` names", one)
        if window is not None:
            _check_duration(f"the window of region `{name}`", window)
        self.regions.append(AddedRegion(name, operators, window, attributes))

    def dead_letters(self, output: Takes[DeadLetter, Operator] | InputPoint[DeadLetter]) -> None:
        """Give the tuples that operators leave out (`on_error=SKIP`) to an output operator, as `DeadLetter`.

        `output` is added as `dead_letters` if it is not in the application already. It gets those of all
        operators; a stream from `parse.dead_letters` takes those of one operator elsewhere. Each is written
        once, with its window. Where `on_error` is said nowhere, all operators leave tuples out.
        """
        self.dead_letter_port = self._writing("dead_letters", output)

    @overload
    def set_attribute(self, target: Operator | Module, **attributes: Unpack[OperatorAttributes]) -> None: ...
    @overload
    def set_attribute(self, target: Entry[Any], **attributes: Unpack[InputPortAttributes]) -> None: ...
    @overload
    def set_attribute(
        self, target: OutputPoint[Any] | OutputProxy[Any], **attributes: Unpack[OutputPortAttributes]
    ) -> None: ...
    @overload
    def set_attribute(
        self,
        target: OutputPoint[Any] | OutputProxy[Any],
        *,
        unifier: Literal[True],
        **attributes: Unpack[UnifierAttributes],
    ) -> None: ...

    @overload
    def set_attribute(self, target: str, **attributes: Unpack[StreamAttributes]) -> None: ...

    def set_attribute(self, target: object, *, unifier: bool = False, **attributes: Any) -> None:
        """Set attributes of an operator, a port, the unifiers of an output port, or a stream, by its name.

        `app.set_attribute(sum.data, partition_parallel=True)`,
        `app.set_attribute(sum.total, unifier=True, memory_mb=512)`. A later call wins over an earlier one,
        and over what `add_operator` was given. Those of a module hold for its operators that do not say
        otherwise; those of a module's port for the ports that it leads to.
        """
        stream = next((one for one in self.streams if isinstance(target, str) and one.name == target), None)
        if unifier and not isinstance(target, (OutputPoint, OutputProxy)):
            shown = shorten(target) if stream is None else f"the stream `{stream.name}`"
            if isinstance(target, (Operator, Module)):
                shown = f"a `{type(target).__name__}`"
            what = f"`set_attribute(..., unifier=True)` was given {shown}, which has no unifier"
            remedy = "give the output port whose partitions it merges, such as `balances.balances`"
            raise StructureError(what, remedy)
        if stream is None and not isinstance(target, _WITH_ATTRIBUTES):
            what = f"`set_attribute` was given {shorten(target)}, which is no operator, port or stream of it"
            remedy = "give an operator that was added, a port such as `balances.payments`, or a stream's name"
            if isinstance(target, Application):
                remedy = "give attributes of the application to it: `Application(name, windows_kept=3)`"
            raise StructureError(what, remedy)
        if stream is not None:
            for name in attributes.keys() - {"locality"}:
                remedy = "give `locality`; others are given to operators and ports"
                raise StructureError(f"there is no attribute `{name}` of streams", remedy)
            stream.locality = attributes["locality"]
            return
        self._refuse_if_running("set_attribute")
        owner = self._check_added("what `set_attribute` was given", target)
        port = "" if owner is target else str(getattr(target, "name", ""))
        self.give(owner, "unifier" if unifier else "port" if port else "attribute", port, attributes)

    def give(self, owner: Operator | Module, kind: Kind, port: str, attributes: Values) -> None:
        """Give attributes of a kind to an operator or module that was added; these win. `port`: of which."""
        lists: Any = self.operators, self.modules
        for added in lists:
            for place, one in enumerate(added):
                if one.instance is owner:
                    added[place] = one.given(kind, port, attributes)

    def start(  # noqa: PLR0913  the options of a run
        self,
        master: str | None = None,
        *,
        checkpoint: str | None = None,
        windows: int | None = None,
        conf: Mapping[str, str] | None = None,
        properties: Mapping[str, object] | None = None,
        attributes: Mapping[str, object] | None = None,
        port: int | None = 0,
        event_log: str | None = None,
        quiet: bool = False,
        context: SparkContext | None = None,
        **resume: Unpack[ResumeOptions],
    ) -> Handle:
        """Run the application on Spark, in a thread of this process.

        Returns when the first window is about to run.

        Args:
            master: Spark's master. Default: that of `spark-submit`, if it started this program; else
                `local[*]`.
            checkpoint: The checkpoint folder; a run that it holds is resumed. Default: a fresh one.
            windows: Stop after this many windows. Default: when all inputs have finished, or at `stop()`.
            conf: Settings of Spark.
            properties: Properties of operators, as `-D`: `{"range.count": "5"}`. The checkpoint keeps them.
            attributes: Attributes, as `--attribute`: `{"sum.partitions": "2"}`.
            port: Of the web service; 0: a free one, None: no web service.
            event_log: A file ending in `.jsonl` or `.parquet` for all events.
            quiet: Console outputs print nothing.
            context: A SparkContext to use, with its own master and settings. It is not stopped.
            reset_properties: Forget the properties that the checkpoint keeps from runs before.
            reset_changes: Forget the changes of the plan that the checkpoint keeps from runs before.
            drop_state: Operators of the run before whose state is not wanted any more, or single states of
                theirs: `operator.state`.
            rename: New names of operators by those of the run before; they keep their state. So do
                single states: `{"operator.old": "operator.new"}`.
            from_window: Start again from this window, which the checkpoint keeps. Outputs take back what
                came after it.
            region: The region that `from_window` is of, where decoupled streams make several.

        Returns:
            The handle: metrics as tables, changes of what runs, `wait()`, `stop()`.

        Raises:
            ValidationError: If the application is not valid; it names all faults.
            RidgelineError: If it cannot be started.
        """
        # By name at call time: what authors write imports nothing of what runs it.
        service = importlib.import_module("ridgeline.service.handle")
        handle: Handle = service.start(
            self,
            master=master,
            checkpoint=checkpoint,
            windows=windows,
            conf=conf,
            properties=properties,
            attributes=attributes,
            port=port,
            event_log=event_log,
            quiet=quiet,
            context=context,
            resume=resume,
        )
        _RUNNING[self] = ref(handle)
        return handle

    def _refuse_if_running(self, method: str) -> None:
        """Raise ChangeError while a run that `start` began is running: it would not notice."""
        handle = _RUNNING[self]() if self in _RUNNING else None
        if handle is not None and handle.is_running:
            what = f"`{method}` was called on application `{self.name}`, which runs; it would change nothing"
            how = f"`with handle.plan_change() as plan: plan.{method}(...)`"
            if method not in ("add_operator", "add_stream", "set_attribute"):
                how = "stop it, and start it anew with the same `checkpoint`"
            raise ChangeError(f"{what}; to change what runs: {how}")
