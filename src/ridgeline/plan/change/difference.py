"""How a plan differs from the one that it follows: what a change does, for people and for the engine."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ridgeline.api.application import Kind
from ridgeline.api.support.masking import mask
from ridgeline.measure.wording.units import plural
from ridgeline.plan.build.port_attributes import Section, sections
from ridgeline.plan.change.state_moves import StateMove
from ridgeline.plan.change.succession import can_retain, changed_properties
from ridgeline.plan.execution import Plan
from ridgeline.plan.logical import LogicalOperator, LogicalPlan
from ridgeline.plan.region import PortRef
from ridgeline.plan.same_values import altered_properties, same_value
from ridgeline.plan.shown_properties import plain

_NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class PlanDifference:
    """The difference of two plans, of which the second follows the first (`succeed`), for people.

    `lines`: as `--dry-run` prints it. `aligned`: the new plan begins with windows that are multiples of it.
    """

    lines: tuple[str, ...]
    aligned: int

    def __str__(self) -> str:
        return "\n".join(self.lines)


def _moved(move: StateMove) -> str:
    who = f"the unifiers of {move.operator}.{move.port}" if move.port else move.operator
    if len(move.sources) == len(move.targets) == 1:
        return f"> state of {who}: that of {move.sources[0]}"
    return f"> state of {who}: {plural(len(move.sources), 'partition')} -> {len(move.targets)}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."  # noqa: PLR2004  characters in a line


@dataclass(frozen=True, slots=True)
class Changed:
    """A property or attribute that differs. `operator` "": of the application.

    `port`: of which port, or of the unifiers of which. `follows`: it is inherited, before and after.
    """

    kind: Kind
    operator: str
    port: str
    name: str
    before: Any
    after: Any
    follows: bool = False

    @property
    def where(self) -> str:
        """It as errors name it: `sum.limit`, `sum.port.input.partition_parallel`."""
        side = f"{self.kind}.{self.port}" if self.port else ""
        return ".".join(part for part in (self.operator, side, self.name) if part)

    def __str__(self) -> str:
        before, after = (_short(plain(mask(self.name, value))) for value in (self.before, self.after))
        return f"{self.where}: {before} -> {after}"


class LogicalPair:
    """Two logical plans, one after the other. `renamed`: new names of operators by old ones.

    `before`, `after`: the operators by their names in the new plan. `both`: those that are in both, and
    `replaced` those of these that are of another class. `removed`: old names of those that are gone;
    `dropped` are, even if others have these names now.
    """

    def __init__(
        self,
        old: LogicalPlan,
        new: LogicalPlan,
        renamed: Mapping[str, str] = _NOTHING,
        dropped: Collection[str] = (),
    ) -> None:
        self.old, self.new, self.renamed = old, new, renamed
        stays = [one for one in old.operators if one.name not in dropped]
        stays.sort(key=lambda one: one.name in renamed)  # new names win over others' old ones
        self.before = {renamed.get(one.name, one.name): one for one in stays}
        self.after = {one.name: one for one in new.operators}
        self.both = [(self.before[name], one) for name, one in self.after.items() if name in self.before]
        self.added = [name for name in self.after if name not in self.before]
        self.removed = [one.name for one in old.operators if one.name in dropped]
        self.removed += [one.name for name, one in self.before.items() if name not in self.after]
        self.replaced = [
            one.name for earlier, one in self.both if type(earlier.operator) is not type(one.operator)
        ]

    def values_of_application(self) -> Iterator[Changed]:
        """The attributes of the application that differ, and its window."""
        before, after = ({**plan.attributes, "window": plan.window_seconds} for plan in (self.old, self.new))
        yield from _changed(("attribute", "", ""), (before, {}), (after, {}))

    def values_of(self, old: LogicalOperator, new: LogicalOperator) -> Iterator[Changed]:
        """The properties and attributes of an operator that differ; of a replaced one the attributes."""
        if new.name not in self.replaced:
            before, after = vars(old.operator), vars(new.operator)
            for name in altered_properties(old.operator, new.operator):
                yield Changed("property", new.name, "", name, before.get(name), after[name])
        earlier = sections(old, self.old.attributes)
        for (kind, port), section in sections(new, self.new.attributes).items():
            if (kind, port) in earlier:
                yield from _changed((kind, new.name, port), earlier[kind, port], section)

    def streams(self) -> tuple[_Sinks, _Sinks]:
        """The sinks of each stream, by its name and source, before and after; with new names."""

        def end(ref: PortRef) -> str:
            return f"{self.renamed.get(ref.operator, ref.operator)}.{ref.port}"

        before = {(one.name, end(one.source)): [*map(end, one.sinks)] for one in self.old.streams}
        return before, {(one.name, str(one.source)): [*map(str, one.sinks)] for one in self.new.streams}


_Sinks = Mapping[tuple[str, str], list[str]]


def _changed(of: tuple[Kind, str, str], before: Section, after: Section) -> Iterator[Changed]:
    """The values that differ of two mappings, each with what these are where nothing is given."""
    (old, inherited), (new, now) = before, after
    for name, value in new.items():
        if name in old and not same_value(old[name], value):
            follows = name in now and same_value(now[name], value)
            follows = follows and same_value(inherited.get(name), old[name])
            yield Changed(*of, name, old[name], value, follows)


def difference(
    old: Plan,
    new: Plan,
    *,
    renamed: Mapping[str, str] = _NOTHING,
    dropped: Collection[str] = (),
    moves: Sequence[StateMove] = (),
) -> PlanDifference:
    """How `new` differs from `old`, which it follows (`succeed`).

    `renamed`: new names by old ones. `dropped`: old names of operators that are removed, even if others have
    these names in the new plan.
    """
    pair = LogicalPair(old.logical, new.logical, renamed, dropped)
    values = [*pair.values_of_application()]
    values += [one for both in pair.both for one in pair.values_of(*both)]
    before, after = pair.streams()
    same = [stream for stream in after if stream in before]
    counts = [(one.name, len(earlier.divided), len(one.divided)) for earlier, one in pair.both]
    anew, set_ = _remade(old, new)
    changes = [
        *(f"+ operator {name}" for name in pair.added),
        *(f"- operator {name}, and its state" for name in pair.removed),
        *(f"* operator {name} is called {other}" for name, other in renamed.items() if other in pair.after),
        *(f"* operator {name} is of another class" for name in pair.replaced),
        *(f"* {name}: {count} -> {now} partitions" for name, count, now in counts if count != now),
        *(f"* property {one}" for one in values if one.kind == "property"),
        *(f"* attribute {one}" for one in values if one.kind != "property" and not _is_count(one)),
        *(f"+ stream {name}" for name, source in after if (name, source) not in before),
        *(f"- stream {name}" for name, source in before if (name, source) not in after),
        *(f"+ sink of {one}" for one in _only(same, after, before)),
        *(f"- sink of {one}" for one in _only(same, before, after)),
        *map(_moved, moves),
        *([f"! instances made anew, over the same state: {len(anew)}"] if anew else []),
    ]
    aligned = _aligned(old, new)
    begins = f"with a multiple of {aligned} windows" if aligned > 1 else "with any window"
    lines = [*(changes or ["nothing changes"]), f"containers: {_containers(old, new, anew | set_)}"]
    title = f"plan version {old.version} -> {new.version}, {begins}"
    return PlanDifference((title, *(f"  {line}" for line in lines)), aligned)


def _is_count(changed: Changed) -> bool:
    """True for the number of partitions, which is shown beside."""
    return changed.kind == "attribute" and changed.name == "partitions"


def _only(streams: Iterable[tuple[str, str]], one: _Sinks, other: _Sinks) -> list[str]:
    """The sinks of streams that are in one only."""
    return [f"{of[0]}: {sink}" for of in streams for sink in one[of] if sink not in other[of]]


def _aligned(old: Plan, new: Plan) -> int:
    """With which windows the new plan may begin: those whose ids are multiples of this.

    Before them the application windows of all operators that are touched are at their ends. So what they
    keep for the time of an application window is empty.
    """
    before, after = (
        {one.id: one.attributes["application_window_count"] for one in plan.physical.operators}
        for plan in (old, new)
    )
    touched = before.items() ^ after.items()
    return math.lcm(*(count for _, count in touched))


def _remade(old: Plan, new: Plan) -> tuple[set[int], set[int]]:
    """The physical operators that get other instances, and those whose instances get other properties."""
    before = {one.id: one for one in old.physical.operators}
    both = [(before[one.id], one) for one in new.physical.operators if one.id in before]
    anew = {one.id for earlier, one in both if not can_retain(earlier, one)}
    return anew, {one.id for earlier, one in both if one.id not in anew and changed_properties(earlier, one)}


def _containers(old: Plan, new: Plan, altered: set[int]) -> str:
    """What becomes of containers, in numbers. `altered`: operators that are not as they were."""
    before, after = _pictures(old), _pictures(new)
    hosted = {box.id: box.operators for box in new.execution.containers}
    both = before.keys() & after.keys()
    changed = sum(before[one] != after[one] or not altered.isdisjoint(hosted[one]) for one in both)
    started, stopped = len(after.keys() - both), len(before.keys() - both)
    return f"{started} start, {stopped} stop, {changed} change, {len(both) - changed} go on as they are"


def _pictures(plan: Plan) -> dict[int, Hashable]:
    """The parts of each container: its operators, and the streams from and to them."""
    homes = {one: box.id for box in plan.execution.containers for one in box.operators}
    streams: dict[int, list[Hashable]] = {box.id: [] for box in plan.execution.containers}
    for one in plan.physical.streams:
        ends = homes[one.source], homes[one.sink]
        picture = (one.source, one.source_port, one.sink, one.sink_port, *ends, one.route)
        for box in set(ends):
            streams[box].append(picture)
    return {box.id: (box.operators, frozenset(streams[box.id])) for box in plan.execution.containers}
