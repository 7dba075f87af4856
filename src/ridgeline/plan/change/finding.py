"""The edits that lead from the plan of an application to another application, and what no edit changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from ridgeline.api.application import Application
from ridgeline.api.columns.dead_letter import NAME
from ridgeline.api.errors import Faults
from ridgeline.api.operator import Operator, operator_type
from ridgeline.api.support.properties import property_types
from ridgeline.plan.change.difference import Changed, LogicalPair
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
from ridgeline.plan.logical import LogicalOperator, LogicalPlan, LogicalStream, locality_name, module_of
from ridgeline.plan.region import PortRef
from ridgeline.plan.same_values import same_value
from ridgeline.plan.spec.values import write_partitioner, write_value
from ridgeline.plan.spec.writer import operator_specs

_APART = ("partitions", "partitioner", "application_window")
"""Attributes of operators that other edits set, or that follow from others."""


def find_edits(old: LogicalPlan, new: LogicalPlan, app: Application) -> tuple[Edit, ...]:
    """The edits that make the new plan, which is of `app`, of the old one.

    Raises ValidationError for differences that no edit can make.
    """
    finder = _Finder(old, new, app)
    edits = tuple(finder.edits())
    finder.check()
    finder.faults.check(old.application)
    return edits


class _Finder(LogicalPair):
    """Finds edits between two plans. `faults`: differences that no edit can make."""

    def __init__(self, old: LogicalPlan, new: LogicalPlan, app: Application) -> None:
        super().__init__(old, new)
        self.faults = Faults()
        self.specs = operator_specs(self.faults, app, {*self.added, *self.replaced})
        self.streams_before = {one.name: one for one in old.streams if not _is_automatic(one)}
        self.streams_after = {one.name: one for one in new.streams if not _is_automatic(one)}

    def edits(self) -> Iterator[Edit]:
        """All edits. In this order each finds what it needs, and no stream is ever without sinks.

        Queries and recordings were inserted: they stay as long as their streams do.
        """
        observers = {one.name for one in self.old.operators if one.operator.leaves_with_streams}
        stays = {
            name: (_sinks(self.streams_before[name]), _sinks(after))
            for name, after in self.streams_after.items()
            if self._stays(name)
        }
        yield from (RemoveStream(name) for name in self.streams_before if name not in stays)
        for name in self.added:
            if self._is_outside(name, "added"):
                yield AddOperator(name, self.specs[name])
        for name, (before, after) in stays.items():
            yield from (AddSink(name, sink, after[sink]) for sink in after if sink not in before)
        for name, (before, after) in stays.items():
            gone = [sink for sink in before if sink not in after]
            yield from (RemoveSink(name, one) for one in gone if one.rpartition(".")[0] not in observers)
        for name in self.replaced:
            if self._is_outside(name, "replaced"):
                yield ReplaceOperator(name, self.specs[name])
        modules = {one.name for one in self.old.modules} - {one.name for one in self.new.modules}
        whole = [name for name in sorted(modules) if module_of(name) not in modules]
        yield from map(RemoveOperator, whole)
        yield from (
            RemoveOperator(name)
            for name in self.removed
            if name not in observers and not any(name.startswith(f"{module}.") for module in whole)
        )
        for name, stream in self.streams_after.items():
            if name not in stays:
                yield from _new_stream(stream)
        yield from filter(None, map(self._set, self.values_of_application()))
        for old, new in self.both:
            yield from self._partitions(old, new)
            yield from filter(None, map(self._set, self.values_of(old, new)))

    def _is_outside(self, name: str, what: str) -> bool:
        """True, or a fault, for an operator that is in no module. `what`: it would be `added`, `replaced`."""
        module = module_of(name)
        if module:
            remedy = "write what is inside of it as operators, or start the application anew"
            self.faults.add(name, f"an operator of module `{module}` cannot be {what} while it runs", remedy)
        return not module

    def _stays(self, name: str) -> bool:
        """True for a stream that stays, if perhaps with other sinks."""
        before, after = self.streams_before.get(name), self.streams_after[name]
        if before is None or before.source != after.source:
            return False
        if not all(map(self._has_port, {before.source, *before.sinks, *after.sinks})):
            return False
        localities = _sinks(before)
        return all(localities.get(sink, locality) == locality for sink, locality in _sinks(after).items())

    def _has_port(self, end: PortRef) -> bool:
        """True if an operator has a port before and after it is replaced."""
        if end.operator not in self.replaced:
            return True
        kinds = [operator_type(type(plan[end.operator].operator)) for plan in (self.before, self.after)]
        return all(end.port in kind.inputs or end.port in kind.every_output for kind in kinds)

    # Values -------------------------------------------------------------------------------------------------

    def _set(self, one: Changed) -> Edit | None:
        """The edit of a value; None if another edit sets it, or if it follows from others."""
        if one.kind == "property":
            kind = property_types(type(self.after[one.operator].operator)).get(one.name)
            return SetProperty(one.operator, one.name, self._plain(one.where, one.name, one.after, kind))
        if one.follows or (one.operator and one.name in _APART):
            return None
        value = self._plain(one.where, one.name, one.after)
        return SetAttribute(one.operator, one.name, value, one.port, unifier=one.kind == "unifier")

    def _partitions(self, old: LogicalOperator, new: LogicalOperator) -> Iterator[Edit]:
        """The number of partitions, and what divides them."""
        count, partitioner = (new.attributes[name] for name in ("partitions", "partitioner"))
        changes = count != old.attributes["partitions"] or (old.followed and not new.followed)
        other = count if changes and not new.followed else None
        if new.followed and not old.followed:
            yield SetAttribute(new.name, "partitions", None)
        spec = None
        if not same_value(old.attributes["partitioner"], partitioner):
            if partitioner is None:
                yield SetAttribute(new.name, "partitioner", None)
            else:
                spec = self._plain(f"{new.name}.partitioner", "partitioner", partitioner)
        if other is not None or spec is not None:
            yield Repartition(new.name, other, spec)

    def _plain(self, where: str, name: str, value: Any, kind: Any = Any) -> Any:
        """A value of this type as JSON has it; a fault for one that has no such form."""
        if isinstance(value, tuple):
            return [self._plain(where, name, one, kind) for one in value]
        with self.faults.noting(where, f"`{name}` cannot be written: "):
            if name == "partitioner":
                return write_partitioner(value)
            return write_value(name, getattr(value, "name", value), kind)
        return None

    # What no edit changes -----------------------------------------------------------------------------------

    def check(self) -> None:
        """Note what no edit of any kind can change."""
        if self.old.application != self.new.application:
            what = f"the application is called `{self.old.application}`, not `{self.new.application}`"
            self.faults.add("application", what, "start another application under another name")
        takers = [
            {sink for one in filter(_is_automatic, plan.streams) for sink in one.sinks}
            for plan in (self.old, self.new)
        ]
        if takers[0] != takers[1]:
            what = "what takes the dead letters of all operators cannot be changed while it runs"
            self.faults.add(
                "dead_letters", what, "add streams from `operator.dead_letters`, or start it anew"
            )
        for one in fields(LogicalPlan):
            if one.name not in _ELSEWHERE:
                before, after = (self._picture(one.name, plan) for plan in (self.old, self.new))
                if not same_value(before, after):
                    what = f"{_CALLED.get(one.name, one.name)} cannot be changed while it runs"
                    self.faults.add(one.name, what, "leave them as they are, or start it anew")
        self._check_regions()

    def _picture(self, name: str, plan: LogicalPlan) -> object:
        """A field of one of the plans by values, as far as it is about what both plans have."""
        value: Any = getattr(plan, name)
        match name:
            case "affinity":
                stay = [rule for rule in value if self.after.keys() >= set(rule.operators)]
                return sorted(
                    repr((one.apart, one.operators, one.locality, one.relax, one.hosts)) for one in stay
                )
            case "listeners":
                names = self.after.keys() & self.before.keys() & value.keys()
                return {one: list(map(_given, value[one])) for one in names}
            case "policies":
                return list(map(_given, value))
            case "promises":
                return sorted(map(repr, (one for one in value if one.operator in {"", *self.after})))
        return value

    def _check_regions(self) -> None:
        """Note where other streams are decoupled, and what regions have of their own."""
        remedy = "leave it as it is, or stop it and start it anew"
        keeps = [
            {edge.stream: edge.keep for region in plan.regions for edge in region.reads}
            for plan in (self.old, self.new)
        ]
        for name, after in self.streams_after.items():
            before = self.streams_before.get(name)
            if before is None:
                continue
            for sink in set(after.sinks) & set(before.sinks):
                was = before.sinks[sink].decoupled
                if after.sinks[sink].decoupled != was:
                    now = "decoupled" if was else "not decoupled"
                    what = f"stream `{name}` is {now} at `{sink}`: regions cannot be changed while they run"
                    self.faults.add(f"streams.{name}", what, remedy)
            if name in keeps[0] and keeps[1].get(name, keeps[0][name]) != keeps[0][name]:
                what = f"`keep={keeps[0][name]!r}` of stream `{name}` cannot be changed while it runs"
                self.faults.add(f"streams.{name}", what, remedy)
        own = {one.name: (one.window, dict(one.attributes)) for one in self.old.regions}
        for region in self.new.regions:
            if own.get(region.name, (region.window, region.attributes)) != (region.window, region.attributes):
                what = f"window and attributes of region `{region.name}` cannot be changed while it runs"
                self.faults.add(f"regions.{region.name}", what, remedy)


_ELSEWHERE = {
    *("application", "regions"),  # checked beside
    *("window_seconds", "attributes", "operators", "streams"),  # edits change them
    *("modules", "given_up", "groups", "region", "first_id", "source"),  # they follow from others
}
"""Fields of a plan; a difference in any other one, also one that comes later, is a fault."""
_CALLED = {"affinity": "affinity rules", "listeners": "stats listeners"}


def _given(decider: Any) -> tuple[type, Mapping[str, Any]]:
    """A policy or a listener without what it remembers; edits set properties of an operator that is one."""
    if isinstance(decider, Operator):
        return type(decider), {}
    return type(decider), {name: value for name, value in vars(decider).items() if not name.startswith("_")}


def _sinks(stream: LogicalStream) -> dict[str, str | None]:
    """The sinks of a stream with their localities."""
    return {str(end): locality_name(sink.locality) for end, sink in stream.sinks.items()}


def _new_stream(stream: LogicalStream) -> Iterator[Edit]:
    """The edits that make a stream; sinks with another locality than the first are added one by one."""
    sinks = _sinks(stream)
    locality = next(iter(sinks.values()))
    alike = tuple(sink for sink, own in sinks.items() if own == locality)
    yield AddStream(stream.name, str(stream.source), alike, locality)
    yield from (AddSink(stream.name, sink, own) for sink, own in sinks.items() if own != locality)


def _is_automatic(stream: LogicalStream) -> bool:
    """True for a stream of dead letters that no author has written."""
    return stream.source.port == NAME and stream.name == f"{stream.source.operator}_{NAME}"
