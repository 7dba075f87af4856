"""The edits that make one application of another: what `ridgeline change APP --spec FILE` asks for."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ridgeline.api.application import Application
from ridgeline.api.dead_letter import NAME
from ridgeline.api.errors import Fault, ValidationError
from ridgeline.api.operator import operator_type
from ridgeline.api.partitioner import Partitioner
from ridgeline.api.support.properties import property_types
from ridgeline.plan.build.partitioning import parallel_ports
from ridgeline.plan.build.port_attributes import (
    inherited_by_operator,
    inherited_by_port,
    inherited_by_unifier,
)
from ridgeline.plan.edits import (
    AddOperator,
    AddSink,
    AddStream,
    Edit,
    RemoveOperator,
    RemoveSink,
    RemoveStream,
    Repartition,
    ReplaceOperator,
    SetAttribute,
    SetProperty,
)
from ridgeline.plan.logical import LogicalOperator, LogicalPlan, LogicalStream, PortRef, module_of
from ridgeline.plan.same_values import same_value
from ridgeline.plan.show.to_json import locality_name
from ridgeline.plan.spec.partitioners import write_partitioner
from ridgeline.plan.spec.values import ValueFaultError, write_value
from ridgeline.plan.spec.writer import operator_specs
from ridgeline.plan.validation import validate

_NOTHING: Mapping[str, object] = {}
_APART = ("partitions", "partitioner", "application_window")
"""Attributes of operators that other edits set, or that follow from others."""


def edits_between(
    old: LogicalPlan,
    new: Application,
    properties: Mapping[str, object] = _NOTHING,
    attributes: Mapping[str, object] = _NOTHING,
) -> tuple[Edit, ...]:
    """The edits after which the application of a plan is planned like a new one; none if they are alike.

    `properties` and `attributes` are for the new one, as of `validate`: what the run was started with. An
    operator with another name is another operator: what was renamed is removed and added. Raises
    ValidationError for faults of the new application, and for differences that no edit can make.
    """
    finder = _Finder(old, validate(new, properties, attributes), new)
    edits = [
        *finder.streams_removed(),
        *finder.operators_added(),
        *finder.sinks(),
        *finder.operators_replaced(),
        *finder.operators_removed(),
        *finder.streams_added(),
        *finder.values(),
    ]
    finder.check()
    if finder.faults:
        raise ValidationError(old.application, finder.faults)
    return tuple(edits)


class _Finder:
    """Finds the edits of each kind, and notes differences that no edit can make."""

    def __init__(self, old: LogicalPlan, new: LogicalPlan, app: Application) -> None:
        self.old, self.new = old, new
        self.faults: list[Fault] = []
        self._before = {one.name: one for one in old.operators}
        self._after = {one.name: one for one in new.operators}
        both = [name for name in self._after if name in self._before]
        self._both = [(self._before[name], self._after[name]) for name in both]
        self._replaced = {
            after.name for before, after in self._both if type(before.operator) is not type(after.operator)
        }
        written = {name for name in self._after if name not in self._before} | self._replaced
        self._specs, unwritten = operator_specs(_without_partitioners(app), written)
        self.faults += unwritten
        self._streams_before = {one.name: one for one in old.streams if not _is_automatic(one)}
        self._streams_after = {one.name: one for one in new.streams if not _is_automatic(one)}

    # Operators ----------------------------------------------------------------------------------------------

    def operators_added(self) -> Iterator[Edit]:
        """The operators that are new."""
        for name in self._after:
            if name not in self._before and self._is_outside(name, "added"):
                yield AddOperator(name, self._specs[name])
                partitioner = self._after[name].attributes["partitioner"]
                if partitioner is not None:
                    yield Repartition(name, None, self._partitioner(name, partitioner))

    def operators_removed(self) -> Iterator[Edit]:
        """The operators and modules that are gone."""
        modules = {one.name for one in self.old.modules} - {one.name for one in self.new.modules}
        whole = [name for name in sorted(modules) if module_of(name) not in modules]
        yield from map(RemoveOperator, whole)
        for name in self._before:
            if name not in self._after and not any(name.startswith(f"{module}.") for module in whole):
                yield RemoveOperator(name)

    def operators_replaced(self) -> Iterator[Edit]:
        """The operators that are of another class."""
        for name in self._after:
            if name in self._replaced and self._is_outside(name, "replaced"):
                yield ReplaceOperator(name, self._specs[name])

    def _is_outside(self, name: str, what: str) -> bool:
        """True, or a fault, for an operator that is in no module."""
        module = module_of(name)
        if module:
            remedy = "write what is inside of it as operators, or start the application anew"
            self._fault(name, f"an operator of module `{module}` cannot be {what} while it runs", remedy)
        return not module

    # Streams ------------------------------------------------------------------------------------------------

    def streams_removed(self) -> Iterator[Edit]:
        """The streams that are gone, and those that are made anew."""
        yield from (RemoveStream(name) for name in self._streams_before if not self._stays(name))

    def streams_added(self) -> Iterator[Edit]:
        """The streams that are new, and those that are made anew."""
        for name, stream in self._streams_after.items():
            if not self._stays(name):
                first, *others = zip(stream.sinks, map(locality_name, stream.localities), strict=True)
                alike = [sink for sink, locality in others if locality == first[1]]
                sinks = tuple(map(str, (first[0], *alike)))
                yield AddStream(name, str(stream.source), sinks, first[1])
                for sink, locality in others:
                    if locality != first[1]:
                        yield AddSink(name, str(sink), locality)

    def sinks(self) -> Iterator[Edit]:
        """The sinks of streams that stay: new ones first, so that no stream is without any."""
        stay = [name for name in self._streams_after if self._stays(name)]
        before = {name: _sinks(self._streams_before[name]) for name in stay}
        after = {name: _sinks(self._streams_after[name]) for name in stay}
        for name in stay:
            for sink, locality in after[name].items():
                if sink not in before[name]:
                    yield AddSink(name, sink, locality)
        for name in stay:
            for sink in before[name]:
                if sink not in after[name]:
                    yield RemoveSink(name, sink)

    def _stays(self, name: str) -> bool:
        """True for a stream that stays, if perhaps with other sinks."""
        before, after = self._streams_before.get(name), self._streams_after.get(name)
        if before is None or after is None or before.source != after.source:
            return False
        ends = {before.source, *before.sinks, *after.sinks}
        if not all(self._has_port(end) for end in ends):
            return False
        localities = _sinks(before)
        return all(localities.get(sink, locality) == locality for sink, locality in _sinks(after).items())

    def _has_port(self, end: PortRef) -> bool:
        """True if an operator has a port before and after it is replaced."""
        if end.operator not in self._replaced:
            return True
        kinds = [type(plan[end.operator].operator) for plan in (self._before, self._after)]
        ports = [{**operator_type(kind).inputs, **operator_type(kind).every_output} for kind in kinds]
        return all(end.port in known for known in ports)

    # Values -------------------------------------------------------------------------------------------------

    def values(self) -> Iterator[Edit]:
        """Properties and attributes that differ."""
        if self.old.window_seconds != self.new.window_seconds:
            yield SetAttribute("", "window", self.new.window_seconds)
        for name, value in self.new.attributes.items():
            if not same_value(self.old.attributes[name], value):
                yield SetAttribute("", name, self._plain(name, name, value, Any))
        for before, after in self._both:
            if after.name not in self._replaced:
                yield from self._properties(before, after)
            yield from self._partitions(before, after)
            yield from self._attributes(before, after)

    def _properties(self, old: LogicalOperator, new: LogicalOperator) -> Iterator[Edit]:
        """The properties of an operator that differ."""
        kinds = property_types(type(new.operator))
        before, after = vars(old.operator), vars(new.operator)
        for name in operator_type(type(new.operator)).properties:
            if name == "context" or name not in after or same_value(before.get(name), after[name]):
                continue
            where = f"{new.name}.{name}"
            value = self._plain(where, name, after[name], kinds.get(name))
            yield SetProperty(new.name, name, value)

    def _partitions(self, old: LogicalOperator, new: LogicalOperator) -> Iterator[Edit]:
        """The number of partitions, and what divides them."""
        count = new.attributes["partitions"]
        changes = count != old.attributes["partitions"] or (_follows(old) and not _follows(new))
        other = count if changes and not _follows(new) else None
        if _follows(new) and not _follows(old):
            yield SetAttribute(new.name, "partitions", None)
        partitioner = new.attributes["partitioner"]
        if same_value(old.attributes["partitioner"], partitioner):
            if other is not None:
                yield Repartition(new.name, other)
        elif partitioner is None:
            yield SetAttribute(new.name, "partitioner", None)
            if other is not None:
                yield Repartition(new.name, other)
        else:
            yield Repartition(new.name, other, self._partitioner(new.name, partitioner))

    def _partitioner(self, name: str, partitioner: Partitioner) -> Mapping[str, Any]:
        """A partitioner as an edit writes it."""
        try:
            return write_partitioner(partitioner)
        except ValueFaultError as error:
            self._fault(f"{name}.partitioner", error.what, error.remedy)
            return {}

    def _attributes(self, old: LogicalOperator, new: LogicalOperator) -> Iterator[Edit]:
        """The attributes that differ: of an operator, its ports and unifiers, if they follow no others."""
        name = new.name
        follow = [inherited_by_operator(plan.attributes) for plan in (self.old, self.new)]
        differ = _differ(old.attributes, new.attributes, follow)
        for key, value in differ:
            if key not in _APART:
                yield SetAttribute(name, key, self._plain(f"{name}.{key}", key, value, Any))
        declared = operator_type(type(new.operator))
        for port, values in new.ports.items():
            if port in old.ports:
                follow = [inherited_by_port(declared, port, one.attributes) for one in (old, new)]
                for key, value in _differ(old.ports[port], values, follow):
                    plain = self._plain(f"{name}.{port}.{key}", key, value, Any)
                    yield SetAttribute(name, key, plain, port)
        for port, values in new.unifier_attributes.items():
            if port in old.unifier_attributes:
                pairs = ((old, self.old), (new, self.new))
                follow = [inherited_by_unifier(one.attributes, plan.attributes) for one, plan in pairs]
                for key, value in _differ(old.unifier_attributes[port], values, follow):
                    if key not in _APART:
                        plain = self._plain(f"{name}.{port}.{key}", key, value, Any)
                        yield SetAttribute(name, key, plain, port, unifier=True)

    def _plain(self, where: str, name: str, value: Any, kind: Any) -> Any:
        """A value as JSON has it; a fault for one that has no such form."""
        if isinstance(value, tuple):
            return [self._plain(where, name, one, kind) for one in value]
        try:
            return write_value(name, getattr(value, "name", value), kind)
        except ValueFaultError as error:
            self._fault(where, f"`{name}` cannot be written: {error.what}", error.remedy)
            return None

    # What no edit can change --------------------------------------------------------------------------------

    def check(self) -> None:
        """Note differences that no edit can make."""
        if self.old.application != self.new.application:
            what = f"the application is called `{self.old.application}`, not `{self.new.application}`"
            self._fault("application", what, "start another application under another name")
        takers = [
            {sink for one in filter(_is_automatic, plan.streams) for sink in one.sinks}
            for plan in (self.old, self.new)
        ]
        if takers[0] != takers[1]:
            what = "what takes the dead letters of all operators cannot be changed while it runs"
            self._fault("dead_letters", what, "add streams from `operator.dead_letters`, or start it anew")
        kept = [rule for rule in self.old.affinity if self._after.keys() >= set(rule.operators)]
        rules = [(rule.apart, rule.operators, rule.locality, rule.relax, rule.hosts) for rule in kept]
        wanted = [
            (rule.apart, rule.operators, rule.locality, rule.relax, rule.hosts) for rule in self.new.affinity
        ]
        if any(rule not in rules for rule in wanted) or any(rule not in wanted for rule in rules):
            what = "affinity rules cannot be changed while it runs"
            self._fault("affinity", what, "leave them as they are, or start it anew")

    def _fault(self, where: str, what: str, remedy: str) -> None:
        self.faults.append(Fault(where, what, remedy))


def _without_partitioners(app: Application) -> Application:
    """A copy of an application without partitioners, which an edit of their own gives."""
    found = copy.copy(app)

    def others(given: Mapping[str, Any]) -> Any:
        return {name: value for name, value in given.items() if name != "partitioner"}

    found.operators = [replace(added, attributes=others(added.attributes)) for added in app.operators]
    found.attributes_set = [replace(one, attributes=others(one.attributes)) for one in app.attributes_set]
    return found


def _differ(
    old: Mapping[str, Any], new: Mapping[str, Any], follow: list[dict[str, Any]]
) -> list[tuple[str, Any]]:
    """The attributes that differ, without those that follow from others before and after."""
    found = []
    for name, value in new.items():
        if name not in old or same_value(old[name], value):
            continue
        follows = name in follow[1] and all(
            same_value(one.get(name), own) for one, own in zip(follow, (old[name], value), strict=True)
        )
        if not follows:
            found.append((name, value))
    return found


def _follows(operator: LogicalOperator) -> bool:
    """True if its partitions are those of what it reads."""
    return bool(parallel_ports(operator.operator, operator.ports, operator.inputs))


def _sinks(stream: LogicalStream) -> dict[str, str | None]:
    """The sinks of a stream with their localities."""
    return dict(zip(map(str, stream.sinks), map(locality_name, stream.localities), strict=True))


def _is_automatic(stream: LogicalStream) -> bool:
    """True for a stream of dead letters that no author has written."""
    return stream.source.port == NAME and stream.name == f"{stream.source.operator}_{NAME}"
