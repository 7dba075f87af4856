"""Join the streams of modules: every end that is a port of a module becomes the ports that it leads to."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ridgeline.api.application import AddedAttributes, AddedStream, Application
from ridgeline.api.errors import did_you_mean, listed, shorten
from ridgeline.api.module import InputProxy, Module, OutputProxy
from ridgeline.api.operator import Operator
from ridgeline.api.points import InputPoint, OutputPoint
from ridgeline.api.support.attribute import Scope
from ridgeline.plan.draft import FAULTY, Draft, DraftModule, Faults, ModuleScope, Through
from ridgeline.plan.logical import LogicalModule
from ridgeline.plan.modules.expanding import Expanded
from ridgeline.plan.references import localities_of
from ridgeline.plan.region import PortRef
from ridgeline.plan.shown_properties import secret_names, shown_properties
from ridgeline.plan.validate.application import check_name
from ridgeline.plan.validate.attributes import check_attributes


@dataclass(frozen=True, slots=True)
class _Use:
    """How an end is used. `role`: what it is, for errors; `where`: the stream, or the port that is connected.

    `entry`: tuples enter there. `inner`: `connect` names it, not a stream.
    """

    where: str
    role: str
    entry: bool
    inner: bool = False


@dataclass(frozen=True, slots=True)
class _Reached:
    """A port of an operator, or what is no port, and the ports of modules on the way to it."""

    point: Any
    ports: tuple[tuple[DraftModule, str], ...] = ()


def flatten(draft: Draft, faults: Faults, app: Application, expanded: Expanded) -> Application:
    """A copy of the application without modules, with what they were expanded to; adds faults to the draft.

    Attributes of modules' ports from outside are added to `expanded.attributes`, by operator.
    Ends of streams are ports of operators, `Through` for those that a module's port leads to, and `FAULTY`.
    """
    flat = copy.copy(app)
    joiner = _Joiner(draft, faults, expanded)
    flat.operators, flat.modules = expanded.operators, []
    flat.streams = _streams(joiner, expanded)
    joiner.port_overrides(expanded)
    for name in expanded.streams.keys() - joiner.streams:
        what = f"there is no stream `{name}` to set an attribute of"
        faults.add(f"stream.{name}", what, did_you_mean(name, joiner.streams))
    flat.attributes_set = [
        given for scope in reversed(expanded.scopes) for given in joiner.attributes(scope)
    ]  # what is said outside of a module counts more
    return flat


def _streams(joiner: _Joiner, expanded: Expanded) -> list[AddedStream]:
    """All streams between operators, first the application's."""
    for module in dict.fromkeys(expanded.modules.values()):
        joiner.lead(module)
    streams = [
        joiner.stream(scope, added, position)
        for scope in expanded.scopes
        for position, added in enumerate(list(scope.app.streams), 1)
    ]
    for module in dict.fromkeys(expanded.modules.values()):
        if not module.failed:
            joiner.connected(module)
    return _merged(streams)


@dataclass(slots=True, eq=False)
class _Joined:
    """A stream with its ends found; `written`: what its author gave as its source."""

    written: object
    source: _Reached
    stream: AddedStream


class _Joiner:
    def __init__(self, draft: Draft, faults: Faults, expanded: Expanded) -> None:
        self.draft = draft
        self.faults = faults
        self.modules = expanded.modules
        self.streams: set[str] = set()
        """The full names of all streams."""
        self.outside = expanded.streams
        self.homes = {identity: scope for scope in expanded.scopes for identity in scope.operators}

    # The ports of modules -----------------------------------------------------------------------------------

    def lead(self, module: DraftModule) -> None:
        """Find out where all ports of a module lead; those of modules inside first."""
        for name in (*module.declared.inputs, *module.declared.outputs):
            if name not in module.ends:
                module.ends[name] = [] if module.failed else self.ends(module, name)

    def ends(self, module: DraftModule, name: str) -> list[_Reached]:
        """The ports inside that one port of a module leads to."""
        proxy = getattr(module.module, name)
        entry = isinstance(proxy, InputProxy)
        use = _Use(module.port(name), f"the port that `{name}` is connected to", entry, inner=True)
        if not proxy.inner:
            what = f"`populate` of `{module.kind}` connects the port to nothing"
            self.faults.add(use.where, what, f"call `self.{name}.connect(...)` in it")
        if not entry and len(proxy.inner) > 1:
            what = f"`populate` of `{module.kind}` connects the output port {len(proxy.inner)} times"
            self.faults.add(use.where, what, "connect one output port; merge several in an operator before")
            return [_Reached(FAULTY)]
        found = []
        for index, inner in enumerate(proxy.inner):
            if any(inner is other for other in proxy.inner[:index]):
                what = f"`populate` of `{module.kind}` connects the port to `{self.name(inner)}` twice"
                self.faults.add(use.where, what, "connect each port once")
            else:
                found += self.reach(module.inside, inner, use)
        return found

    def reach(self, scope: ModuleScope, end: object, use: _Use) -> list[_Reached]:
        """The ports of operators that an end leads to. Faults of streams alone are left to others."""
        if isinstance(end, (InputPoint, OutputPoint)):
            return [self.reach_operator(scope, end, use)]
        if isinstance(end, (InputProxy, OutputProxy)):
            return self.reach_module(scope, end, use)
        if isinstance(end, Module):
            return [self.no_port(end, use)]
        if not use.inner:
            return [_Reached(end)]
        kind = f"the operator `{type(end).__name__}`" if isinstance(end, Operator) else shorten(end)
        remedy = f"name a port of what was added in {scope.title}"
        return self.faulty(use, f"{use.role} is {kind}, which is no port", remedy)

    def reach_operator(self, scope: ModuleScope, end: Any, use: _Use) -> _Reached:
        """`reach` of a port of an operator."""
        home = self.homes.get(id(end.operator))
        if home is not None and home is not scope:
            return self.refuse_scope(scope, end, use, home)[0]
        if not use.inner:
            return _Reached(end)
        if home is None:
            what = f"{use.role}, `{end.name}`, belongs to a `{type(end.operator).__name__}` that is not in "
            remedy = "add it with `app.add_operator(name, operator)`"
            return self.faulty(use, what + scope.title, remedy)[0]
        return (
            _Reached(end) if isinstance(end, InputPoint) is use.entry else self.refuse_direction(end, use)[0]
        )

    def reach_module(self, scope: ModuleScope, end: Any, use: _Use) -> list[_Reached]:
        """`reach` of a port of a module."""
        module = self.modules.get(id(end.module))
        if module is None:
            what = f"{use.role}, `{end.name}`, belongs to a `{type(end.module).__name__}` that is not in "
            return self.faulty(use, what + scope.title, "add it with `app.add_module(name, module)`")
        if module.inside is scope:
            what = f"{use.role}, `{end.name}`, is a port of the module itself"
            return self.faulty(use, what, f"lead it to a port inside by `self.{end.name}.connect(...)`")
        if module.outside is not scope:
            return self.refuse_scope(scope, end, use, module.outside)
        module.touched.add(end.name)
        if isinstance(end, InputProxy) is not use.entry:
            return self.refuse_direction(end, use)
        self.lead(module)
        port = (module, end.name)
        found = [
            _Reached(inner.point, (port, *inner.ports) if use.entry else (*inner.ports, port))
            for inner in module.ends[end.name]
        ]
        return found or [_Reached(FAULTY)]

    def no_port(self, end: Module, use: _Use) -> _Reached:
        """Refuse a module in the place of its port."""
        module = self.modules.get(id(end))
        name = module.name if module else type(end).__name__
        ports: list[str] = []
        if module is not None:
            declared = module.declared
            ports = list(declared.inputs if use.entry else declared.outputs)
            module.touched.update((*declared.inputs, *declared.outputs))
        names = listed([f"{name}.{port}" for port in ports])
        remedy = f"name the port: {names}" if ports else "it has no such port"
        return self.faulty(use, f"{use.role} is the module `{name}`, not one of its ports", remedy)[0]

    def refuse_direction(self, end: object, use: _Use) -> list[_Reached]:
        """Refuse an input port where an output port belongs, or the other way round."""
        have, want = ("an output", "an input") if use.entry else ("an input", "an output")
        return self.faulty(use, f"{use.role}, `{self.name(end)}`, is {have} port", f"name {want} port there")

    def faulty(self, use: _Use, what: str, remedy: str) -> list[_Reached]:
        self.faults.add(use.where, what, remedy)
        return [_Reached(FAULTY)]

    def refuse_scope(self, scope: ModuleScope, end: Any, use: _Use, home: ModuleScope) -> list[_Reached]:
        """Refuse an end that was added elsewhere than what names it."""
        what = f"{use.role}, `{self.name(end)}`, is in {home.title}, not in {scope.title}"
        return self.faulty(use, what, "lead there by a port of the module")

    def name(self, end: Any) -> str:
        """A port as errors name it."""
        if isinstance(end, (InputProxy, OutputProxy)):
            module = self.modules.get(id(end.module))
            return f"{module.name if module else type(end.module).__name__}.{end.name}"
        home = self.homes.get(id(end.operator))
        added = home.app.operators if home else []
        names = [str(one.name) for one in added if one.operator is end.operator]
        owner = home.inner(names[0]) if home and names else type(end.operator).__name__
        return f"{owner}.{end.name}"

    def port_overrides(self, expanded: Expanded) -> None:
        """Apply attributes of modules' ports from outside to the ports inside that they lead to.

        Those of a port inside come first.
        """
        modules = {module.name: module for module in self.modules.values() if not module.failed}
        names = {id(added.operator): added.name for added in expanded.operators}
        for (owner, path), value in sorted(expanded.ports.items(), key=lambda given: -given[0][0].count(".")):
            kind, _, rest = path.partition(".")
            port, _, attribute = rest.rpartition(".")
            if owner not in modules:
                continue
            declared = modules[owner].declared
            known = [*declared.outputs, *(declared.inputs if kind == "port" else ())]
            if port not in known:
                noun = "output port" if kind == "unifier" else "port"
                what = f"module `{owner}` has no {noun} `{port}` to set an attribute of"
                self.faults.add(f"{owner}.{kind}.{port}", what, did_you_mean(port, known))
                continue
            for end in modules[owner].ends.get(port, ()):
                if isinstance(end.point, (InputPoint, OutputPoint)):
                    inside = f"{names[id(end.point.operator)]}.{kind}.{end.point.name}.{attribute}"
                    expanded.attributes.setdefault(inside, value)

    # Streams ------------------------------------------------------------------------------------------------

    def stream(self, scope: ModuleScope, added: AddedStream, position: int) -> _Joined:
        """One call of `add_stream`, with the ends that it leads to."""
        name: Any = added.name
        if scope.name:
            name = check_name(self.faults, "stream", name, position, scope.name)
        where = name if isinstance(name, str) else f"stream {position}"
        added = self.with_override(where, added)
        swapped = isinstance(added.source, InputPoint) and all(
            isinstance(sink, OutputPoint) for sink in added.sinks
        )
        if swapped:  # a fault of its own, see `read_streams`
            return _Joined(added.source, _Reached(added.source), added)
        source = self.reach(scope, added.source, _Use(where, "the source of the stream", entry=False))[0]
        sinks: list[Any] = []
        localities: dict[Any, Any] = {}
        decoupled: list[Any] = []
        for sink in added.sinks:
            for end in self.reach(scope, sink, _Use(where, "the sink of the stream", entry=True)):
                ports = (*source.ports, *end.ports)
                sinks.append(Through(end.point, ports) if ports else end.point)
                if isinstance(added.locality, Mapping) and sink in added.locality:
                    localities[end.point] = added.locality[sink]
                if any(sink is one for one in added.decoupled):
                    decoupled.append(end.point)
        locality: Any = added.locality
        if isinstance(locality, Mapping):
            rest = {key: value for key, value in locality.items() if key not in added.sinks}
            locality = localities | rest
        joined = replace(
            added,
            name=name,
            source=source.point,
            sinks=tuple(sinks),
            locality=locality,
            module=scope.name,
            decoupled=tuple(decoupled),
        )
        return _Joined(added.source, source, joined)

    def with_override(self, name: str, added: AddedStream) -> AddedStream:
        """The stream, with what was said of it from outside."""
        self.streams.add(name)
        given = self.outside.get(name, {})
        values, doubtful = check_attributes(self.faults, f"stream.{name}", Scope.STREAM, given, {})
        if "locality" in given and "locality" not in doubtful:
            return replace(added, locality=values["locality"])
        return added

    def attributes(self, scope: ModuleScope) -> Iterator[AddedAttributes]:
        """Apply `set_attribute` of a scope; for ports of modules, to the ports that they lead to."""
        for given in list(scope.app.attributes_set):
            if isinstance(given.target, (InputProxy, OutputProxy)):
                role = "what `set_attribute` was given"
                use = _Use("attributes", role, isinstance(given.target, InputProxy))
                for end in self.reach(scope, given.target, use):
                    if end.point is not FAULTY:
                        yield replace(given, target=end.point)
            elif not isinstance(given.target, Module) or id(given.target) not in self.modules:
                yield given

    def connected(self, module: DraftModule) -> None:
        """Check that the ports of a module are connected outside, by the rules for those of operators."""
        declared = module.declared
        loose = [name for name in declared.inputs if name not in module.touched]
        for name in loose:
            if not declared.inputs[name].optional:
                remedy = (
                    f"end a stream there, `add_stream(name, ..., {module.port(name)})`, "
                    "or declare it with `optional=True`"
                )
                self.faults.add(module.port(name), "the input port is not connected", remedy)
                self.exempt(module.ends[name])
        silent = [name for name in declared.outputs if name not in module.touched]
        required = [name for name in silent if declared.outputs[name].required]
        for name in required:
            remedy = f"begin a stream there: `add_stream(name, {module.port(name)}, ...)`"
            self.faults.add(module.port(name), "the output port must be connected and is not", remedy)
        wanted = [name for name, port in declared.outputs.items() if not port.optional]
        if wanted and not required and len(silent) == len(declared.outputs):
            ports = listed([module.port(name) for name in declared.outputs])
            remedy = f"begin a stream at {'one of ' if len(declared.outputs) > 1 else ''}{ports}"
            self.faults.add(module.name, "none of the output ports of the module is connected", remedy)
        for name in (*module.touched, *silent):
            self.exempt(module.ends[name])

    def exempt(self, ends: Sequence[_Reached]) -> None:
        """Ports that a port of a module stands for, which has a fault or need not be connected."""
        for end in ends:
            if isinstance(end.point, (InputPoint, OutputPoint)):
                self.draft.excused.add((id(end.point.operator), end.point.name))


def _merged(streams: list[_Joined]) -> list[AddedStream]:
    """One stream for each output port that feeds some within its module and others by a port of the module.

    It has the name of the innermost one. Two that an author began at one port stay two, which is a fault.
    """
    groups: dict[tuple[int, str], list[_Joined]] = {}
    for joined in streams:
        if isinstance(joined.source.point, OutputPoint):
            key = (id(joined.source.point.operator), joined.source.point.name)
            groups.setdefault(key, []).append(joined)
    gone: set[int] = set()
    for group in groups.values():
        written = {id(joined.written) for joined in group}
        if len(group) == 1 or len(written) < len(group):
            continue
        kept = min(group, key=lambda joined: len(joined.source.ports))
        others = [joined for joined in group if joined is not kept]
        several = [kept.stream, *(joined.stream for joined in others)]
        localities: Any = {to: one for stream in several for to, one in localities_of(stream).items()}
        kept.stream = replace(
            kept.stream,
            sinks=tuple(sink for stream in several for sink in stream.sinks),
            locality=localities or None,
            persisted=tuple(point for stream in several for point in stream.persisted),
            faults=tuple(fault for stream in several for fault in stream.faults),
            decoupled=tuple(point for stream in several for point in stream.decoupled),
        )
        gone.update(id(joined) for joined in others)
    return [joined.stream for joined in streams if id(joined) not in gone]


def logical_modules(draft: Draft) -> tuple[LogicalModule, ...]:
    """The modules of a valid draft."""

    def refs(module: DraftModule, port: str) -> tuple[PortRef, ...]:
        points = [end.point for end in module.ends[port]]
        return tuple(PortRef(draft.owners[id(point.operator)].name, point.name) for point in points)

    return tuple(
        LogicalModule(
            module.name,
            f"{type(module.module).__module__}.{type(module.module).__qualname__}",
            shown_properties(module.module),
            {port: refs(module, port) for port in module.declared.inputs},
            {port: refs(module, port)[0] for port in module.declared.outputs},
            secret_names(module.module),
        )
        for module in draft.modules
    )
