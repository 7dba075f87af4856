"""The streams of the plan that streams as values stand for: their names, and who reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeAlias

from typing_extensions import TypeVar

from ridgeline.api import (
    Application,
    InputPoint,
    InputProxy,
    Module,
    Operator,
    OperatorAttributes,
    OutputPoint,
    OutputProxy,
    RidgelineError,
)
from ridgeline.api.application import AddedStream
from ridgeline.api.errors import did_you_mean, listed, shorten
from ridgeline.api.module import owner_of
from ridgeline.api.operator import operator_type

if TYPE_CHECKING:
    from ridgeline.streams.stream import Stream

T_co = TypeVar("T_co", covariant=True, default=Any)
Made = TypeVar("Made", default=Any)
Source: TypeAlias = OutputPoint[Any] | OutputProxy[Any] | InputProxy[Any]
"""Where tuples come from: an output port; within a module an input port of it, too."""
Sink: TypeAlias = InputPoint[Any] | InputProxy[Any]
Part: TypeAlias = Operator | Module
UNREAD = 'let a step read the stream, or write it: `.write("name")`'
"""What to do with a stream that nothing reads."""
_SCHEMA = "annotate the function's return type, or give the step `schema=...`"


def name_of(app: Application, part: Part) -> str:
    """The name under which a part was added; that of its class if it was not."""
    names = [one.name for one in app.added if one.instance is part]
    return names[0] if names else type(part).__name__


class Decoupling(NamedTuple):
    """A durable queue between a stream and its readers. `queue`: the operator that writes it."""

    queue: str
    keep: float | str


def connect(app: Application, source: Source, sink: Sink, decoupling: Decoupling | None = None) -> None:
    """Let a port read a source: one more sink of its stream, or a stream with the name `stream_name`."""
    if isinstance(source, InputProxy):
        source.connect(sink)
        return
    added = stream_of(app, source)
    if added is None:
        app.add_stream(stream_name(app, source), source, sink)
        added = app.streams[-1]
    else:
        own = len(added.sinks) - len(added.persisted)
        added.sinks = (*added.sinks[:own], sink, *added.sinks[own:])
    if decoupling is None:
        return
    if added.queue not in ("", decoupling.queue):
        msg = f"stream `{added.name}` has the queue `{added.queue}` already, which all its readers share; "
        msg += f'give `decouple("{added.queue}")`'
        raise RidgelineError(msg)
    added.decoupled = (*added.decoupled, sink)
    added.queue, added.keep = decoupling


def stream_name(app: Application, source: OutputPoint[Any] | OutputProxy[Any]) -> str:
    """The name of a new stream: that of the operator, with that of the port if there are several.

    A name that is in use gets a number.
    """
    part = owner_of(source)
    name = name_of(app, part)
    if source.name != "output" and outputs_of(part) != [source.name]:
        name = f"{name}_{source.name}"
    used = {added.name for added in app.streams}
    numbers = (f"{name}_{number}" for number in range(2, len(used) + 3))
    return name if name not in used else next(one for one in numbers if one not in used)


def check_name(name: object, what: object) -> None:
    """Raise RidgelineError for a name that is no text. `what`: the step, for the error."""
    if not isinstance(name, str):
        msg = f"the first argument of a step is its name, a text; got {shorten(name)} for a "
        msg += f'`{type(what).__name__}`; give the name first: `filter("valid", ...)`'
        raise RidgelineError(msg)


def check_same(app: Application, name: str, other: Application) -> None:
    """Raise RidgelineError for a stream or table of another application. `name`: of the step."""
    if other is not app:
        what = f"step `{name}` of application `{app.name}` got a stream of another one, `{other.name}`"
        raise RidgelineError(f"{what}; read its input in this application, by `app.read`")


def add(app: Application, name: str, part: Any, attributes: Any) -> None:
    """Add an operator or a module, unless it was added before.

    Raises TypeError for anything else, RidgelineError for a name that is no text.
    """
    check_name(name, part)
    if isinstance(part, Module):
        if not any(one.module is part for one in app.modules):
            app.add_module(name, part, **attributes)
    elif isinstance(part, Operator):
        if not any(one.operator is part for one in app.operators):
            app.add_operator(name, part, **attributes)
    else:
        raise TypeError(
            f"`{name}` is {shorten(part)}, which is no operator; give an instance of an operator or module"
        )


def outputs_of(part: Part) -> list[str]:
    """The names of output ports, without error ports."""
    return [name for name, port in operator_type(type(part)).outputs.items() if not port.error]


def input_of(name: str, part: Part, port: str | None = None) -> Sink:
    """The input port that a stream leads to: the one with this name, else the only one that needs a stream.

    `name`: of the step, for errors. Raises RidgelineError if it is not clear which.
    """
    declared = operator_type(type(part)).inputs
    names = [one for one, declaration in declared.items() if not declaration.optional] or list(declared)
    if port is None and len(names) == 1:
        port = names[0]
    if port is not None and port in declared:
        found: Sink = getattr(part, port)
        return found
    kind = type(part).__name__
    if not declared:
        msg = f"step `{name}` is a `{kind}`, which takes no tuples; `app.read(name, input)` adds an input"
    elif port is None:
        what = f"step `{name}` is a `{kind}`, which has several input ports: {listed(names)}"
        msg = f'{what}; name one, `port="{names[0]}"`, and lead other streams to the others by `into`'
    else:
        msg = f"step `{name}` is a `{kind}`, which has no input port `{port}`; its ports: {listed(declared)}"
    raise RidgelineError(msg)


def stream_of(app: Application, source: Source) -> AddedStream | None:
    """The stream that begins at a port; None while no step reads it."""
    return next((added for added in app.streams if added.source is source), None)


def advise(app: Application, operator: Operator, **remedies: str) -> None:
    """Let faults of an operator advise this: by property, and of the output port by "output"."""
    added = next(one for one in app.operators if one.operator is operator)
    added.remedies.update(remedies)


def no_step(name: str, what: str, remedy: str) -> AttributeError:
    """The error of a step that is called of what is no stream. `what`: what it is called of."""
    if name.startswith("_"):
        return AttributeError(name)
    return AttributeError(f"{what} and has no step `{name}`; {remedy}")


class NoStream:
    """The base of what steps of a stream give that is no stream itself.

    `no_stream`: what it is, and what to do in place of the step `{name}`.
    """

    no_stream: ClassVar[tuple[str, str]]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            what, remedy = self.no_stream
            raise no_step(name, what, remedy.format(name=name))


class Steps(Generic[T_co]):
    """The base of families of steps, which are methods of `Stream`."""

    app: Application
    source: Source
    _decoupling: Decoupling | None

    def into(self, port: InputPoint[T_co] | InputProxy[T_co]) -> None:
        """Lead the tuples to an input port of an operator that was added: one more reader of the stream."""
        connect(self.app, self.source, port, self._decoupling)

    def _step(
        self,
        name: str,
        operator: Operator,
        attributes: OperatorAttributes,
        input: str = "input",
        output: str = "output",
    ) -> Stream[Any]:
        """Add an operator that reads this stream at one of its ports; return the stream of an output port."""
        from ridgeline.streams.stream import Stream

        check_name(name, operator)
        self.app.add_operator(name, operator, **attributes)
        advise(self.app, operator, output=UNREAD, schema=_SCHEMA)
        self.into(getattr(operator, input))
        return Stream(self.app, getattr(operator, output))


class Pair(NoStream, tuple[Any, Any]):
    """The two streams of `split`, to be taken apart."""

    __slots__ = ()

    no_stream = (
        "`split(...)` is a pair of streams",
        "take them apart: `matching, others = stream.split(...)`, then `matching.{name}(...)`",
    )


class Outputs:
    """The streams of an operator with several outputs: `parts.valid`, `parts["valid"]`.

    Error ports are among them. Raises AttributeError for a name that is no port.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Sampler
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Number(NamedTuple):
        ...     value: int
        >>> app = Application("parts")
        >>> numbers = app.read("numbers", ListInput(Number, [(n,) for n in range(6)]))
        >>> parts = numbers.process("sampler", Sampler(share=0.5))
        >>> sorted(parts)
        ['output', 'rest']
        >>> sink = parts.rest.write("rest", CollectorSink(Number))
        >>> sink = parts.output.write("chosen", CollectorSink(Number))
        >>> run = run_local(app)
        >>> len(run.collected("rest") + run.collected("chosen"))
        6
    """

    def __init__(self, name: str, streams: Mapping[str, Stream[Any]]) -> None:
        self._name = name
        self._streams = dict(streams)

    def __getattr__(self, name: str) -> Stream[Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self._streams:
            raise AttributeError(
                f"step `{self._name}` has no output port `{name}`; {did_you_mean(name, self._streams)}"
            )
        return self._streams[name]

    def __getitem__(self, name: str) -> Stream[Any]:
        try:
            return self.__getattr__(name)
        except AttributeError as error:
            raise KeyError(*error.args) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._streams)

    def __len__(self) -> int:
        return len(self._streams)

    def __repr__(self) -> str:
        return f"Outputs({self._name}: {', '.join(self._streams)})"
