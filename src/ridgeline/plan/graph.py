"""An application by name: frozen data, of which modules, options, edits and regions make other data.

Authors name operators, modules and ports by the objects. Here an operator is a value of its name, and a port
is a `PortRef`. What takes an operator away, renames or replaces it maps names to names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ridgeline.api.affinity import AffinityRule
from ridgeline.api.application import KEEP, AddedModule, AddedRegion, AddedStream, Application, Node, Values
from ridgeline.api.columns.schema import Schema
from ridgeline.api.module import owner_of
from ridgeline.api.operator import Operator, OperatorType, operator_type
from ridgeline.api.policy import Policy, Promise
from ridgeline.plan.placement_rule import PlacementRule
from ridgeline.plan.region import PortRef

_SAME: Mapping[str, str] = {}
_LEAST = 2
"""Operators of a rule without hosts."""


@dataclass(frozen=True, slots=True)
class Sink:
    """A sink of a stream. `persisted`: it only writes the stream down. `decoupled`: it reads from a queue."""

    locality: Any = None
    persisted: bool = False
    decoupled: bool = False


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream by name. `source`: None if a fault hides it. `keep`, `queue`: as of `AddedStream`."""

    name: str
    source: PortRef | None
    sinks: Mapping[PortRef, Sink]
    keep: float | str = KEEP
    queue: str = ""

    def placed(self, locality: Any) -> Stream:
        """It with a locality at all sinks but those that only write it down."""
        sinks = {
            end: one if one.persisted else replace(one, locality=locality) for end, one in self.sinks.items()
        }
        return replace(self, sinks=sinks)


@dataclass(frozen=True, slots=True)
class Part(AddedModule):
    """A module. `ends`: the ports inside that each of its ports leads to; None if it is not expanded.

    `instance`: once expanded a copy, which `populate` was called on. `schemas`: of ports that declare one.
    `failed`: a fault hides what it is made of. Others: as of `AddedModule`.
    """

    ends: Mapping[str, tuple[PortRef, ...]] | None = None
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    failed: bool = False

    @property
    def kind(self) -> str:
        """The name of its class."""
        return type(self.module).__name__

    @property
    def declared(self) -> OperatorType:
        """The declarations of its class."""
        return operator_type(type(self.module))

    def reached(self, port: str) -> list[PortRef]:
        """The ports inside that a stream reaches which names one of its ports; that one, if not expanded."""
        if self.ends is None:
            return [PortRef(self.name, port)]
        own = ((self.name, port),)
        entering = port in self.declared.inputs
        return [
            replace(end, through=(*own, *end.through) if entering else (*end.through, *own))
            for end in self.ends[port]
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """An application by name.

    `rules`: affinity rules, each with the module that it is of; those of a region are settled. `exempt`:
    ports that need no stream, since a port of a module stands for them. `dead_letters`: where those of all
    operators go; `letters_of_others`: where those of other regions come in. `region`: which one this is;
    `first_id`: its ids are greater; `elsewhere`: the operators of others.
    """

    name: str
    window: float | str
    attributes: Values
    nodes: Mapping[str, Node]
    streams: Mapping[str, Stream]
    parts: Mapping[str, Part]
    rules: tuple[tuple[str, Any], ...] = ()
    regions: tuple[AddedRegion, ...] = ()
    policies: tuple[Policy, ...] = ()
    promises: tuple[Promise, ...] = ()
    dead_letters: PortRef | None = None
    letters_of_others: tuple[PortRef, ...] = ()
    exempt: frozenset[PortRef] = frozenset()
    region: str = ""
    first_id: int = 0
    elsewhere: frozenset[str] = frozenset()

    @property
    def names(self) -> list[str]:
        """The names of all operators and modules."""
        return [*self.nodes, *self.parts]

    @property
    def ends(self) -> frozenset[PortRef]:
        """The ports that streams lead from and to."""
        every = self.streams.values()
        return frozenset(end for one in every for end in (one.source, *one.sinks) if end is not None)

    def put(self, one: Node | Part) -> Graph:
        """It with an operator, or a module, in the place of one of that name."""
        if isinstance(one, Part):
            return replace(self, parts={**self.parts, one.name: one})
        return replace(self, nodes={**self.nodes, one.name: one})

    def put_stream(self, stream: Stream) -> Graph:
        """It with a stream, in the place of one of that name."""
        return replace(self, streams={**self.streams, stream.name: stream})

    def without_streams(self, names: Collection[str]) -> Graph:
        """It without some streams."""
        return replace(self, streams={name: one for name, one in self.streams.items() if name not in names})

    def moved(
        self, move: Callable[[PortRef], PortRef | None], rename: Callable[[Any], Any] = lambda name: name
    ) -> Graph:
        """It, with other ports and names in all that names operators; the operators stay.

        Where there is None in the place of one, what is said of it goes, and a stream that begins there. One
        whose sinks are all gone has none.
        """

        def those(ends: Collection[PortRef]) -> tuple[PortRef, ...]:
            return tuple(end for end in map(move, ends) if end is not None)

        streams = {}
        for name, one in self.streams.items():
            source = one.source and move(one.source)
            sinks = {end: sink for old, sink in one.sinks.items() if (end := move(old)) is not None}
            if source is not None:
                streams[name] = replace(one, source=source, sinks=sinks)
        regions = [(one, _renamed(one.operators, rename)) for one in self.regions]
        return replace(
            self,
            streams=streams,
            parts={
                name: replace(one, ends=one.ends and {port: those(ends) for port, ends in one.ends.items()})
                for name, one in self.parts.items()
            },
            rules=tuple(
                (module, left)
                for module, rule in self.rules
                if (left := moved_rule(rule, rename)) is not None
            ),
            regions=tuple(replace(one, operators=left) for one, left in regions if left or not one.operators),
            dead_letters=self.dead_letters and move(self.dead_letters),
            exempt=frozenset(those(self.exempt)),
        )

    def without(self, gone: Collection[str]) -> Graph:
        """It without some operators, and all that names them. A module of which nothing is left is gone."""
        nodes = {name: one for name, one in self.nodes.items() if name not in gone}

        def rename(one: Any) -> Any:
            inside = f"{one}."
            emptied = any(name.startswith(inside) for name in gone)
            is_empty = emptied and not any(name.startswith(inside) for name in nodes)
            return None if isinstance(one, str) and (one in gone or is_empty) else one

        left = replace(self, nodes=nodes)
        return left.moved(lambda end: None if end.operator in gone else end, rename)

    def renamed(self, name: str, new: str) -> Graph:
        """It with another name of an operator, which keeps its place."""
        nodes = {
            (new if one == name else one): (replace(node, name=new) if one == name else node)
            for one, node in self.nodes.items()
        }
        return replace(self, nodes=nodes).moved(
            lambda end: replace(end, operator=new) if end.operator == name else end,
            lambda one: new if one == name else one,
        )

    def replaced(
        self, name: str, operator: Operator, ports: Mapping[str, str] = _SAME
    ) -> tuple[Graph, list[tuple[str, str]]]:
        """It with another operator of a name, with what is said of the ports that this one has.

        `ports`: names of the new ports by those of the old ones, where they differ. Also returns the streams,
        each with the port, that the new operator has no port for.
        """
        node = self.nodes[name]
        before, now = operator_type(type(node.operator)), operator_type(type(operator))

        def place(port: str) -> str | None:
            new = ports.get(port, port)
            return new if new in (now.inputs if port in before.inputs else now.every_output) else None

        def move(end: PortRef) -> PortRef | None:
            if end.operator != name:
                return end
            port = place(end.port)
            return None if port is None else replace(end, port=port)

        def those(of_ports: Mapping[str, Values]) -> Mapping[str, Values]:
            return {new: values for port, values in of_ports.items() if (new := place(port)) is not None}

        ends = [(one.name, end) for one in self.streams.values() for end in (one.source, *one.sinks)]
        ends.append(("dead_letters", self.dead_letters))
        lost = [(stream, end.port) for stream, end in ends if end is not None and move(end) is None]
        new = replace(node, instance=operator, ports=those(node.ports), unifiers=those(node.unifiers))
        return self.moved(move).put(new), lost


def _renamed(operators: Collection[Any], rename: Callable[[Any], Any]) -> tuple[Any, ...]:
    return tuple(one for one in map(rename, operators) if one is not None)


def moved_rule(rule: Any, rename: Callable[[Any], Any]) -> Any:
    """An affinity rule of what is in the place of operators; None if it names too few then."""
    # what is no list is found by the checks of the application
    if not isinstance(rule, (AffinityRule, PlacementRule)) or not isinstance(rule.operators, (list, tuple)):
        return rule
    left = _renamed(rule.operators, rename)
    is_enough = len(left) == len(rule.operators) or len(left) >= (1 if rule.hosts else _LEAST)
    return replace(rule, operators=left) if is_enough else None


class Scope:
    """What is added at one place: by the author of an application, or by one call of `populate`.

    `module`: the full name of the module that is populated; "" for the application.
    """

    def __init__(self, app: Application, module: str = "") -> None:
        self._app, self._module = app, module
        self._prefix = f"{module}." if module else ""
        self._names = {id(one.instance): f"{self._prefix}{one.name}" for one in app.added}

    def name(self, thing: Any) -> Any:
        """The full name of an operator or a module; what is none of these stays as it is."""
        return self._names.get(id(thing), thing)

    def port(self, end: Any) -> PortRef | None:
        """A port by name; None for one of what is not here."""
        name = self._names.get(id(owner_of(end)))
        return None if name is None else PortRef(name, end.name)

    def graph(self) -> Graph:
        """It by name; its modules are not expanded."""
        app, prefix = self._app, self._prefix
        nodes = [replace(one, name=f"{prefix}{one.name}") for one in app.operators]
        parts = [
            Part(**{at.name: getattr(one, at.name) for at in fields(one)} | {"name": f"{prefix}{one.name}"})
            for one in app.modules
        ]
        streams = [self._stream(one) for one in app.streams]
        letters = app.dead_letter_port
        return Graph(
            name=app.name,
            window=app.window,
            attributes=dict(app.attributes),
            nodes={node.name: node for node in nodes},
            streams={stream.name: stream for stream in streams},
            parts={part.name: part for part in parts},
            rules=tuple((self._module, moved_rule(rule, self._full)) for rule in app.affinity),
            regions=tuple(
                replace(one, operators=tuple(map(self.name, one.operators))) for one in app.regions
            ),
            policies=tuple(app.policies),
            promises=tuple(app.promises),
            dead_letters=None if letters is None else self.port(letters),
        )

    def _full(self, name: Any) -> Any:
        """What an affinity rule names, by its full name."""
        return f"{self._prefix}{name}" if isinstance(name, str) else self.name(name)

    def _stream(self, added: AddedStream) -> Stream:
        """What was added as a stream, with the ends that are here."""
        name, own = f"{self._prefix}{added.name}", added.locality
        sinks = {}
        for end in added.sinks:
            persisted = any(end is one for one in added.persisted)
            locality = own.get(end) if isinstance(own, Mapping) else None if persisted else own
            one = Sink(locality, persisted, decoupled=any(end is other for other in added.decoupled))
            if (port := self.port(end)) is not None:
                sinks[port] = one
        return Stream(name, self.port(added.source), sinks, added.keep, added.queue)


def graph_of(app: Application) -> Graph:
    """A valid application by name, as its author wrote it: its modules are not expanded."""
    return Scope(app).graph()
