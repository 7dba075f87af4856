"""Two plans, one after the other: what edits of each kind find their differences by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ridgeline.api.application import Application
from ridgeline.api.columns.dead_letter import NAME
from ridgeline.api.errors import Fault
from ridgeline.api.operator import Operator, operator_type
from ridgeline.api.partitioner import Partitioner
from ridgeline.plan.logical import LogicalPlan, LogicalStream, locality_name, module_of
from ridgeline.plan.region import PortRef
from ridgeline.plan.same_values import same_value
from ridgeline.plan.spec.values import ValueFaultError, write_partitioner, write_value
from ridgeline.plan.spec.writer import operator_specs


class PlanPair:
    """A plan, and the plan of another application that it is to become. Operators are alike by name.

    `faults`: differences that no edit can make; those that are looked for find some more.
    """

    def __init__(self, old: LogicalPlan, new: LogicalPlan, app: Application) -> None:
        self.old, self.new = old, new
        self.before = {one.name: one for one in old.operators}
        self.after = {one.name: one for one in new.operators}
        names = [name for name in self.after if name in self.before]
        self.both = [(self.before[name], self.after[name]) for name in names]
        self.replaced = {
            after.name for before, after in self.both if type(before.operator) is not type(after.operator)
        }
        """The operators that are of another class."""
        written = {name for name in self.after if name not in self.before} | self.replaced
        self.specs, self.faults = operator_specs(app, written)
        self.streams_before = {one.name: one for one in old.streams if not _is_automatic(one)}
        self.streams_after = {one.name: one for one in new.streams if not _is_automatic(one)}

    def fault(self, where: str, what: str, remedy: str) -> None:
        """Note a difference that no edit can make."""
        self.faults.append(Fault(where, what, remedy))

    def is_outside(self, name: str, what: str) -> bool:
        """True, or a fault, for an operator that is in no module. `what`: it would be `added`, `replaced`."""
        module = module_of(name)
        if module:
            remedy = "write what is inside of it as operators, or start the application anew"
            self.fault(name, f"an operator of module `{module}` cannot be {what} while it runs", remedy)
        return not module

    def stays(self, name: str) -> bool:
        """True for a stream that stays, if perhaps with other sinks."""
        before, after = self.streams_before.get(name), self.streams_after.get(name)
        if before is None or after is None or before.source != after.source:
            return False
        ends = {before.source, *before.sinks, *after.sinks}
        if not all(map(self._has_port, ends)):
            return False
        localities = sinks_of(before)
        return all(localities.get(sink, locality) == locality for sink, locality in sinks_of(after).items())

    def _has_port(self, end: PortRef) -> bool:
        """True if an operator has a port before and after it is replaced."""
        if end.operator not in self.replaced:
            return True
        kinds = [type(plan[end.operator].operator) for plan in (self.before, self.after)]
        ports = [{**operator_type(kind).inputs, **operator_type(kind).every_output} for kind in kinds]
        return all(end.port in known for known in ports)

    def plain(self, where: str, name: str, value: Any, kind: Any = Any) -> Any:
        """A value of this type as JSON has it; a fault for one that has no such form."""
        if isinstance(value, tuple):
            return [self.plain(where, name, one, kind) for one in value]
        try:
            return write_value(name, getattr(value, "name", value), kind)
        except ValueFaultError as error:
            self.fault(where, f"`{name}` cannot be written: {error.what}", error.remedy)
            return None

    def partitioner(self, name: str, partitioner: Partitioner) -> Mapping[str, Any]:
        """A partitioner as an edit writes it; a fault for one that has no such form."""
        try:
            return write_partitioner(partitioner)
        except ValueFaultError as error:
            self.fault(f"{name}.partitioner", error.what, error.remedy)
            return {}

    def check(self) -> None:
        """Note what no edit of any kind can change."""
        if self.old.application != self.new.application:
            what = f"the application is called `{self.old.application}`, not `{self.new.application}`"
            self.fault("application", what, "start another application under another name")
        takers = [
            {sink for one in filter(_is_automatic, plan.streams) for sink in one.sinks}
            for plan in (self.old, self.new)
        ]
        if takers[0] != takers[1]:
            what = "what takes the dead letters of all operators cannot be changed while it runs"
            self.fault("dead_letters", what, "add streams from `operator.dead_letters`, or start it anew")
        for one in fields(LogicalPlan):
            if one.name not in _ELSEWHERE:
                before, after = (self._picture(one.name, plan) for plan in (self.old, self.new))
                if not same_value(before, after):
                    what = f"{_CALLED.get(one.name, one.name)} cannot be changed while it runs"
                    self.fault(one.name, what, "leave them as they are, or start it anew")
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
                return {
                    one: list(map(_given, value[one]))
                    for one in self.after
                    if one in self.before and one in value
                }
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
                if (sink in after.decoupled) != (sink in before.decoupled):
                    now = "decoupled" if sink in before.decoupled else "not decoupled"
                    what = f"stream `{name}` is {now} at `{sink}`: regions cannot be changed while they run"
                    self.fault(f"streams.{name}", what, remedy)
            if name in keeps[0] and keeps[1].get(name, keeps[0][name]) != keeps[0][name]:
                what = f"`keep={keeps[0][name]!r}` of stream `{name}` cannot be changed while it runs"
                self.fault(f"streams.{name}", what, remedy)
        own = {one.name: (one.window, dict(one.attributes)) for one in self.old.regions}
        for region in self.new.regions:
            if own.get(region.name, (region.window, region.attributes)) != (region.window, region.attributes):
                what = f"window and attributes of region `{region.name}` cannot be changed while it runs"
                self.fault(f"regions.{region.name}", what, remedy)


_ELSEWHERE = {
    *("application", "regions"),  # checked beside
    *("window_seconds", "attributes", "operators", "streams"),  # edits change them
    *("modules", "given_up", "region", "source"),  # they follow from others
}
"""Fields of a plan; a difference in any other one, also one that comes later, is a fault."""
_CALLED = {"affinity": "affinity rules", "listeners": "stats listeners"}


def _given(decider: Any) -> tuple[type, Mapping[str, Any]]:
    """A policy or a listener without what it remembers; edits set properties of an operator that is one."""
    if isinstance(decider, Operator):
        return type(decider), {}
    return type(decider), {name: value for name, value in vars(decider).items() if not name.startswith("_")}


def sinks_of(stream: LogicalStream) -> dict[str, str | None]:
    """The sinks of a stream with their localities."""
    return dict(zip(map(str, stream.sinks), map(locality_name, stream.localities), strict=True))


def _is_automatic(stream: LogicalStream) -> bool:
    """True for a stream of dead letters that no author has written."""
    return stream.source.port == NAME and stream.name == f"{stream.source.operator}_{NAME}"
