"""Make edits of an application without modules: its operators, streams, and what is said of them outside."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ridgeline.api.application import AddedOperator, AddedStream, Application
from ridgeline.api.errors import did_you_mean, listed
from ridgeline.api.operator import operator_type
from ridgeline.api.partitioner import Partitioner
from ridgeline.api.support.loops import DelayHead, DelayTail
from ridgeline.plan.change.edited_references import (
    Named,
    forget_operators,
    operator_of,
    point_of,
    put_in_place,
    rename_references,
    with_through,
)
from ridgeline.plan.draft import Draft
from ridgeline.plan.edits import (
    AddOperator,
    AddSink,
    AddStream,
    Edit,
    RemoveOperator,
    RemoveSink,
    RemoveStream,
    RenameOperator,
    Repartition,
    ReplaceOperator,
    SetAttribute,
    SetProperty,
)
from ridgeline.plan.logical import module_of
from ridgeline.plan.overrides import Overrides
from ridgeline.plan.spec.partitioners import read_partitioner
from ridgeline.plan.spec.reader import read_operator
from ridgeline.plan.spec.values import ValueFaultError, read_value
from ridgeline.plan.validate.application import check_name

_ONE_OF_TWO = {
    "application_window": "application_window_count",
    "application_window_count": "application_window",
}
"""Attributes of which only one can be given: who sets one means it in the place of the other."""


class Editor:
    """Makes one edit after the other; those that cannot be made are faults of the draft.

    `app` is a copy, which is changed; so are the `overrides`: properties and attributes that edits set are
    set from outside.
    """

    def __init__(self, draft: Draft, app: Application, overrides: Overrides) -> None:
        self.draft = draft
        self.overrides = overrides
        self.app = copy.copy(app)
        self.app.operators, self.app.streams = list(app.operators), list(app.streams)
        self.app.attributes_set, self.app.affinity = list(app.attributes_set), list(app.affinity)
        self._fed = self._ends()
        self._full = {one.name for one in app.streams if one.sinks}
        """Streams with sinks: if edits leave one without any, it is none."""
        self._spoilt: set[str] = set()
        """Names of what could not be made: what they are missed for is no fault of its own."""

    def make(self, edits: Iterable[Edit]) -> None:
        """Make edits, in order."""
        for edit in edits:
            self._makers[type(edit)](self, edit)

    def finished(self) -> Application:
        """The application with all edits made.

        A port inside a module that a port of the module stands for must be connected again, if an edit took
        its stream away.
        """
        self.app.streams = [one for one in self.app.streams if one.sinks or one.name not in self._full]
        self._remove_left()
        self.draft.excused -= self._fed - self._ends()
        for module in self.draft.modules:
            known = {id(added.operator) for added in self.app.operators}
            for name, ends in module.ends.items():
                module.ends[name] = [
                    end for end in ends if operator_of(end) is None or id(operator_of(end)) in known
                ]
        inside = [str(added.name) for added in self.app.operators]
        self.draft.modules = [
            module
            for module in self.draft.modules
            if module.failed or any(one.startswith(f"{module.name}.") for one in inside)
        ]
        return self.app

    # Values -------------------------------------------------------------------------------------------------

    def _set_property(self, edit: SetProperty) -> None:
        if self._find(edit.operator, edit.property) is None:
            return
        where = f"{edit.operator}.{edit.property}"
        value = self._value(where, edit.value)
        given = self.overrides.properties.setdefault(edit.operator, {})
        for name in [name for name in given if name.startswith(f"{edit.property}.")]:
            del given[name]  # what was set of an entry, before the whole
        given.pop(edit.property, None)
        given[edit.property] = value

    def _set_attribute(self, edit: SetAttribute) -> None:
        """Set an attribute of the application, an operator, a port, unifiers, or a stream."""
        where = ".".join(part for part in (edit.operator, edit.port, edit.attribute) if part)
        value = self._value(where, edit.value)
        if not edit.operator:
            self.overrides.application[edit.attribute] = value
            return
        kind, _, stream = edit.operator.partition(".")
        if kind == "stream" and stream and kind not in self._names:
            self._set_of_stream(stream, edit.attribute, value)
            return
        added = self._find(edit.operator, edit.attribute)
        if added is None:
            return
        if edit.attribute == "partitioner" and isinstance(value, Mapping):
            value = self._partitioner(where, value)
        if edit.port:
            of_ports = self.overrides.unifiers if edit.unifier else self.overrides.ports
            given = of_ports.setdefault(edit.operator, {}).setdefault(edit.port, {})
        elif edit.unifier:
            what = "an attribute of unifiers is given without the output port that they merge"
            self.draft.fault(where, what, "name the `port`")
            return
        else:
            given = self.overrides.attributes.setdefault(edit.operator, {})
            self._leave_out(added, _ONE_OF_TWO.get(edit.attribute))
            if value is None:
                self._leave_out(added, edit.attribute)
                given.pop(edit.attribute, None)
                return
        given.pop(_ONE_OF_TWO.get(edit.attribute, ""), None)
        given[edit.attribute] = value

    def _leave_out(self, added: AddedOperator, attribute: str | None) -> None:
        """Take an attribute of an operator away, wherever its author gave it."""
        added = self._names[str(added.name)]
        if attribute is None:
            return
        given: Any = {name: value for name, value in added.attributes.items() if name != attribute}
        self._put(added, replace(added, attributes=given))
        self.app.attributes_set = [
            replace(
                one,
                attributes={name: value for name, value in one.attributes.items() if name != attribute},
            )
            if one.target is added.operator and not one.unifier
            else one
            for one in self.app.attributes_set
        ]

    def _set_of_stream(self, name: str, attribute: str, value: Any) -> None:
        """Set an attribute of a stream, `stream.NAME`."""
        found = self._stream(f"stream.{name}.{attribute}", name)
        if found is None:
            return
        if attribute != "locality":
            what = f"there is no attribute `{attribute}` of streams"
            self.draft.fault(f"stream.{name}.{attribute}", what, did_you_mean(attribute, ["locality"]))
            return
        self._put_stream(found, replace(found, locality=value))

    def _repartition(self, edit: Repartition) -> None:
        """Set the attributes `partitions` and `partitioner` of an operator."""
        if self._find(edit.operator, "partitions") is None:
            return
        given = self.overrides.attributes.setdefault(edit.operator, {})
        if edit.partitions is None and edit.partitioner is None:
            what = "it is to be repartitioned, but neither `partitions` nor `partitioner` is given"
            self.draft.fault(f"{edit.operator}.partitions", what, "say how many partitions it is to have")
        if edit.partitions is not None:
            given["partitions"] = edit.partitions
        if edit.partitioner is not None:
            made = self._partitioner(f"{edit.operator}.partitioner", edit.partitioner)
            if made is not None:
                given["partitioner"] = made

    def _partitioner(self, where: str, spec: Mapping[str, Any]) -> Partitioner | None:
        """A partitioner from its specification; None for a fault."""
        try:
            given = {key: self._value(where, value) for key, value in spec.items()}
            return read_partitioner(given)
        except ValueFaultError as error:
            self.draft.fault(where, error.what, error.remedy)
            return None

    def _value(self, where: str, value: Any) -> Any:
        """A value, with what marks such as `$import` stand for."""
        try:
            return read_value(value, {})
        except ValueFaultError as error:
            self.draft.fault(where, error.what, error.remedy)
            return value

    # Operators ----------------------------------------------------------------------------------------------

    def _add_operator(self, edit: AddOperator) -> None:
        if not self._is_free(edit.name):
            return
        made = self._made(edit.name, edit.spec)
        if made is not None:
            self.app.operators.append(made.operators[0])
            self.app.attributes_set += made.attributes_set

    def _is_free(self, name: Any) -> bool:
        """True if a name can be given to an operator; else there is a fault."""
        before = len(self.draft.faults)
        if isinstance(name, str) and "." in name:
            what = "only what is inside of a module has a dot in its name"
            self.draft.fault(name, what, "use letters, digits, `_` and `-` only")
        elif name in self._names:
            self.draft.fault(name, f"there is an operator `{name}` already", "give another name")
        elif name in self._modules:
            self.draft.fault(name, f"there is a module `{name}` already", "give another name")
        else:
            check_name(self.draft, "operator", name)
        if len(self.draft.faults) > before:
            return False
        self._spoilt.discard(name)
        return True

    def _made(self, name: str, spec: Mapping[str, Any]) -> Application | None:
        """An application of the one operator that a specification says; None for faults."""
        made, faults = read_operator(name, spec)
        self.draft.faults += faults
        if made is None:
            self._spoilt.add(name)
        return made

    def _remove_operator(self, edit: RemoveOperator) -> None:
        """Remove an operator, or all of a module, with all that is said of it."""
        if edit.name in self._modules:
            names = [name for name in self._names if name.startswith(f"{edit.name}.")]
        elif self._find(edit.name) is None:
            return
        else:
            names = [edit.name]
            if self._is_end_of_delay(edit.name):
                return
        gone = {name: self._names[name].operator for name in names}
        forget_operators(self.draft, self.app, gone)
        for name in gone:
            for kept in self._outside:
                kept.pop(name, None)

    def _remove_left(self) -> None:
        """Remove operators that are there only for the streams that they had."""
        fed = {number for number, _ in self._ends()}
        for name, added in self._names.items():
            if added.operator.leaves_with_streams and id(added.operator) not in fed:
                self._remove_operator(RemoveOperator(name))

    def _is_end_of_delay(self, name: str) -> bool:
        """True, with a fault, for one of the two operators of a delay."""
        if not isinstance(self._names[name].operator, (DelayHead, DelayTail)):
            return False
        delay = module_of(name)
        self.draft.fault(name, f"it is an end of the delay `{delay}`", f"name `{delay}`, both ends at once")
        return True

    def _replace_operator(self, edit: ReplaceOperator) -> None:
        """Put another operator in the place of one, with the attributes that are not given anew."""
        added = self._find(edit.name)
        if added is not None and self._is_end_of_delay(edit.name):
            return
        made = None if added is None else self._made(edit.name, edit.spec)
        if added is None or made is None:
            self._spoilt.discard(edit.name)
            return
        (new,) = made.operators
        self.overrides.properties.pop(edit.name, None)
        lost = put_in_place(self.draft, self.app, added.operator, new.operator)
        for stream, port in lost:
            kind = type(new.operator).__name__
            what = f"`{kind}` has no port `{port}`, where stream `{stream}` {'ends or begins'}"
            remedy = "remove the stream, or this sink of it, in the same change"
            self.draft.fault(f"{edit.name}.{port}", what, remedy)
        attributes: Any = {**added.attributes, **new.attributes}
        given = self.overrides.attributes.get(edit.name, {})
        for name in new.attributes:
            given.pop(name, None)
            other = _ONE_OF_TWO.get(name, "")
            given.pop(other, None)
            if other not in new.attributes:
                attributes.pop(other, None)
        placed = replace(added, operator=new.operator, attributes=attributes)
        self.app.operators = [placed if one is added else one for one in self.app.operators]
        self.app.attributes_set += made.attributes_set
        for one in made.attributes_set:
            kept = self.overrides.unifiers if one.unifier else self.overrides.ports
            for name in one.attributes:
                kept.get(edit.name, {}).get(one.target.name, {}).pop(name, None)

    def _rename_operator(self, edit: RenameOperator) -> None:
        """Give an operator another name, by which all that is said of it goes on."""
        inside = module_of(edit.name) if edit.name in self._names else ""
        if inside or edit.name in self._modules:
            what = f"it is inside of module `{inside}`" if inside else "it is a module"
            remedy = "give it another name where the module is written"
            self.draft.fault(edit.name, f"{what}, whose names are its own", remedy)
            return
        added = self._find(edit.name)
        if added is None or edit.new == edit.name or not self._is_free(edit.new):
            return
        self._put(added, replace(added, name=edit.new))
        rename_references(self.app, edit.name, edit.new)
        for kept in self._outside:
            if edit.name in kept:
                kept[edit.new] = kept.pop(edit.name)

    # Streams ------------------------------------------------------------------------------------------------

    def _add_stream(self, edit: AddStream) -> None:
        """Add a stream from a port where none begins yet."""
        if any(one.name == edit.name and self._is_stream(one) for one in self.app.streams):
            remedy = "give another name, or add sinks to that stream"
            self.draft.fault(edit.name, f"there is a stream `{edit.name}` already", remedy)
            return
        source = self._end(edit.name, edit.source, "output")
        sinks = [found for sink in edit.sinks for found in self._end(edit.name, sink, "input") or ()]
        if source is None or not sinks:
            return
        (begin,) = source
        other = self._begun_at(begin)
        if other is not None:
            what = f"stream `{other.name}` begins at `{edit.source}` already"
            self.draft.fault(edit.name, what, f"add the sinks to `{other.name}`")
            return
        through = getattr(begin, "ports", ())
        ends = tuple(with_through(sink, through) for sink in sinks)
        locality: Any = edit.locality
        point = point_of(begin)
        self.app.streams = [
            one
            for one in self.app.streams
            if self._is_stream(one) or (one.name != edit.name and one.source is not point)
        ]
        self._full.add(edit.name)
        self.app.streams.append(AddedStream(edit.name, point, ends, locality))

    def _begun_at(self, source: Any) -> AddedStream | None:
        """The stream that begins at a port; None if there is none."""
        point = point_of(source)
        streams = [one for one in self.app.streams if one.source is point and self._is_stream(one)]
        return streams[0] if streams else None

    def _is_stream(self, stream: AddedStream) -> bool:
        """False for one that edits have left without sinks."""
        return bool(stream.sinks) or stream.name not in self._full

    def _remove_stream(self, edit: RemoveStream) -> None:
        found = self._stream(edit.name, edit.name)
        if found is not None:
            self.app.streams = [one for one in self.app.streams if one is not found]

    def _add_sink(self, edit: AddSink) -> None:
        """Add a sink to a stream. Its locality is its own; what the stream says holds for the other sinks."""
        stream = self._stream(edit.stream, edit.stream)
        sinks = self._end(edit.stream, edit.sink, "input")
        if stream is None or sinks is None:
            return
        localities: Any = stream.locality
        if not isinstance(localities, Mapping):
            points = [point_of(sink) for sink in stream.sinks]
            points = [point for point in points if point not in stream.persisted]
            localities = dict.fromkeys(points, stream.locality) if stream.locality is not None else {}
        if edit.locality is not None:
            localities = {**localities, **{point_of(sink): edit.locality for sink in sinks}}
        changed = replace(stream, sinks=(*stream.sinks, *sinks), locality=localities or None)
        self._put_stream(stream, changed)

    def _remove_sink(self, edit: RemoveSink) -> None:
        """Take a sink away. A stream that is without sinks in the end is none."""
        stream = self._stream(edit.stream, edit.stream)
        ends = self._end(edit.stream, edit.sink, "input")
        if stream is None or ends is None:
            return
        points = [point_of(end) for end in ends]
        left = tuple(sink for sink in stream.sinks if point_of(sink) not in points)
        if len(left) == len(stream.sinks):
            names = self._names_by_operator
            known = [f"{names.get(id(operator_of(one)))}.{point_of(one).name}" for one in stream.sinks]
            what = f"`{edit.sink}` is no sink of stream `{edit.stream}`"
            self.draft.fault(edit.stream, what, f"its sinks are {listed(known)}")
            return
        locality: Any = stream.locality
        if isinstance(locality, Mapping):
            locality = {key: value for key, value in locality.items() if key not in points} or None
        persisted = tuple(point for point in stream.persisted if point not in points)
        self._put_stream(stream, replace(stream, sinks=left, locality=locality, persisted=persisted))

    # What is there ------------------------------------------------------------------------------------------

    @property
    def _names(self) -> dict[str, AddedOperator]:
        return {str(added.name): added for added in self.app.operators}

    @property
    def _names_by_operator(self) -> dict[int, str]:
        return {id(added.operator): str(added.name) for added in self.app.operators}

    @property
    def _modules(self) -> list[str]:
        return [*(module.name for module in self.draft.modules), *(one.name for one in self.app.modules)]

    @property
    def _outside(self) -> tuple[dict[str, Any], ...]:
        """What is said of operators from outside, by name."""
        given = self.overrides
        return given.properties, given.attributes, given.ports, given.unifiers

    def _ends(self) -> set[tuple[int, str]]:
        """The ports that streams lead from and to."""
        points = [point_of(end) for one in self.app.streams for end in (one.source, *one.sinks)]
        return {(id(operator_of(point)), point.name) for point in points if operator_of(point) is not None}

    def _find(self, name: str, part: str = "") -> AddedOperator | None:
        """An operator by name; None, and a fault, if there is none."""
        found = self._names.get(name)
        if found is None and name not in self._spoilt:
            where = f"{name}.{part}" if name and part else name or part or "operator"
            modules = self._modules
            if name in modules:
                self.draft.fault(where, f"`{name}` is a module", "name an operator inside of it")
            else:
                self.draft.fault(
                    where, f"there is no operator `{name}`", did_you_mean(name, [*self._names, *modules])
                )
        return found

    def _stream(self, where: str, name: str) -> AddedStream | None:
        """A stream by name; None, and a fault, if there is none."""
        found = next((one for one in self.app.streams if one.name == name), None)
        if found is None:
            owner = name.removesuffix("_dead_letters")
            remedy = did_you_mean(name, [str(one.name) for one in self.app.streams])
            if owner != name and owner in self._names:
                remedy = f"add a stream from `{owner}.dead_letters`"
            self.draft.fault(where, f"there is no stream `{name}`", remedy)
        return found

    def _end(self, where: str, text: str, side: str) -> list[Any] | None:
        """The ports that `operator.port` names, several for one of a module; None, and a fault, for none."""
        owner, dot, port = text.rpartition(".")
        if not dot or not owner or not port:
            self.draft.fault(where, f"`{text}` names no port", "write `operator.port`")
            return None
        thing = self._owner(owner)
        if thing is None:
            if owner not in self._spoilt:
                known = [*self._names, *self._modules]
                self.draft.fault(where, f"there is no operator `{owner}`", did_you_mean(owner, known))
            return None
        declared = operator_type(type(thing.thing))
        sides: dict[str, Mapping[str, Any]] = {"input": declared.inputs, "output": declared.every_output}
        ports, others = sides.pop(side), sides.popitem()[1]
        if port in ports:
            return thing.ends(port)
        kind = type(thing.thing).__name__
        if port in others:
            other = "a stream leads from an output port to input ports"
            self.draft.fault(where, f"`{port}` of `{kind}` is no {side} port", other)
        else:
            self.draft.fault(where, f"`{kind}` has no {side} port `{port}`", did_you_mean(port, [*ports]))
        return None

    def _owner(self, name: str) -> Named | None:
        """An operator or a module by name."""
        if name in self._names:
            return Named(self._names[name].operator)
        for module in self.draft.modules:
            if module.name == name:
                return Named(module.module, module)
        return next((Named(one.module) for one in self.app.modules if one.name == name), None)

    def _put(self, old: AddedOperator, new: AddedOperator) -> None:
        self.app.operators = [new if one is old else one for one in self.app.operators]

    def _put_stream(self, old: AddedStream, new: AddedStream) -> None:
        """Put a stream in the place of another one."""
        self.app.streams = [new if one is old else one for one in self.app.streams]

    _makers: Mapping[type[Any], Callable[[Any, Any], None]] = {
        SetProperty: _set_property,
        SetAttribute: _set_attribute,
        Repartition: _repartition,
        AddOperator: _add_operator,
        RemoveOperator: _remove_operator,
        ReplaceOperator: _replace_operator,
        RenameOperator: _rename_operator,
        AddStream: _add_stream,
        RemoveStream: _remove_stream,
        AddSink: _add_sink,
        RemoveSink: _remove_sink,
    }
