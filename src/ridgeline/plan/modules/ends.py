"""Name what an application says of its operators: ends of streams, attributes, rules and regions.

Ports of modules become the ports of operators that they lead to. What names nothing is a fault.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ridgeline.api.affinity import AffinityRule
from ridgeline.api.application import (
    AddedAttributes,
    AddedOperator,
    AddedRegion,
    AddedStream,
    Application,
)
from ridgeline.api.errors import did_you_mean, listed, shorten
from ridgeline.api.module import InputProxy, Module, OutputProxy
from ridgeline.api.operator import Operator, operator_type
from ridgeline.api.points import InputPoint, OutputPoint
from ridgeline.api.ports import Port
from ridgeline.api.support.attribute import Scope
from ridgeline.plan.draft import Draft, DraftModule, Faults, ModuleScope
from ridgeline.plan.logical import LogicalModule
from ridgeline.plan.modules.expanding import Expanded
from ridgeline.plan.overrides import Overrides
from ridgeline.plan.references import localities_of
from ridgeline.plan.region import PortRef
from ridgeline.plan.shown_properties import secret_names, shown_properties
from ridgeline.plan.validate.application import check_name
from ridgeline.plan.validate.attributes import check_attributes
from ridgeline.plan.validate.ports import refuse_silent_output, refuse_unconnected

_ADD = "add it with `app.add_operator(name, operator)`"


@dataclass(frozen=True, slots=True)
class _Use:
    """How an end is used. `role`: what it is, for errors; `where`: the stream, or the port that is connected.

    `entry`: tuples enter there. `inner`: `connect` names it, not a stream. `faults`: of a stream, which are
    told with all that is found of it later.
    """

    where: str
    role: str
    entry: bool
    inner: bool = False
    faults: list[tuple[str, str]] = field(default_factory=list)


def flatten(
    draft: Draft, faults: Faults, app: Application, expanded: Expanded, options: Overrides
) -> Application:
    """A copy of the application by name, without modules, with what they were expanded to; adds faults.

    Attributes of modules in the `options` become those of operators inside. Ends of streams that are faulty
    are left out.
    """
    flat = copy.copy(app)
    joiner = _Joiner(draft, faults, expanded, options)
    flat.operators, flat.modules = joiner.operators, []
    flat.streams = _streams(joiner, expanded)
    for module in sorted(draft.modules, key=lambda module: -module.name.count(".")):
        joiner.spread(module)
    for name in options.streams.keys() - joiner.streams:
        what = f"there is no stream `{name}` to set an attribute of"
        faults.add(f"stream.{name}", what, did_you_mean(name, joiner.streams))
    flat.attributes_set = [
        given for scope in reversed(expanded.scopes) for given in joiner.attributes(scope)
    ]  # what is said outside of a module counts more
    letters: Any = app.dead_letter_port and joiner.port(app.dead_letter_port)
    flat.dead_letter_port = letters
    flat.regions = [replace(one, operators=joiner.members(one)) for one in app.regions]
    flat.affinity = [joiner.rule(rule, "") for rule in app.affinity]
    for module in draft.modules:
        module.rules = [joiner.rule(rule, f"{module.name}.") for rule in module.inside.app.affinity]
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
    stream: AddedStream


class _Joiner:
    def __init__(self, draft: Draft, faults: Faults, expanded: Expanded, options: Overrides) -> None:
        self.draft = draft
        self.faults = faults
        self.modules = expanded.modules
        self.streams: set[str] = set()
        """The full names of all streams."""
        self.options = options
        self.homes = {identity: scope for scope in expanded.scopes for identity in scope.operators}
        self.names: dict[int, str] = {}
        """The full names of operators, by the `id` of the author's instance."""
        self.refused: set[int] = set()
        """Classes that were added as operators, and their ports: a fault of its own is enough."""
        self.missing: set[int] = set()
        self.operators: list[AddedOperator] = []
        """Those that are operators, each under a name of its own."""
        self.uses = Counter[str]()
        uses: dict[int, list[str]] = {}
        for added in expanded.operators:
            if isinstance(added.operator, Operator):
                uses.setdefault(id(added.operator), []).append(added.name)
            if len(uses.get(id(added.operator), ())) <= 1:
                self.add(added)
        for one in self.operators:
            if len(names := uses[id(one.operator)]) > 1:
                kind = type(one.operator).__name__
                what = f"the same `{kind}` is added {len(names)} times, as {listed(dict.fromkeys(names))}"
                faults.add(one.name, what, f"make a new `{kind}(...)` for each")
        for name in (name for name, count in self.uses.items() if count > 1):
            what = f"{self.uses[name]} operators have the name `{name}`"
            faults.add(name, what, "give each operator a name of its own")

    def add(self, added: AddedOperator) -> None:
        """Note an operator by name; adds a fault for what is none, and for a name that another one has."""
        operator: Any = added.operator
        self.uses[added.name] += 1
        if isinstance(operator, Operator):
            name = added.name + "'" * (self.uses[added.name] - 1)
            self.names[id(operator)] = name
            self.operators.append(replace(added, name=name))
        elif isinstance(operator, type) and issubclass(operator, Operator):
            declared = operator_type(operator)
            self.refused |= {*map(id, (operator, *declared.inputs.values(), *declared.outputs.values()))}
            what = f"the class `{operator.__name__}` was added, not an operator"
            self.faults.add(added.name, what, f"add an instance: `{operator.__name__}(...)`")
        else:
            what = f"{shorten(operator)} was added, which is no operator"
            self.faults.add(added.name, what, "add an instance of a subclass of `Operator`")

    # What an end leads to -----------------------------------------------------------------------------------

    def lead(self, module: DraftModule) -> None:
        """Find out where all ports of a module lead; those of modules inside first."""
        for name in (*module.declared.inputs, *module.declared.outputs):
            if name not in module.ends:
                module.ends[name] = [] if module.failed else self.ends(module, name)

    def ends(self, module: DraftModule, name: str) -> list[PortRef]:
        """The ports inside that one port of a module leads to."""
        proxy = getattr(module.module, name)
        entry = isinstance(proxy, InputProxy)
        use = _Use(module.port(name), f"the port that `{name}` is connected to", entry, inner=True)
        if not proxy.inner:
            what = f"`populate` of `{module.kind}` connects the port to nothing"
            self.refuse(use, what, f"call `self.{name}.connect(...)` in it")
        if not entry and len(proxy.inner) > 1:
            what = f"`populate` of `{module.kind}` connects the output port {len(proxy.inner)} times"
            return self.refuse(use, what, "connect one output port; merge several in an operator before")
        found = []
        for index, inner in enumerate(proxy.inner):
            if any(inner is other for other in proxy.inner[:index]):
                what = f"`populate` of `{module.kind}` connects the port to `{self.name(inner)}` twice"
                self.refuse(use, what, "connect each port once")
            else:
                found += self.reach(module.inside, inner, use)
        return found

    def reach(self, scope: ModuleScope, end: object, use: _Use) -> list[PortRef]:
        """The ports of operators that an end leads to; none, and a fault, for one that leads nowhere."""
        if isinstance(end, (InputPoint, OutputPoint)):
            return self.reach_operator(scope, end, use)
        if isinstance(end, (InputProxy, OutputProxy)):
            return self.reach_module(scope, end, use)
        if isinstance(end, (Operator, Module)):
            return self.no_port_of(end, use)
        return [] if id(end) in self.refused else self.no_port(end, use)

    def reach_operator(self, scope: ModuleScope, end: Any, use: _Use) -> list[PortRef]:
        """`reach` of a port of an operator."""
        home = self.homes.get(id(end.operator))
        if home is not None and home is not scope:
            return self.refuse_scope(scope, end, use, home)
        if home is None:
            return self.refuse_absent(scope, end, use)
        port = PortRef(self.names[id(end.operator)], end.name)
        if isinstance(end, InputPoint) is use.entry:
            return [port]
        if not use.inner:
            self.draft.touched.add((port.operator, port.port))
        return self.refuse_direction(end, use, later=True)

    def reach_module(self, scope: ModuleScope, end: Any, use: _Use) -> list[PortRef]:
        """`reach` of a port of a module."""
        module = self.modules.get(id(end.module))
        if module is None:
            what = f"{use.role}, `{end.name}`, belongs to a `{type(end.module).__name__}` that is not in "
            return self.refuse(use, what + scope.title, "add it with `app.add_module(name, module)`")
        if module.inside is scope:
            what = f"{use.role}, `{end.name}`, is a port of the module itself"
            return self.refuse(use, what, f"lead it to a port inside by `self.{end.name}.connect(...)`")
        if module.outside is not scope:
            return self.refuse_scope(scope, end, use, module.outside)
        module.touched.add(end.name)
        if isinstance(end, InputProxy) is not use.entry:
            return self.refuse_direction(end, use)
        self.lead(module)
        return module.reached(end.name)

    def refuse(self, use: _Use, what: str, remedy: str, *, later: bool = False) -> list[PortRef]:
        """Add a fault; nothing is reached. `later`: one of a stream is told with its others."""
        if later and not use.inner:
            use.faults.append((what, remedy))
        else:
            self.faults.add(use.where, what, remedy)
        return []

    def refuse_absent(self, scope: ModuleScope, end: Any, use: _Use) -> list[PortRef]:
        """Refuse a port of an operator that was not added, once for each operator."""
        if id(end.operator) in self.missing:
            return []
        self.missing.add(id(end.operator))
        kind = type(end.operator)
        what = f"{use.role}, `{end.name}`, belongs to a `{kind.__name__}` that is not in {scope.title}"
        alike = [one.name for one in self.operators if type(one.operator) is kind]
        remedy = f"did you mean `{alike[0]}.{end.name}`?" if alike else _ADD
        return self.refuse(use, what, remedy, later=True)

    def refuse_direction(self, end: object, use: _Use, *, later: bool = False) -> list[PortRef]:
        """Refuse an input port where an output port belongs, or the other way round."""
        have, want = ("an output", "an input") if use.entry else ("an input", "an output")
        what = f"{use.role}, `{self.name(end)}`, is {have} port"
        return self.refuse(use, what, f"name {want} port there", later=later)

    def refuse_scope(self, scope: ModuleScope, end: Any, use: _Use, home: ModuleScope) -> list[PortRef]:
        """Refuse an end that was added elsewhere than what names it."""
        what = f"{use.role}, `{self.name(end)}`, is in {home.title}, not in {scope.title}"
        return self.refuse(use, what, "lead there by a port of the module")

    def no_port_of(self, thing: Operator | Module, use: _Use) -> list[PortRef]:
        """Refuse an operator or a module in the place of its port, and take what it has for connected."""
        module, declared = self.modules.get(id(thing)), operator_type(type(thing))
        name = module.name if module is not None else self.names.get(id(thing))
        noun, side = (
            "operator" if isinstance(thing, Operator) else "module",
            "input" if use.entry else "output",
        )
        if module is not None:
            module.touched.update((*declared.inputs, *declared.outputs))
        elif name is not None and not use.inner:
            self.draft.vague.add(name)
        ports = listed(f"{name or noun}.{port}" for port in getattr(declared, f"{side}s"))
        remedy = f"name the port: {ports}" if ports else f"it has no {side} port"
        what = f"{use.role} is the {noun} `{name or type(thing).__name__}`, not one of its ports"
        return self.refuse(use, what, remedy, later=isinstance(thing, Operator))

    def no_port(self, end: object, use: _Use) -> list[PortRef]:
        """Refuse an end that is no port."""
        what = f"{use.role} is {shorten(end)}, which is no port"
        remedy = "name a port of an operator that was added, such as `balances.payments`"
        if isinstance(end, Port):
            what = f"{use.role} is the port `{end.name}` of a class, not of an operator"
            remedy = "take the port of the operator that `add_operator` returned"
        elif isinstance(end, (list, tuple, set)):
            self.touch(end)
            what = f"{use.role} is a {type(end).__name__}, not a port"
            remedy = "give the ports one by one: `add_stream(name, source, sink, sink)`"
        return self.refuse(use, what, remedy, later=True)

    def touch(self, points: Iterable[object]) -> None:
        """Take ports of operators for connected: what is wrong with them is told."""
        ports = [self.port(one) for one in points if isinstance(one, (InputPoint, OutputPoint))]
        self.draft.touched |= {(one.operator, one.port) for one in ports if one is not None}

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

    def stream(self, scope: ModuleScope, added: AddedStream, position: int) -> _Joined:
        """One call of `add_stream`, with the ends that it leads to."""
        name = check_name(self.faults, "stream", added.name, position, scope.name)
        added = self.with_override(name, added)
        use = _Use(name, "the source of the stream", entry=False, faults=list(added.faults))
        made = replace(added, name=name, source=None, sinks=(), module=scope.name)
        if not added.sinks:
            what = "the stream has no sinks"
            use.faults.append((what, "name one or more input ports after its output port"))
        if not self.is_swapped(added, use):
            made = self.joined(scope, added, made, use)
        return _Joined(added.source, replace(made, faults=tuple(use.faults)))

    def is_swapped(self, added: AddedStream, use: _Use) -> bool:
        """True, with a fault, for a stream whose source is an input and whose sinks are outputs."""
        outputs = [sink for sink in added.sinks if isinstance(sink, OutputPoint)]
        if not isinstance(added.source, InputPoint) or not outputs or len(outputs) < len(added.sinks):
            return False
        self.touch((added.source, *outputs))
        begin, end = self.name(added.source), list(map(self.name, outputs))
        what = f"the stream goes from input port `{begin}` to output port {listed(end)}"
        use.faults.append((what, f'swap them: `add_stream("{use.where}", {", ".join(end)}, {begin})`'))
        return True

    def joined(self, scope: ModuleScope, added: AddedStream, made: AddedStream, use: _Use) -> AddedStream:
        """A stream between the operators that its ends lead to."""
        source = self.reach(scope, added.source, use)
        way = source[0].through if source else ()
        use = replace(use, role="the sink of the stream", entry=True)
        own = added.locality if isinstance(added.locality, Mapping) else {}
        sinks: list[PortRef] = []
        localities: dict[Any, Any] = {}
        persisted: list[PortRef] = []
        decoupled: list[PortRef] = []
        for sink in added.sinks:
            found = [replace(end, through=(*way, *end.through)) for end in self.reach(scope, sink, use)]
            sinks += found
            localities |= dict.fromkeys(found, own[sink]) if own and sink in own else {}
            persisted += found if any(sink is one for one in added.persisted) else []
            decoupled += found if any(sink is one for one in added.decoupled) else []
        for key in own:
            if not any(key is sink for sink in added.sinks):
                is_port = isinstance(key, (InputPoint, OutputPoint, InputProxy, OutputProxy))
                shown = f"`{self.name(key)}`" if is_port else shorten(key)
                what = f"a locality is given for {shown}, which is no sink of the stream"
                use.faults.append((what, f"its sinks are {listed(map(str, sinks))}"))
        locality: Any = localities if isinstance(added.locality, Mapping) else added.locality
        return replace(
            made,
            source=source[0] if source else None,
            sinks=tuple(sinks),
            locality=locality,
            persisted=tuple(persisted),
            decoupled=tuple(decoupled),
        )

    def with_override(self, name: str, added: AddedStream) -> AddedStream:
        """The stream, with what was said of it from outside."""
        self.streams.add(name)
        given = self.options.streams.get(name, {})
        values, doubtful = check_attributes(self.faults, f"stream.{name}", Scope.STREAM, given, {})
        if "locality" in given and "locality" not in doubtful:
            return replace(added, locality=values["locality"])
        return added

    def connected(self, module: DraftModule) -> None:
        """Check that the ports of a module are connected outside, by the rules for those of operators."""
        declared = module.declared
        for name in declared.inputs:
            if name not in module.touched and not declared.inputs[name].optional:
                refuse_unconnected(self.faults, module.port(name))
                self.exempt(module, name)
        silent = [name for name in declared.outputs if name not in module.touched]
        required = [name for name in silent if declared.outputs[name].required]
        for name in required:
            refuse_silent_output(self.faults, module.port(name))
        wanted = [name for name, port in declared.outputs.items() if not port.optional]
        if wanted and not required and len(silent) == len(declared.outputs):
            ports = listed([module.port(name) for name in declared.outputs])
            remedy = f"begin a stream at {'one of ' if len(declared.outputs) > 1 else ''}{ports}"
            self.faults.add(module.name, "none of the output ports of the module is connected", remedy)
        for name in (*module.touched, *silent):
            self.exempt(module, name)

    def exempt(self, module: DraftModule, port: str) -> None:
        """Ports that a port of a module stands for, which has a fault or need not be connected."""
        self.draft.excused |= {(end.operator, end.port) for end in module.ends[port]}

    # Attributes, regions and rules --------------------------------------------------------------------------

    def spread(self, module: DraftModule) -> None:
        """Give options of a module to the operators and ports inside; their own count more."""
        inside = [one.name for one in self.operators if one.name.startswith(f"{module.name}.")]
        if module.name in self.uses:
            return  # an operator has the name, too, which is a fault
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

    def attributes(self, scope: ModuleScope) -> Iterator[AddedAttributes]:
        """`set_attribute` of a scope, of operators and ports by name; adds a fault for all else.

        What is said of ports of modules is said of the ports that they lead to.
        """
        for given in list(scope.app.attributes_set):
            target, points = given.target, (OutputPoint,) if given.unifier else (InputPoint, OutputPoint)
            if isinstance(target, (InputProxy, OutputProxy)):
                role = "what `set_attribute` was given"
                use = _Use("attributes", role, isinstance(target, InputProxy))
                yield from (replace(given, target=end) for end in self.reach(scope, target, use))
            elif isinstance(target, points):
                yield from self.attributes_of(given, target.operator, self.port(target))
            elif isinstance(target, Operator) and not given.unifier:
                yield from self.attributes_of(given, target, self.names.get(id(target)))
            elif isinstance(target, AddedStream) and not given.unifier:
                check_attributes(self.faults, str(target.name), Scope.STREAM, given.attributes, {})
            elif not isinstance(target, Module) or id(target) not in self.modules:
                _refuse(self.faults, given)

    def attributes_of(
        self, given: AddedAttributes, owner: Operator, target: PortRef | str | None
    ) -> Iterator[AddedAttributes]:
        """Attributes of an operator or a port of it; adds a fault if it was not added."""
        if target is not None:
            yield replace(given, target=target)
            return
        port = "" if given.target is owner else f"port `{given.target.name}` of "
        what = f"`set_attribute` was given {port}a `{type(owner).__name__}` that is not in the application"
        self.faults.add("attributes", what, _ADD)

    def members(self, region: AddedRegion) -> tuple[Any, ...]:
        """The operators that a region is known by; what is none stays as it is."""
        found: list[Any] = []
        for one in region.operators:
            module = self.modules.get(id(one))
            inside = f"{module.name}." if module is not None and not module.outside.name else None
            names = [name for name in self.names.values() if inside and name.startswith(inside)]
            found += names or [self.names.get(id(one), one)]
        return tuple(found)

    def rule(self, rule: Any, prefix: str) -> Any:
        """An affinity rule with the full names of operators; what is none stays as it is."""
        if not isinstance(rule, AffinityRule) or not isinstance(rule.operators, (list, tuple)):
            return rule
        given: Sequence[Any] = rule.operators
        full = [f"{prefix}{one}" if isinstance(one, str) else self.names.get(id(one), one) for one in given]
        return replace(rule, operators=tuple(full))


def _refuse(faults: Faults, added: AddedAttributes) -> None:
    """Add the fault for attributes of something that has none."""
    target = added.target
    what = f"`set_attribute` was given {shorten(target)}, which is no operator, port or stream of it"
    remedy = "give an operator that was added, a port such as `balances.payments`, or a stream's name"
    if added.unifier and isinstance(target, (Operator, InputPoint, AddedStream)):
        what = f"`set_attribute(..., unifier=True)` was given {_noun(target)}, which has no unifier"
        remedy = "give the output port whose partitions it merges, such as `balances.balances`"
    elif isinstance(target, Port):
        what = f"`set_attribute` was given the port `{target.name}` of a class, not of an operator"
        remedy = "take the port of the operator that `add_operator` returned"
    elif isinstance(target, Application):
        remedy = "give attributes of the application to it: `Application(name, windows_kept=3)`"
    faults.add("attributes", what, remedy)


def _noun(target: Operator | InputPoint[Any] | AddedStream) -> str:
    if isinstance(target, AddedStream):
        return f"the stream `{target.name}`"
    kind = type(target.operator if isinstance(target, InputPoint) else target).__name__
    return f"input port `{target.name}` of a `{kind}`" if isinstance(target, InputPoint) else f"a `{kind}`"


def _merged(streams: list[_Joined]) -> list[AddedStream]:
    """One stream for each output port that feeds some within its module and others by a port of the module.

    It has the name of the innermost one. Two that an author began at one port stay two, which is a fault.
    """
    groups: dict[PortRef, list[_Joined]] = {}
    for joined in streams:
        if joined.stream.source is not None:
            groups.setdefault(joined.stream.source, []).append(joined)
    gone: set[int] = set()
    for group in groups.values():
        written = {id(joined.written) for joined in group}
        if len(group) == 1 or len(written) < len(group):
            continue
        kept = min(group, key=lambda joined: len(joined.stream.source.through))
        others = [joined for joined in group if joined is not kept]
        several = [kept.stream, *(joined.stream for joined in others)]
        localities: Any = {to: one for stream in several for to, one in localities_of(stream).items()}
        kept.stream = replace(
            kept.stream,
            sinks=tuple(sink for stream in several for sink in stream.sinks),
            locality=localities or None,
            persisted=tuple(end for stream in several for end in stream.persisted),
            faults=tuple(fault for stream in several for fault in stream.faults),
            decoupled=tuple(end for stream in several for end in stream.decoupled),
        )
        gone.update(id(joined) for joined in others)
    return [joined.stream for joined in streams if id(joined) not in gone]


def logical_modules(draft: Draft) -> tuple[LogicalModule, ...]:
    """The modules of a valid draft."""
    return tuple(
        LogicalModule(
            module.name,
            f"{type(module.module).__module__}.{type(module.module).__qualname__}",
            shown_properties(module.module),
            {port: tuple(module.ends[port]) for port in module.declared.inputs},
            {port: module.ends[port][0] for port in module.declared.outputs},
            secret_names(module.module),
        )
        for module in draft.modules
    )
