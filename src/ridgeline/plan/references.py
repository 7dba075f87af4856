"""References to operators in an application: ends of streams, attributes, rules, ports of modules."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import is_
from typing import Any

from ridgeline.api.affinity import AffinityRule
from ridgeline.api.application import AddedStream, Application
from ridgeline.api.operator import Operator, operator_type
from ridgeline.plan.draft import Draft, DraftModule, Through

_SAME: Mapping[str, str] = {}
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


def localities_of(stream: AddedStream) -> dict[Any, Any]:
    """The locality of each port that has one; what only writes the stream down has none of the stream's."""
    if isinstance(stream.locality, Mapping):
        return dict(stream.locality)
    points = [point for point in map(point_of, stream.sinks) if point not in stream.persisted]
    return dict.fromkeys(points, stream.locality) if stream.locality is not None else {}


def with_through(sink: Any, ports: tuple[tuple[DraftModule, str], ...]) -> Any:
    """A sink behind these ports of modules."""
    through = (*ports, *getattr(sink, "ports", ()))
    return Through(point_of(sink), through) if through else sink


Move = Callable[[Any], Any]
"""Gets what names something; returns what names what is in its place, None for nothing."""


def moved_stream(stream: AddedStream, moved: Move) -> AddedStream:
    """A stream with other ends, and with what it says of those that it has then; its source may be None."""
    if all(moved(end) is end for end in (stream.source, *stream.sinks)):
        return stream

    def those(ends: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(end for end in map(moved, ends) if end is not None)

    locality: Any = stream.locality
    if isinstance(locality, Mapping):
        pairs = [(moved(key), value) for key, value in locality.items()]
        locality = {key: value for key, value in pairs if key is not None} or None
    return replace(
        stream,
        source=moved(stream.source),
        sinks=those(stream.sinks),
        locality=locality,
        persisted=those(stream.persisted),
        decoupled=those(stream.decoupled),
    )


def move_references(app: Application, moved: Move, swapped: Move) -> None:
    """Let all that names operators and their ports name what is in their place; `app.operators` stay.

    `moved`: of the ends of streams; `swapped`: of operators, modules and names. Where nothing is in its
    place, what is said of it goes, and a stream that begins there. One whose sinks are all gone has none.
    """
    streams = [moved_stream(stream, moved) for stream in app.streams]
    app.streams = [stream for stream in streams if stream.source is not None]
    kept = []
    for given in app.attributes_set:
        target = swapped(given.target)
        target = moved(target) if target is given.target else target
        if target is not None:
            kept.append(given if target is given.target else replace(given, target=target))
    app.attributes_set = kept
    if app.dead_letter_port is not None:
        app.dead_letter_port = moved(app.dead_letter_port)
    app.regions = [
        replace(one, operators=left)
        for one in app.regions
        if (left := _those(one.operators, swapped)) or not one.operators
    ]
    app.affinity = moved_rules(app.affinity, swapped)


def moved_rules(rules: Sequence[Any], swapped: Move) -> list[Any]:
    """Affinity rules of what is in the place of operators; without those that name too few then."""
    found = []
    for rule in rules:
        # what is no list is found by the checks of the application
        is_list = isinstance(rule, AffinityRule) and isinstance(rule.operators, (list, tuple))
        left = _those(rule.operators, swapped) if is_list else ()
        same = is_list and len(left) == len(rule.operators)
        if not is_list or (same and all(map(is_, left, rule.operators))):
            found.append(rule)
        elif same or len(left) >= (1 if rule.hosts else _LEAST):
            found.append(replace(rule, operators=left))
    return found


def _those(operators: Sequence[Any], swapped: Move) -> tuple[Any, ...]:
    return tuple(one for one in map(swapped, operators) if one is not None)


def forget_operators(draft: Draft, app: Application, gone: Mapping[str, Operator]) -> None:
    """Take operators, by name, out of an application, and all that names them."""
    identities = {id(operator) for operator in gone.values()}
    app.operators = [added for added in app.operators if id(added.operator) not in identities]
    names = [str(added.name) for added in app.operators]

    def moved(end: Any) -> Any:
        return None if id(operator_of(end)) in identities else end

    def swapped(one: Any, prefix: str = "") -> Any:
        is_gone = id(one) in identities or (isinstance(one, str) and _is_gone(f"{prefix}{one}", gone, names))
        return None if is_gone else one

    move_references(app, moved, swapped)
    for module in draft.modules:
        inside = module.inside.app
        inside.affinity = moved_rules(inside.affinity, partial(swapped, prefix=f"{module.name}."))


def _is_gone(name: str, gone: Mapping[str, Operator], names: Sequence[str]) -> bool:
    """True for an operator that is gone, and for a module of which nothing is left."""
    inside = f"{name}."
    emptied = any(one.startswith(inside) for one in gone) and not any(one.startswith(inside) for one in names)
    return name in gone or emptied


def put_in_place(
    draft: Draft, app: Application, old: Operator, new: Operator, ports: Mapping[str, str] = _SAME
) -> list[tuple[str, str]]:
    """Let all that names an operator name the new one; `app.operators` is left to the caller.

    `ports`: names of the new ports by those of the old ones, where they differ. Returns the streams, each
    with the port, that the new operator has no port for.
    """
    before, now = operator_type(type(old)), operator_type(type(new))

    def moved(end: Any) -> Any:
        if operator_of(end) is not old:
            return end
        point = point_of(end)
        name = ports.get(point.name, point.name)
        if name not in (now.inputs if point.name in before.inputs else now.every_output):
            return None
        put = getattr(new, name)
        return replace(end, point=put) if end is not point else put

    ends = [(str(one.name), end) for one in app.streams for end in (one.source, *one.sinks)]
    if app.dead_letter_port is not None:
        ends.append(("dead_letters", app.dead_letter_port))
    lost = [(name, point_of(end).name) for name, end in ends if moved(end) is None]
    move_references(app, moved, lambda one: new if one is old else one)
    for module in draft.modules:
        for name, inner in module.ends.items():
            module.ends[name] = [end for end in map(moved, inner) if end is not None]
    draft.excused = {
        (id(new), ports.get(name, name)) if identity == id(old) else (identity, name)
        for identity, name in draft.excused
    }
    return lost


Rewrite = Callable[[Draft, Application], Application]
"""Gets an application without modules, before it is checked; returns it, or a changed copy."""
Replace = Callable[[Mapping[str, Operator]], Mapping[str, Operator]]
"""Gets all operators by full name (`outer.inner`); returns those that are replaced, by name.

Both have one output port, and the new one has no other port.
"""


def replace_operators(chosen: Replace, draft: Draft, app: Application) -> Application:
    """A copy of an application without modules, with some operators replaced."""
    by_name = {str(added.name): added.operator for added in app.operators}
    changed = copy.copy(app)
    for name, new in chosen(by_name).items():
        old = by_name[name]
        put_in_place(draft, changed, old, new, {_output(old): _output(new)})
        changed.operators = [
            replace(one, operator=new) if one.operator is old else one for one in changed.operators
        ]
    return changed


def _output(operator: Operator) -> str:
    (name,) = operator_type(type(operator)).outputs
    return name
