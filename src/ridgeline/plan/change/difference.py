"""How a plan differs from the one that it follows: what a change does, for people and for the engine."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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
class Altered:
    """A value that differs. `where` as errors name it: `sum.limit`, `sum.port.input.partition_parallel`.

    `before` and `after`: plain values; secrets are masked.
    """

    where: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.where}: {_short(self.before)} -> {_short(self.after)}"


@dataclass(frozen=True, slots=True)
class PlanDifference:
    """The difference of two plans, of which the second follows the first (`succeed`).

    Logical operators and streams are named. `renamed`: new names by old ones. `replaced`: of another class.
    `repartitioned`: with the numbers of partitions. `sinks_added` and `sinks_removed`, `stream:
    operator.port`, are of streams in both plans.

    Physical operators and containers have ids. `made_anew`: another instance over the same state. `set`: the
    living instance gets other properties. `containers_changed`: with other operators, routes or attributes.

    `moves`: the states that move. `aligned`: the new plan may begin with window w if w is a multiple of it.
    """

    versions: tuple[int, int]
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    replaced: tuple[str, ...] = ()
    repartitioned: tuple[Altered, ...] = ()
    properties: tuple[Altered, ...] = ()
    attributes: tuple[Altered, ...] = ()
    streams_added: tuple[str, ...] = ()
    streams_removed: tuple[str, ...] = ()
    sinks_added: tuple[str, ...] = ()
    sinks_removed: tuple[str, ...] = ()
    started: tuple[int, ...] = ()
    stopped: tuple[int, ...] = ()
    made_anew: tuple[int, ...] = ()
    set: tuple[int, ...] = ()
    containers_started: tuple[int, ...] = ()
    containers_stopped: tuple[int, ...] = ()
    containers_changed: tuple[int, ...] = ()
    containers_kept: tuple[int, ...] = ()
    moves: tuple[StateMove, ...] = ()
    aligned: int = 1

    def lines(self) -> list[str]:
        """The difference as lines of text, as `--dry-run` prints it."""
        changes = [
            *(f"+ operator {name}" for name in self.added),
            *(f"- operator {name}, and its state" for name in self.removed),
            *(f"* operator {old} is called {new}" for old, new in self.renamed.items()),
            *(f"* operator {name} is of another class" for name in self.replaced),
            *(f"* {one} partitions" for one in self.repartitioned),
            *(f"* property {one}" for one in self.properties),
            *(f"* attribute {one}" for one in self.attributes),
            *(f"+ stream {name}" for name in self.streams_added),
            *(f"- stream {name}" for name in self.streams_removed),
            *(f"+ sink of {name}" for name in self.sinks_added),
            *(f"- sink of {name}" for name in self.sinks_removed),
            *map(_moved, self.moves),
        ]
        if self.made_anew:
            changes.append(f"! instances made anew, over the same state: {len(self.made_anew)}")
        if not changes:
            changes = ["nothing changes"]
        begins = f"with a multiple of {self.aligned} windows" if self.aligned > 1 else "with any window"
        started, stopped = len(self.containers_started), len(self.containers_stopped)
        changed, kept = len(self.containers_changed), len(self.containers_kept)
        return [
            f"plan version {self.versions[0]} -> {self.versions[1]}, {begins}",
            *(f"  {line}" for line in changes),
            f"  containers: {started} start, {stopped} stop, {changed} change, {kept} go on as they are",
        ]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def to_json(self) -> dict[str, Any]:
        """The difference as JSON values."""
        moves = tuple(replace(move, before=None) for move in self.moves)
        found: dict[str, Any] = json.loads(json.dumps(asdict(replace(self, moves=moves))))
        for move in found["moves"]:
            del move["before"]
        return found


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

    @property
    def shown(self) -> Altered:
        """It for people."""
        before, after = (plain(mask(self.name, value)) for value in (self.before, self.after))
        return Altered(self.where, before, after)


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
    attributes = [one.shown for one in values if one.kind != "property" and not _is_count(one)]
    before, after = pair.streams()
    same = [stream for stream in after if stream in before]
    sorted_by = _sorted_operators(old, new)
    return PlanDifference(
        versions=(old.version, new.version),
        added=tuple(pair.added),
        removed=tuple(pair.removed),
        renamed={name: other for name, other in renamed.items() if other in pair.after},
        replaced=tuple(pair.replaced),
        repartitioned=tuple(
            Altered(one.name, len(earlier.divided), len(one.divided))
            for earlier, one in pair.both
            if len(earlier.divided) != len(one.divided)
        ),
        properties=tuple(one.shown for one in values if one.kind == "property"),
        attributes=tuple(attributes),
        streams_added=tuple(name for name, source in after if (name, source) not in before),
        streams_removed=tuple(name for name, source in before if (name, source) not in after),
        sinks_added=_only(same, after, before),
        sinks_removed=_only(same, before, after),
        **sorted_by,
        **_containers(old, new, {*sorted_by["made_anew"], *sorted_by["set"]}),
        moves=tuple(moves),
        aligned=_aligned(old, new),
    )


def _is_count(changed: Changed) -> bool:
    """True for the number of partitions, which is shown beside."""
    return changed.kind == "attribute" and changed.name == "partitions"


def _only(streams: Iterable[tuple[str, str]], one: _Sinks, other: _Sinks) -> tuple[str, ...]:
    """The sinks of streams that are in one only."""
    return tuple(f"{of[0]}: {sink}" for of in streams for sink in one[of] if sink not in other[of])


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


def _sorted_operators(old: Plan, new: Plan) -> dict[str, tuple[int, ...]]:
    """The physical operators by what becomes of them."""
    before = {one.id: one for one in old.physical.operators}
    after = {one.id: one for one in new.physical.operators}
    both = [one for one in after if one in before]
    anew = [one for one in both if not can_retain(before[one], after[one])]
    kept = [one for one in both if one not in anew]
    return {
        "started": tuple(one for one in after if one not in before),
        "stopped": tuple(one for one in before if one not in after),
        "made_anew": tuple(anew),
        "set": tuple(one for one in kept if changed_properties(before[one], after[one])),
    }


def _containers(old: Plan, new: Plan, altered: Iterable[int]) -> dict[str, tuple[int, ...]]:
    """The containers by what becomes of them. `altered`: operators that are not as they were."""
    before, after = _pictures(old), _pictures(new)
    touched = {*altered}
    hosted = {box.id: box.operators for box in new.execution.containers}
    both = [one for one in after if one in before]
    changed = [one for one in both if before[one] != after[one] or not touched.isdisjoint(hosted[one])]
    return {
        "containers_started": tuple(one for one in after if one not in before),
        "containers_stopped": tuple(one for one in before if one not in after),
        "containers_changed": tuple(changed),
        "containers_kept": tuple(one for one in both if one not in changed),
    }


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
