"""Make a graph by name of what modules were expanded to; ports of modules become those that they lead to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ridgeline.api.application import AddedOperator, AddedRegion, AddedStream, Application
from ridgeline.api.errors import did_you_mean, listed
from ridgeline.api.module import InputProxy, OutputProxy
from ridgeline.api.points import InputPoint, OutputPoint
from ridgeline.api.support.attribute import Scope
from ridgeline.plan.draft import DraftModule, Faults, ModuleScope
from ridgeline.plan.graph import Graph, Kind, Node, Part, Stream, moved_rule, stream_of
from ridgeline.plan.logical import LogicalModule
from ridgeline.plan.modules.expanding import Expanded
from ridgeline.plan.overrides import Overrides
from ridgeline.plan.region import PortRef
from ridgeline.plan.shown_properties import secret_names, shown_properties
from ridgeline.plan.validate.attributes import check_attributes
from ridgeline.plan.validate.ports import refuse_silent_output, refuse_unconnected

_ADD = "add it with `app.add_operator(name, operator)`"


def flatten(faults: Faults, app: Application, expanded: Expanded, options: Overrides) -> Graph:
    """The application by name, without modules, with what they were expanded to; adds faults.

    Attributes of modules in the `options` become those of operators inside. Ends of streams that are faulty
    are left out.
    """
    joiner = _Joiner(faults, expanded, options)
    streams = joiner.joined(expanded.scopes)
    for module in sorted(joiner.inside, key=lambda module: -module.name.count(".")):
        joiner.spread(module)
    letters: Any = app.dead_letter_port
    prefixes = [("", app), *((module.name, module.inside.app) for module in joiner.inside)]
    graph = Graph(
        name=app.name,
        window=app.window,
        attributes=dict(app.attributes),
        nodes={one.name: Node.of(one, one.name) for one in expanded.operators},
        streams={stream.name: stream for stream in streams},
        parts={one.name: _part(one) for one in joiner.inside},
        rules=tuple((name, joiner.rule(rule, name)) for name, of in prefixes for rule in of.affinity),
        regions=tuple(replace(one, operators=joiner.members(one)) for one in app.regions),
        policies=tuple(app.policies),
        promises=tuple(app.promises),
        dead_letters=None if letters is None else joiner.port(letters),
        exempt=frozenset(joiner.exempt),
    )
    # what is said outside of a module counts more
    return joiner.attributes(expanded.scopes[::-1]).set(faults, graph)


def _part(module: DraftModule) -> Part:
    ends = {port: tuple(found) for port, found in module.ends.items()}
    return Part(module.name, module.module, {}, ends, module.schemas, module.failed)


class _Joiner:
    def __init__(self, faults: Faults, expanded: Expanded, options: Overrides) -> None:
        self.faults = faults
        self.options = options
        self.modules = expanded.modules
        self.inside = list(dict.fromkeys(expanded.modules.values()))
        self.operators: list[AddedOperator] = expanded.operators
        self.homes = {identity: scope for scope in expanded.scopes for identity in scope.operators}
        self.names = {id(one.operator): one.name for one in expanded.operators}
        """The full names of operators, by the `id` of the author's instance."""
        self.missing: set[int] = set()
        self.exempt: set[PortRef] = set()

    # What an end leads to -----------------------------------------------------------------------------------

    def lead(self, module: DraftModule) -> None:
        """Find out where all ports of a module lead; those of modules inside first."""
        for name in (*module.declared.inputs, *module.declared.outputs):
            if name not in module.ends:
                module.ends[name] = [] if module.failed else self.ends(module, name)

    def ends(self, module: DraftModule, name: str) -> list[PortRef]:
        """The ports inside that one port of a module leads to."""
        proxy, where = getattr(module.module, name), module.port(name)
        if not proxy.inner:
            what = f"`populate` of `{module.kind}` connects the port to nothing"
            self.faults.add(where, what, f"call `self.{name}.connect(...)` in it")
        if isinstance(proxy, OutputProxy) and len(proxy.inner) > 1:
            what = f"`populate` of `{module.kind}` connects the output port {len(proxy.inner)} times"
            self.faults.add(where, what, "connect one output port; merge several in an operator before")
            return []
        found = []
        for index, inner in enumerate(proxy.inner):
            if any(inner is other for other in proxy.inner[:index]):
                what = f"`populate` of `{module.kind}` connects the port to `{self.name(inner)}` twice"
                self.faults.add(where, what, "connect each port once")
            else:
                found += self.reach(module.inside, inner, where, f"the port that `{name}` is connected to")
        return found

    def reach(self, scope: ModuleScope, end: Any, where: str, role: str) -> list[PortRef]:
        """The ports of operators that an end leads to; none, and a fault, for one that leads nowhere.

        `where` and `role`: what has the end, and what it is there, for errors.
        """
        module = self.modules.get(id(end.module)) if isinstance(end, (InputProxy, OutputProxy)) else None
        home = self.homes.get(id(end.operator)) if isinstance(end, (InputPoint, OutputPoint)) else None
        if module is not None and module.inside is scope:
            what = f"{role}, `{end.name}`, is a port of the module itself"
            self.faults.add(where, what, f"lead it to a port inside by `self.{end.name}.connect(...)`")
            return []
        home = module.outside if module is not None else home
        if home is None:
            return self.refuse_absent(scope, end, where, role)
        if home is not scope:
            what = f"{role}, `{self.name(end)}`, is in {home.title}, not in {scope.title}"
            self.faults.add(where, what, "lead there by a port of the module")
            return []
        if module is None:
            return [PortRef(self.names[id(end.operator)], end.name)]
        module.touched.add(end.name)
        self.lead(module)
        return _part(module).reached(end.name)

    def refuse_absent(self, scope: ModuleScope, end: Any, where: str, role: str) -> list[PortRef]:
        """Refuse a port of an operator or a module that was not added, once for each of these."""
        is_module = isinstance(end, (InputProxy, OutputProxy))
        owner = end.module if is_module else end.operator
        if id(owner) not in self.missing:
            self.missing.add(id(owner))
            kind = type(owner)
            what = f"{role}, `{end.name}`, belongs to a `{kind.__name__}` that is not in {scope.title}"
            alike = [one.name for one in self.operators if type(one.operator) is kind]
            remedy = "add it with `app.add_module(name, module)`" if is_module else _ADD
            self.faults.add(where, what, f"did you mean `{alike[0]}.{end.name}`?" if alike else remedy)
        return []

    def port(self, point: Any) -> PortRef | None:
        """A port of an operator by name; None if the operator is in no module and not in the application."""
        name = self.names.get(id(point.operator))
        return None if name is None else PortRef(name, point.name)

    def name(self, end: Any) -> str:
        """A port as errors name it."""
        if isinstance(end, (InputProxy, OutputProxy)):
            module = self.modules.get(id(end.module))
            return f"{module.name if module else type(end.module).__name__}.{end.name}"
        return f"{self.names.get(id(end.operator), type(end.operator).__name__)}.{end.name}"

    # Streams ------------------------------------------------------------------------------------------------

    def joined(self, scopes: Sequence[ModuleScope]) -> list[Stream]:
        """All streams between operators, first the application's; adds faults of ports of modules."""
        for module in self.inside:
            self.lead(module)
        pairs = [(one.source, self.stream(scope, one)) for scope in scopes for one in list(scope.app.streams)]
        known = {stream.name for _, stream in pairs}
        for name in self.options.streams.keys() - known:
            what = f"there is no stream `{name}` to set an attribute of"
            self.faults.add(f"stream.{name}", what, did_you_mean(name, known))
        for module in self.inside:
            if not module.failed:
                self.connected(module)
        return _merged(pairs)

    def stream(self, scope: ModuleScope, added: AddedStream) -> Stream:
        """One call of `add_stream`, with the ends that it leads to, and with what is given from outside."""
        name = scope.inner(added.name)
        source = self.reach(scope, added.source, name, "the source of the stream")
        way = source[0].through if source else ()
        seen: set[PortRef] = set()

        def sinks(end: Any) -> list[PortRef]:
            found = self.reach(scope, end, name, "the sink of the stream")
            for one in seen.intersection(found):
                self.faults.add(name, f"`{one}` is a sink of the stream twice", "name it once")
            seen.update(found)
            return [replace(one, through=(*way, *one.through)) for one in found]

        made = stream_of(added, name, source[0] if source else None, sinks)
        given = self.options.streams.get(name, {})
        values, doubtful = check_attributes(self.faults, f"stream.{name}", Scope.STREAM, given, {})
        return made.placed(values["locality"]) if "locality" in given.keys() - doubtful else made

    def connected(self, module: DraftModule) -> None:
        """Check that the ports of a module are connected outside, by the rules for those of operators.

        The ports inside that a port of it stands for need no stream then.
        """
        declared = module.declared
        loose = [name for name in declared.inputs if name not in module.touched]
        for name in [name for name in loose if not declared.inputs[name].optional]:
            refuse_unconnected(self.faults, module.port(name))
            loose.remove(name)
        silent = [name for name in declared.outputs if name not in module.touched]
        required = [name for name in silent if declared.outputs[name].required]
        for name in required:
            refuse_silent_output(self.faults, module.port(name))
        wanted = [name for name, port in declared.outputs.items() if not port.optional]
        if wanted and not required and len(silent) == len(declared.outputs):
            ports = listed([module.port(name) for name in declared.outputs])
            remedy = f"begin a stream at {'one of ' if len(declared.outputs) > 1 else ''}{ports}"
            self.faults.add(module.name, "none of the output ports of the module is connected", remedy)
        self.exempt |= {end for name, ends in module.ends.items() if name not in loose for end in ends}

    # Attributes, regions and rules --------------------------------------------------------------------------

    def spread(self, module: DraftModule) -> None:
        """Give options of a module to the operators and ports inside; their own count more."""
        inside = [one.name for one in self.operators if one.name.startswith(f"{module.name}.")]
        given = self.options.taken([module.name])
        for (kind, _, port), values in given.items():
            known = [*module.declared.outputs, *(module.declared.inputs if kind == "port" else ())]
            ends = [(one, "") for one in inside] or [(module.name, "")]
            if port and (port in known or module.failed):
                ends = [(end.operator, end.port) for end in module.ends[port]] if port in known else []
            elif port:
                noun = "output port" if kind == "unifier" else "port"
                what = f"module `{module.name}` has no {noun} `{port}` to set an attribute of"
                self.faults.add(f"{module.name}.{kind}.{port}", what, did_you_mean(port, known))
                continue
            for operator, inner in ends:
                own = self.options.of(kind, operator, inner)
                own |= {**values, **own}

    def attributes(self, scopes: Sequence[ModuleScope]) -> Overrides:
        """`set_attribute` of all scopes, of operators and ports by name; adds a fault for what is absent.

        What is said of ports of modules is said of the ports that they lead to.
        """
        found = Overrides()
        for scope in scopes:
            for given in list(scope.app.attributes_set):
                if isinstance(given.target, AddedStream):
                    check_attributes(self.faults, given.target.name, Scope.STREAM, given.attributes, {})
                for owner, port in self.targets(scope, given.target):
                    kind: Kind = "attribute" if not port else "unifier" if given.unifier else "port"
                    found.of(kind, owner, port).update(given.attributes)
        return found

    def targets(self, scope: ModuleScope, target: Any) -> Iterator[tuple[str, str]]:
        """The operators and ports that `set_attribute` names; those of modules are known when expanding."""
        if isinstance(target, AddedStream) or id(target) in self.modules:
            return
        if isinstance(target, (InputProxy, OutputProxy)):
            found = self.reach(scope, target, "attributes", "what `set_attribute` was given")
            yield from ((end.operator, end.port) for end in found)
            return
        is_port = isinstance(target, (InputPoint, OutputPoint))
        owner, port = (target.operator, target.name) if is_port else (target, "")
        if id(owner) in self.names:
            yield self.names[id(owner)], port
            return
        what = f"`set_attribute` was given {f'port `{port}` of ' if port else ''}a `{type(owner).__name__}`"
        self.faults.add("attributes", f"{what} that is not in the application", _ADD)

    def members(self, region: AddedRegion) -> tuple[Any, ...]:
        """The operators that a region is known by; what is none stays as it is."""
        found: list[Any] = []
        for one in region.operators:
            module = self.modules.get(id(one))
            inside = f"{module.name}." if module is not None and not module.outside.name else None
            names = [name for name in self.names.values() if inside and name.startswith(inside)]
            found += names or [self.names.get(id(one), one)]
        return tuple(found)

    def rule(self, rule: Any, module: str) -> Any:
        """An affinity rule with the full names of operators; what is none stays as it is."""
        prefix = f"{module}." if module else ""
        return moved_rule(
            rule, lambda one: f"{prefix}{one}" if isinstance(one, str) else self.names.get(id(one), one)
        )


def _merged(pairs: Sequence[tuple[object, Stream]]) -> list[Stream]:
    """One stream for each output port that feeds some within its module and others by a port of the module.

    It has the name of the innermost one. Two that an author began at one port stay two, which is a fault.
    The pairs: what the author gave as the source, and the stream.
    """
    groups: dict[PortRef, list[tuple[object, Stream]]] = {}
    for written, stream in pairs:
        if stream.source is not None:
            groups.setdefault(stream.source, []).append((written, stream))
    merged: dict[str, Stream | None] = {}
    for group in groups.values():
        if len(group) == 1 or len({id(written) for written, _ in group}) < len(group):
            continue
        several = [stream for _, stream in group]
        kept = min(several, key=lambda stream: len(stream.source.through) if stream.source else 0)
        several.sort(key=lambda stream: stream is not kept)
        sinks = {end: sink for stream in several for end, sink in stream.sinks.items()}
        merged |= {stream.name: None for stream in several}
        merged[kept.name] = replace(kept, sinks=sinks)
    found = (merged.get(stream.name, stream) for _, stream in pairs)
    return [stream for stream in found if stream is not None]


def logical_modules(parts: Iterable[Part]) -> tuple[LogicalModule, ...]:
    """The modules of a valid application."""
    found = []
    for part in parts:
        kind, ends = type(part.module), part.ends or {}
        found.append(
            LogicalModule(
                part.name,
                f"{kind.__module__}.{kind.__qualname__}",
                shown_properties(part.module),
                {port: ends[port] for port in part.declared.inputs},
                {port: ends[port][0] for port in part.declared.outputs},
                secret_names(part.module),
            )
        )
    return tuple(found)
