"""How a plan differs from the one that it follows: what a change does, for people and for the engine."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ridgeline.api.support.masking import mask
from ridgeline.plan.change.state_moves import StateMove
from ridgeline.plan.change.succession import can_retain, changed_properties
from ridgeline.plan.execution import Plan
from ridgeline.plan.logical import LogicalOperator, LogicalPlan
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
        found = {name: _listed(value) for name, value in asdict(replace(self, moves=moves)).items()}
        for move in found["moves"]:
            del move["before"]
        return found


def _listed(value: Any) -> Any:
    """A value with lists in the place of tuples."""
    if isinstance(value, (list, tuple)):
        return [_listed(one) for one in value]
    return {key: _listed(one) for key, one in value.items()} if isinstance(value, dict) else value


def _moved(move: StateMove) -> str:
    who = f"the unifiers of {move.operator}.{move.port}" if move.port else move.operator
    if len(move.sources) == len(move.targets) == 1:
        return f"> state of {who}: that of {move.sources[0]}"
    noun = "partition" if len(move.sources) == 1 else "partitions"
    return f"> state of {who}: {len(move.sources)} {noun} -> {len(move.targets)}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."  # noqa: PLR2004  characters in a line


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
    stays = [one for one in _named(old.logical, renamed) if one.name not in dropped]
    before = {renamed.get(one.name, one.name): one for one in stays}
    after = {one.name: one for one in new.logical.operators}
    gone = [one.name for one in old.logical.operators if one.name in dropped]
    both = [(before[name], one) for name, one in after.items() if name in before]
    replaced = [one.name for earlier, one in both if type(earlier.operator) is not type(one.operator)]
    streams = _Streams(old.logical, new.logical, renamed)
    sorted_by = _sorted_operators(old, new)
    return PlanDifference(
        versions=(old.version, new.version),
        added=tuple(name for name in after if name not in before),
        removed=(*gone, *(one.name for name, one in before.items() if name not in after)),
        renamed={name: other for name, other in renamed.items() if other in after},
        replaced=tuple(replaced),
        repartitioned=tuple(
            Altered(one.name, len(earlier.divided), len(one.divided))
            for earlier, one in both
            if len(earlier.divided) != len(one.divided)
        ),
        properties=tuple(
            altered
            for earlier, one in both
            if one.name not in replaced
            for altered in _properties(earlier, one)
        ),
        attributes=tuple(_attributes(old.logical, new.logical, both)),
        streams_added=streams.added,
        streams_removed=streams.removed,
        sinks_added=streams.sinks_added,
        sinks_removed=streams.sinks_removed,
        **sorted_by,
        **_containers(old, new, {*sorted_by["made_anew"], *sorted_by["set"]}),
        moves=tuple(moves),
        aligned=aligned_every(old, new),
    )


def aligned_every(old: Plan, new: Plan) -> int:
    """With which windows the new plan may begin: those whose ids are multiples of this.

    Before them the application windows of all operators that are touched are at their ends. So what they
    keep for the time of an application window is empty.
    """
    before = {one.id: one for one in old.physical.operators}
    after = {one.id: one for one in new.physical.operators}
    touched = [
        one for one in (*before.values(), *after.values()) if one.id not in before or one.id not in after
    ]
    for identity, one in after.items():
        earlier = before.get(identity)
        if earlier is not None and _count(earlier) != _count(one):
            touched += [earlier, one]
    return math.lcm(*map(_count, touched))


def _count(one: Any) -> int:
    count: int = one.attributes["application_window_count"]
    return count


def _named(logical: LogicalPlan, renamed: Mapping[str, str]) -> list[LogicalOperator]:
    """The operators, those that are renamed last: so their new names win over others' old ones."""
    return sorted(logical.operators, key=lambda one: one.name in renamed)


def _sorted_operators(old: Plan, new: Plan) -> dict[str, tuple[int, ...]]:
    """The physical operators by what becomes of them."""
    before = {one.id: one for one in old.physical.operators}
    after = {one.id: one for one in new.physical.operators}
    stays = [one for one in new.physical.operators if one.id in before]
    anew = [one.id for one in stays if not can_retain(before[one.id], one)]
    return {
        "started": tuple(one for one in after if one not in before),
        "stopped": tuple(one for one in before if one not in after),
        "made_anew": tuple(anew),
        "set": tuple(
            one.id for one in stays if one.id not in anew and changed_properties(before[one.id], one)
        ),
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


def _properties(old: LogicalOperator, new: LogicalOperator) -> Iterator[Altered]:
    """The properties of an operator that differ."""
    for name in altered_properties(old.operator, new.operator):
        values = [plain(mask(name, vars(one.operator).get(name))) for one in (old, new)]
        yield Altered(f"{new.name}.{name}", *values)


def _attributes(
    old: LogicalPlan, new: LogicalPlan, both: Iterable[tuple[LogicalOperator, LogicalOperator]]
) -> Iterator[Altered]:
    """The attributes that differ: of the application, of operators, their ports and unifiers."""
    yield from _altered("", old.attributes, new.attributes)
    if old.window_seconds != new.window_seconds:
        yield Altered("window", old.window_seconds, new.window_seconds)
    for before, after in both:
        name = after.name
        own = {key: value for key, value in after.attributes.items() if key != "partitions"}
        yield from _altered(name, before.attributes, own)
        for port in after.ports:
            yield from _altered(f"{name}.port.{port}", before.ports.get(port, {}), after.ports[port])
        for port, unifier in after.unifier_attributes.items():
            earlier = before.unifier_attributes.get(port, {})
            yield from _altered(f"{name}.unifier.{port}", earlier, unifier)


def _altered(owner: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Altered]:
    for name, value in after.items():
        if name in before and not same_value(before[name], value):
            where = f"{owner}.{name}" if owner else name
            yield Altered(where, plain(mask(name, before[name])), plain(mask(name, value)))


class _Streams:
    """The streams and sinks that are added and removed, with the operators called by their new names."""

    def __init__(self, old: LogicalPlan, new: LogicalPlan, renamed: Mapping[str, str]) -> None:
        def end(ref: Any) -> str:
            return f"{renamed.get(ref.operator, ref.operator)}.{ref.port}"

        before = {one.name: (end(one.source), [*map(end, one.sinks)]) for one in old.streams}
        after = {one.name: (str(one.source), [*map(str, one.sinks)]) for one in new.streams}
        same = [name for name in after if name in before and after[name][0] == before[name][0]]
        self.added = tuple(name for name in after if name not in same)
        self.removed = tuple(name for name in before if name not in same)
        self.sinks_added = tuple(_only(same, after, before))
        self.sinks_removed = tuple(_only(same, before, after))


_Ends = Mapping[str, tuple[str, list[str]]]


def _only(streams: Iterable[str], one: _Ends, other: _Ends) -> Iterator[str]:
    """The sinks of streams that are in one only."""
    for name in streams:
        yield from (f"{name}: {sink}" for sink in one[name][1] if sink not in other[name][1])
