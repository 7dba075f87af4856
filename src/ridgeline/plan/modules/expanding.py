"""Expand modules: a graph whose operators are all named, `clean.cheap` for one inside of `clean`.

`expand` calls `populate` of each module on a view of its own, and joins what the views hold.
"""

from __future__ import annotations

import copy
import inspect
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ridgeline.api.application import Application, Node, Values
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import Faults, described, did_you_mean, listed
from ridgeline.api.module import Module, OutputProxy
from ridgeline.api.operator import operator_type
from ridgeline.api.ports import InputPort
from ridgeline.plan.graph import Graph, Part, Scope, Stream
from ridgeline.plan.overrides import key_splitter
from ridgeline.plan.region import PortRef
from ridgeline.plan.validate.operators import set_properties
from ridgeline.plan.validate.ports import declared_schema

_API = str(Path(inspect.getfile(Application)).parent)
_USELESS = (
    *("key", "declared_codec", "parallel", "order"),
    *("unifier", "error", "timestamp", "lateness_seconds", "divided_by"),
)
"""What ports of operators alone have."""
_UNSAID = (None, False, ())  # by identity: 0 is no False here
_DEEPEST = 16
"""More modules inside each other are taken for one that contains itself."""


@dataclass(frozen=True, slots=True)
class Expanded:
    """An application whose modules are expanded.

    `connected`: the ports of modules that a stream, or a port of a module around, names. `properties`:
    options that are left for operators.
    """

    graph: Graph
    connected: frozenset[PortRef]
    properties: dict[str, object]


def expand(faults: Faults, app: Application, properties: Mapping[str, object]) -> Expanded:
    """Expand the modules of an application; adds faults. The application is not changed.

    `properties` are options by name, as of `validate`: those of modules are used up here.
    """
    expander = _Expander(faults, app, properties)
    graph = expander.inside(Scope(app), {}, [])
    return Expanded(graph, frozenset(expander.connected), dict(expander.left(graph)))


class _Expander:
    """Walks through the application and its modules, depth first, in the order of adding."""

    def __init__(self, faults: Faults, app: Application, properties: Mapping[str, object]) -> None:
        self.faults = faults
        self.root = app
        self.properties = properties
        self.connected: set[PortRef] = set()
        self.homes: dict[int, tuple[str, object]] = {}
        """The full names of operators and modules, each with the author's instance, by the `id` of that."""
        self.used: set[str] = set()
        self.endless = False

    def inside(self, scope: Scope, defaults: Values, above: list[Module]) -> Graph:
        """What a scope holds, expanded; `above`: the modules that it is in, the outermost first.

        `defaults`: attributes of operators that do not say otherwise.
        """
        graph = scope.graph()
        nodes, parts, streams = dict[str, Node](), dict[str, Part](), dict[str, Stream]()
        rules = list(graph.rules)
        for position, node in enumerate([*graph.nodes.values(), None]):
            # a module stands among the operators where it was added: ids and states follow that order
            for part in [part for part in graph.parts.values() if part.position == position]:
                inner = self.module(graph, part, defaults, above)
                nodes.update(inner.nodes)
                parts.update(inner.parts)
                streams.update(inner.streams)
                rules += inner.rules
            if node is not None and self.is_first(node.name, node.operator):
                nodes[node.name] = replace(node, attributes={**defaults, **node.attributes})
        own = {name: self.joined(stream, parts) for name, stream in graph.streams.items()}
        regions = [
            replace(one, operators=tuple(name for of in one.operators for name in _inside(of, nodes)))
            for one in graph.regions
        ]
        return replace(
            graph,
            nodes=nodes,
            parts=parts,
            streams={**own, **streams},
            rules=tuple(rules),
            regions=tuple(regions),
        )

    def is_first(self, name: str, thing: object) -> bool:
        """True, or a fault, for an operator or a module that is at no other place."""
        first, _ = self.homes.setdefault(id(thing), (name, thing))
        if first != name:
            kind = type(thing).__name__
            what = f"the same `{kind}` is added twice, as `{first}` and `{name}`"
            self.faults.add(name, what, f"make a new `{kind}(...)` for each")
        return first == name

    def joined(self, stream: Stream, parts: Mapping[str, Part]) -> Stream:
        """A stream between the operators that ports of modules lead to."""
        source = next(iter(self.reached(stream.source, parts)), None) if stream.source else None
        way = source.through if source else ()
        sinks = {}
        for end, sink in stream.sinks.items():
            for one in self.reached(end, parts):
                if one in sinks:
                    self.faults.add(stream.name, f"`{one}` is a sink of the stream twice", "name it once")
                sinks[replace(one, through=(*way, *one.through))] = sink
        return replace(stream, source=source, sinks=sinks)

    def reached(self, end: PortRef, parts: Mapping[str, Part]) -> list[PortRef]:
        """The ports of operators that an end leads to."""
        if end.operator not in parts:
            return [end]
        self.connected.add(end)
        return parts[end.operator].reached(end.port)

    def module(self, graph: Graph, part: Part, defaults: Values, above: list[Module]) -> Graph:
        """What one module is made of, with itself. Nothing is expanded after one that contains itself."""
        nothing = replace(graph, nodes={}, streams={}, parts={}, rules=(), regions=())
        ports = (*part.declared.inputs, *part.declared.outputs)
        failed = replace(part, ends=dict.fromkeys(ports, ()), failed=True)
        if self.endless or self.is_refused(part, above):
            return replace(nothing, parts={part.name: failed})
        module = copied(part.module)
        view = Application(self.root.name, self.root.window)
        schemas = self.schemas(part)
        failed = replace(failed, instance=module, schemas=schemas or {})
        valued = self.is_valued(part.name, module)
        if not valued or schemas is None or not self.is_populated(part, module, view):
            return replace(nothing, parts={part.name: failed})
        scope = Scope(view, part.name)
        added: list[Any] = [*view.operators, *view.modules]
        for name in part.declared.properties:
            if any(name == one.name for one in added):
                what = f"`{name}` is both a property of `{part.kind}` and the name of something inside"
                self.faults.add(f"{part.name}.{name}", what, "rename one: `-D` could not tell them apart")
        inner = self.inside(scope, {**defaults, **part.attributes}, [*above, part.module, module])
        ends = {name: self.ends(scope, inner, failed, name) for name in ports}
        nodes = dict(inner.nodes)
        for kind, port, values in part.of_ports:  # what is said outside of a module counts more
            for end in ends[port]:
                nodes[end.operator] = nodes[end.operator].given(kind, end.port, values)
        whole = replace(failed, ends=ends, failed=self.endless)
        return replace(inner, nodes=nodes, parts={part.name: whole, **inner.parts})

    def is_refused(self, part: Part, above: list[Module]) -> bool:
        """True, with a fault, for a module that cannot be expanded."""
        if any(part.module is other for other in above):
            what = f"module `{part.kind}` contains itself"
            self.faults.add(part.name, what, "add another module, or none")
            return True
        if not self.is_first(part.name, part.module):
            return True
        if len(above) // 2 >= _DEEPEST:
            self.endless = True
            what = f"it is the last of {_DEEPEST + 1} modules inside each other; "
            what += f"`{part.kind}` may contain itself"
            self.faults.add(part.name, what, "end it, such as by a property that counts down")
        return self.endless

    def ends(self, scope: Scope, inner: Graph, part: Part, name: str) -> tuple[PortRef, ...]:
        """The ports inside that one port of a module leads to."""
        proxy, where = getattr(part.module, name), f"{part.name}.{name}"
        if not proxy.inner:
            what = f"`populate` of `{part.kind}` connects the port to nothing"
            self.faults.add(where, what, f"call `self.{name}.connect(...)` in it")
        if isinstance(proxy, OutputProxy) and len(proxy.inner) > 1:
            what = f"`populate` of `{part.kind}` connects the output port {len(proxy.inner)} times"
            self.faults.add(where, what, "connect one output port; merge several in an operator before")
            return ()
        found: list[PortRef] = []
        for end in proxy.inner:
            port = scope.port(end)
            if port is None:
                what = f"`populate` of `{part.kind}` connects the port to `{end.name}` of what it did not add"
                self.faults.add(where, what, "connect it to a port of an operator that `populate` adds")
                continue
            reached = self.reached(port, inner.parts)
            if not set(reached).isdisjoint(found):
                what = f"`populate` of `{part.kind}` connects the port to `{port}` twice"
                self.faults.add(where, what, "connect each port once")
                continue
            found += reached
        return tuple(found)

    def schemas(self, part: Part) -> dict[str, Schema] | None:
        """The schemas of ports; None, and faults, for what has no effect in the body of a module's class."""
        before, declared = len(self.faults), part.declared
        found = {}
        for name in (*declared.inputs, *declared.outputs):
            schema = declared_schema(self.faults, f"{part.name}.{name}", part.module, name)[1]
            if schema is not None:
                found[name] = schema
        for name in declared.states:
            what = f"`{part.kind}` declares state, which a module cannot keep"
            self.faults.add(f"{part.name}.{name}", what, "declare it in an operator inside")
        for name, port in {**declared.inputs, **declared.outputs}.items():
            where = f"{part.name}.{name}"
            given = [
                one for one in _USELESS if not any(getattr(port, one, None) is value for value in _UNSAID)
            ]
            if given:
                names = [one.removeprefix("declared_").removesuffix("_seconds") for one in given]
                what = f"{listed(names)} would do nothing on a port of a module"
                self.faults.add(where, what, "declare it on the port of the operator inside")
            if isinstance(port, InputPort) and port.methods:
                what = f"`{part.kind}` has a method for the tuples of `{name}`, which is never called"
                self.faults.add(where, what, "process tuples in an operator inside")
        return found if len(self.faults) == before else None

    def is_valued(self, name: str, module: Module) -> bool:
        """Apply the overrides of a module's properties and validate them; True if all are valid."""
        if "_given" not in vars(module):
            what = f"`{type(module).__name__}.__init__` does not call the `__init__` of `Module`"
            self.faults.add(name, what, "call `super().__init__(**properties)` in it")
            return False
        before = len(self.faults)
        vars(module)["_given"] = dict(vars(module)["_given"])
        overrides = {}
        for key, value in self.properties.items():
            path = key.removeprefix(f"{name}.")
            if path != key and path.partition(".")[0] in operator_type(type(module)).properties:
                overrides[path] = value
                self.used.add(key)
        set_properties(self.faults, name, module, overrides)
        return len(self.faults) == before

    def is_populated(self, part: Part, module: Module, view: Application) -> bool:
        """Call `populate` on a view of its own; False, and a fault, if that does not work."""
        root = self.root
        lists: tuple[list[Any], ...] = (root.operators, root.streams, root.modules)
        before = [list(added) for added in lists]
        try:
            module.populate(view)
        except Exception as error:  # noqa: BLE001  whatever it is, it is a fault of the module
            what = f"`{part.kind}.populate` raised {described(error)}{_place(error)}"
            self.faults.add(part.name, what, "fix it, or give the module other properties")
            return False
        finally:
            outside = [len(added) for added in lists] != [len(one) for one in before]
            for added, one in zip(lists, before, strict=True):
                added[:] = one  # `populate` is called at each planning: the application stays as it is
        if outside:
            what = f"`{part.kind}.populate` added to the application, not to the `app` that it is given"
            self.faults.add(part.name, what, "call `add_operator` and the like of that `app`")
        fresh: dict[str, Any] = {
            "name": root.name,
            "window": root.window,
            "attributes": {},
            "dead_letter_port": None,
        }
        if changed := [name for name, value in fresh.items() if getattr(view, name) != value]:
            what = f"`{part.kind}.populate` sets {listed(changed)} of its `app`, which does nothing"
            self.faults.add(part.name, what, "set it on the application")
        return True

    def left(self, graph: Graph) -> Iterator[tuple[str, object]]:
        """The overrides of properties that no module took; a fault for one that names nothing in a module."""
        split = key_splitter(graph.names)
        for key, value in self.properties.items():
            if key in self.used:
                continue
            owner, rest = split(key)
            if owner not in graph.parts:
                yield key, value
            elif not graph.parts[owner].failed:
                name, inside = rest.partition(".")[0], f"{owner}."
                known = [one.removeprefix(inside) for one in graph.names if one.startswith(inside)]
                known = [one for one in known if "." not in one]
                known += graph.parts[owner].declared.properties
                what = f"module `{owner}` has no property, operator or module `{name}`"
                self.faults.add(key, what, did_you_mean(name, known))


def copied(module: Module) -> Module:
    """A copy for `populate`, which may change the collections in it."""
    own = copy.copy(module)
    for name, value in vars(own).items():
        if isinstance(value, (list, dict, set)):
            vars(own)[name] = copy.copy(value)
    return own


def _inside(name: Any, nodes: Mapping[str, Node]) -> list[Any]:
    """The operators of a module, by its name; what is none stays as it is."""
    return [one for one in nodes if one.startswith(f"{name}.")] or [name]


def _place(error: Exception) -> str:
    """Where an exception of `populate` came from: the last line of it that is not of the API."""
    lines = traceback.extract_tb(error.__traceback__)[1:]
    frames = [one for one in lines if not one.filename.startswith(_API)]
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
