"""An application by name: ends of streams, what attributes are of, members of rules and regions are names.

Authors name operators, modules and ports by the objects. `ridgeline.plan.modules.ends` makes names of these,
and finds what is faulty; `named` does so for an application that is valid. What changes an application later,
such as an edit or the division into regions, maps names to names.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import Any

from ridgeline.api.affinity import AffinityRule
from ridgeline.api.application import AddedStream, Application
from ridgeline.api.module import InputProxy, OutputProxy
from ridgeline.api.operator import Operator, operator_type
from ridgeline.api.points import InputPoint, OutputPoint
from ridgeline.plan.draft import Draft
from ridgeline.plan.region import PortRef

_SAME: Mapping[str, str] = {}
_LEAST = 2
"""Operators of a rule without hosts."""


Move = Callable[[Any], Any]
"""Gets what names something; returns what names what is in its place, None for nothing."""


def named(app: Application) -> Application:
    """A copy of a valid application, or of one that is by name already; its modules are not expanded."""
    names = {id(added.operator): str(added.name) for added in app.operators}
    names |= {id(added.module): str(added.name) for added in app.modules}

    def end(point: Any) -> Any:
        if isinstance(point, (InputPoint, OutputPoint)):
            return PortRef(names[id(point.operator)], point.name)
        if isinstance(point, (InputProxy, OutputProxy)):
            return PortRef(names[id(point.module)], point.name)
        return point

    made = copy.copy(app)
    move_references(made, end, lambda one: names.get(id(one), one))
    return made


def localities_of(stream: AddedStream) -> dict[Any, Any]:
    """The locality of each port that has one; what only writes the stream down has none of the stream's."""
    if isinstance(stream.locality, Mapping):
        return dict(stream.locality)
    ends = [end for end in stream.sinks if end not in stream.persisted]
    return dict.fromkeys(ends, stream.locality) if stream.locality is not None else {}


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

    `moved`: of ports, `swapped`: of operators and modules; both return anything else as it is. Where nothing
    is in its place, what is said of it goes, and a stream that begins there. One whose sinks are all gone
    has none.
    """
    streams = [moved_stream(stream, moved) for stream in app.streams]
    app.streams = [stream for stream in streams if stream.source is not None]
    targets = [(given, moved(swapped(given.target))) for given in app.attributes_set]
    app.attributes_set = [
        given if target is given.target else replace(given, target=target)
        for given, target in targets
        if target is not None
    ]
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


def forget_operators(draft: Draft, app: Application, gone: Collection[str]) -> None:
    """Take operators out of an application by name, and all that names them.

    A module of which nothing is left is gone, too.
    """
    app.operators = [added for added in app.operators if str(added.name) not in gone]
    names = [str(added.name) for added in app.operators]

    def swapped(one: Any) -> Any:
        inside = f"{one}." if isinstance(one, str) else ""
        emptied = inside and any(name.startswith(inside) for name in gone)
        is_gone = isinstance(one, str) and one in gone
        return None if is_gone or (emptied and not any(name.startswith(inside) for name in names)) else one

    def moved(end: Any) -> Any:
        return None if isinstance(end, PortRef) and end.operator in gone else end

    move_references(app, moved, swapped)
    for module in draft.modules:
        module.rules = moved_rules(module.rules, swapped)


def rename_operator(app: Application, name: str, new: str) -> None:
    """Let all that names an operator have its new name; `app.operators` is left to the caller."""

    def moved(end: Any) -> Any:
        is_own = isinstance(end, PortRef) and end.operator == name
        return replace(end, operator=new) if is_own else end

    move_references(app, moved, lambda one: new if one == name else one)


def put_in_place(
    draft: Draft, app: Application, name: str, new: Operator, ports: Mapping[str, str] = _SAME
) -> list[tuple[str, str]]:
    """Let a new operator have a name, with what is said of the ports that it has.

    `ports`: names of the new ports by those of the old ones, where they differ. Returns the streams, each
    with the port, that the new operator has no port for.
    """
    added = next(one for one in app.operators if str(one.name) == name)
    before, now = operator_type(type(added.operator)), operator_type(type(new))

    def moved(end: Any) -> Any:
        if not isinstance(end, PortRef) or end.operator != name:
            return end
        port = ports.get(end.port, end.port)
        if port not in (now.inputs if end.port in before.inputs else now.every_output):
            return None
        return end if port == end.port else replace(end, port=port)

    ends = [(str(one.name), end) for one in app.streams for end in (one.source, *one.sinks)]
    ends.append(("dead_letters", app.dead_letter_port))
    lost = [(stream, end.port) for stream, end in ends if end is not None and moved(end) is None]
    move_references(app, moved, lambda one: one)
    for module in draft.modules:
        for port, inner in module.ends.items():
            module.ends[port] = [end for end in map(moved, inner) if end is not None]
    draft.excused = {
        (owner, ports.get(port, port) if owner == name else port) for owner, port in draft.excused
    }
    app.operators = [replace(one, operator=new) if one is added else one for one in app.operators]
    return lost


Rewrite = Callable[[Draft, Application], Application]
"""Gets an application by name, without modules, before it is checked; returns it, or a changed copy."""
Replace = Callable[[Mapping[str, Operator]], Mapping[str, Operator]]
"""Gets all operators by full name (`outer.inner`); returns those that are replaced, by name.

Both have one output port, and the new one has no other port.
"""


def replace_operators(chosen: Replace, draft: Draft, app: Application) -> Application:
    """A copy of an application by name with some operators replaced."""
    by_name = {str(added.name): added.operator for added in app.operators}
    changed = copy.copy(app)
    for name, new in chosen(by_name).items():
        put_in_place(draft, changed, name, new, {_output(by_name[name]): _output(new)})
    return changed


def _output(operator: Operator) -> str:
    (name,) = operator_type(type(operator)).outputs
    return name
