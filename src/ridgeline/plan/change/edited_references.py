"""References to operators in an application: ends of streams, attributes, rules, ports of modules."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ridgeline.api.affinity import AffinityRule
from ridgeline.api.application import AddedStream, Application
from ridgeline.api.operator import Operator, operator_type
from ridgeline.plan.draft import Draft, DraftModule, Through

_LEAST = 2
"""Operators of a rule without hosts."""


def point_of(end: Any) -> Any:
    """The port of an operator that an end of a stream is."""
    return end.point if isinstance(end, Through) or hasattr(end, "point") else end


def operator_of(end: Any) -> Operator | None:
    """The operator whose port an end of a stream is; None for what is no port of one."""
    found = getattr(point_of(end), "operator", None)
    return found if isinstance(found, Operator) else None


@dataclass(frozen=True, slots=True)
class Named:
    """An operator, or a module, that a name stands for. `draft`: the module, where it was expanded."""

    thing: Any
    draft: DraftModule | None = None

    def ends(self, port: str) -> list[Any]:
        """The ports of operators that one of its ports is, or leads to."""
        if self.draft is None:
            return [getattr(self.thing, port)]
        self.draft.touched.add(port)
        found = []
        for inner in self.draft.ends[port]:
            own = ((self.draft, port),)
            entering = port in self.draft.declared.inputs
            found.append(Through(inner.point, (*own, *inner.ports) if entering else (*inner.ports, *own)))
        return found


def with_through(sink: Any, ports: tuple[tuple[DraftModule, str], ...]) -> Any:
    """A sink behind these ports of modules."""
    through = (*ports, *getattr(sink, "ports", ()))
    return Through(point_of(sink), through) if through else sink


def forget_operators(draft: Draft, app: Application, gone: Mapping[str, Operator]) -> None:
    """Take operators, by name, out of an application, and all that names them.

    A stream that begins at one goes; one whose sinks are all gone is left without any. A rule stays while it
    names operators enough.
    """
    identities = {id(operator) for operator in gone.values()}

    def is_gone(end: Any) -> bool:
        return id(operator_of(end)) in identities

    app.operators = [added for added in app.operators if id(added.operator) not in identities]
    streams = []
    for stream in app.streams:
        if is_gone(stream.source):
            continue
        sinks = tuple(sink for sink in stream.sinks if not is_gone(sink))
        if len(sinks) == len(stream.sinks):
            streams.append(stream)
        else:
            locality: Any = stream.locality
            if isinstance(locality, Mapping):
                locality = {key: value for key, value in locality.items() if not is_gone(key)} or None
            persisted = tuple(point for point in stream.persisted if not is_gone(point))
            apart = tuple(point for point in stream.decoupled if not is_gone(point))
            streams.append(
                replace(stream, sinks=sinks, locality=locality, persisted=persisted, decoupled=apart)
            )
    app.streams = streams
    app.attributes_set = [
        given
        for given in app.attributes_set
        if not is_gone(given.target) and id(given.target) not in identities
    ]
    if app.dead_letter_port is not None and is_gone(app.dead_letter_port):
        app.dead_letter_port = None
    app.regions = [
        replace(one, operators=left)
        for one in app.regions
        if (left := tuple(part for part in one.operators if id(part) not in identities))
    ]
    names = [str(added.name) for added in app.operators]
    app.affinity = _rules_without(app.affinity, "", gone, names)
    for module in draft.modules:
        inside = module.inside.app
        inside.affinity = _rules_without(inside.affinity, f"{module.name}.", gone, names)


def _rules_without(
    rules: Sequence[Any], prefix: str, gone: Mapping[str, Operator], names: Sequence[str]
) -> list[Any]:
    """Affinity rules without operators that are gone. `names`: those that are left."""
    identities = {id(operator) for operator in gone.values()}
    found = []
    for rule in rules:
        if not _lists_operators(rule):
            found.append(rule)
            continue
        left = [
            one
            for one in rule.operators
            if id(one) not in identities
            and not (isinstance(one, str) and _is_gone(f"{prefix}{one}", gone, names))
        ]
        if len(left) == len(rule.operators):
            found.append(rule)
        elif len(left) >= (1 if rule.hosts else _LEAST):
            found.append(replace(rule, operators=tuple(left)))
    return found


def _lists_operators(rule: Any) -> bool:
    """True for a rule that lists operators; what is none is found by the checks of the application."""
    return isinstance(rule, AffinityRule) and isinstance(rule.operators, (list, tuple))


def _is_gone(name: str, gone: Mapping[str, Operator], names: Sequence[str]) -> bool:
    """True for an operator that is gone, and for a module of which nothing is left."""
    inside = f"{name}."
    emptied = any(one.startswith(inside) for one in gone) and not any(one.startswith(inside) for one in names)
    return name in gone or emptied


class _Mover:
    """Puts a new operator in the place of an old one. `lost`: streams, each with a port that it has not."""

    def __init__(self, old: Operator, new: Operator) -> None:
        self.old, self.new = old, new
        self.lost: list[tuple[str, str]] = []
        self._before, self._now = operator_type(type(old)), operator_type(type(new))

    def moved(self, end: Any) -> Any:
        """The end at the new operator; None if that has no such port."""
        if operator_of(end) is not self.old:
            return end
        point = point_of(end)
        entering = point.name in self._before.inputs
        if point.name not in (self._now.inputs if entering else self._now.every_output):
            return None
        put = getattr(self.new, point.name)
        return replace(end, point=put) if end is not point else put

    def stream(self, stream: AddedStream) -> AddedStream | None:
        """The stream between the new operator's ports; None if nothing is left of it."""
        ends = [(end, self.moved(end)) for end in (stream.source, *stream.sinks)]
        if all(put is end for end, put in ends):
            return stream
        self.lost += [(str(stream.name), point_of(end).name) for end, put in ends if put is None]
        source, *sinks = [put for _, put in ends]
        left = tuple(sink for sink in sinks if sink is not None)
        if source is None or not left:
            return None
        locality: Any = stream.locality
        if isinstance(locality, Mapping):
            localities = {self.moved(key): value for key, value in locality.items()}
            locality = {key: value for key, value in localities.items() if key is not None} or None
        persisted = tuple(point for point in map(self.moved, stream.persisted) if point is not None)
        apart = tuple(point for point in map(self.moved, stream.decoupled) if point is not None)
        return replace(
            stream, source=source, sinks=left, locality=locality, persisted=persisted, decoupled=apart
        )


def put_in_place(draft: Draft, app: Application, old: Operator, new: Operator) -> list[tuple[str, str]]:
    """Let all that names an operator name the new one; `app.operators` is left to the caller.

    Returns the streams, each with the port, that the new operator has no port for.
    """
    mover = _Mover(old, new)
    streams = [mover.stream(stream) for stream in app.streams]
    app.streams = [stream for stream in streams if stream is not None]
    kept = []
    for given in app.attributes_set:
        target = new if given.target is old else mover.moved(given.target)
        if target is not None:
            kept.append(given if target is given.target else replace(given, target=target))
    app.attributes_set = kept
    if app.dead_letter_port is not None:
        port = app.dead_letter_port
        app.dead_letter_port = mover.moved(port)
        if app.dead_letter_port is None:
            mover.lost.append(("dead_letters", port.name))
    app.affinity = [_rule_with(rule, old, new) for rule in app.affinity]
    app.regions = [
        replace(one, operators=tuple(new if part is old else part for part in one.operators))
        for one in app.regions
    ]
    for module in draft.modules:
        for name, inner in module.ends.items():
            module.ends[name] = [end for end in map(mover.moved, inner) if end is not None]
    draft.excused = {(id(new) if identity == id(old) else identity, name) for identity, name in draft.excused}
    return mover.lost


def _rule_with(rule: Any, old: Operator, new: object) -> Any:
    """A rule that names the new operator, or a name, where it named the old one."""
    if not _lists_operators(rule) or not any(one is old for one in rule.operators):
        return rule
    operators: Any = tuple(new if one is old else one for one in rule.operators)
    return replace(rule, operators=operators)


def rename_references(app: Application, old: str, new: str) -> None:
    """Let affinity rules of the application name an operator by its new name."""
    rules: list[Any] = []
    for rule in app.affinity:
        if _lists_operators(rule) and old in rule.operators:
            named: Any = tuple(new if one == old else one for one in rule.operators)
            rules.append(replace(rule, operators=named))
        else:
            rules.append(rule)
    app.affinity = rules


Rewrite = Callable[[Draft, Application], Application]
"""Gets an application without modules, before it is checked; returns it, or a changed copy."""
Replace = Callable[[Mapping[str, Operator]], Mapping[str, Operator]]
"""Gets all operators by full name (`outer.inner`); returns those that are replaced, by name.

Both have one output port, and the new one has no other port.
"""


def replace_operators(chosen: Replace, draft: Draft, app: Application) -> Application:
    """A copy of an application without modules, with some operators replaced."""
    by_name = {str(added.name): added.operator for added in app.operators}
    new = {id(by_name[name]): operator for name, operator in chosen(by_name).items()}
    if not new:
        return app

    def port(point: Any) -> Any:
        """The new operator's port in the place of an old one's."""
        by = new.get(id(getattr(point, "operator", None)))
        return point if by is None else getattr(by, _output(by))

    changed = copy.copy(app)
    changed.operators = [
        replace(one, operator=new.get(id(one.operator), one.operator)) for one in app.operators
    ]
    changed.streams = [replace(one, source=port(one.source)) for one in app.streams]
    changed.attributes_set = [
        replace(given, target=new.get(id(given.target)) or port(given.target)) for given in app.attributes_set
    ]
    draft.excused = {
        (id(new[identity]), _output(new[identity])) if identity in new else (identity, name)
        for identity, name in draft.excused
    }
    for module in draft.modules:
        for name, ends in module.ends.items():
            module.ends[name] = [replace(end, point=port(end.point)) for end in ends]
    return changed


def _output(operator: Operator) -> str:
    (name,) = operator_type(type(operator)).outputs
    return name
