"""STRAM's decisions before slots start: how many, which containers live in which, and on which hosts.

No Spark, no sockets, no clock, no threads.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, groupby
from types import MappingProxyType

from ridgeline.api.attributes import Locality
from ridgeline.api.errors import RidgelineError
from ridgeline.plan.execution import Plan
from ridgeline.plan.graphs import Sets
from ridgeline.plan.placement_rule import PlacementRule, limits_of
from ridgeline.stram.anti_affinity import (
    Pairs,
    allowed_hosts,
    broken,
    colours,
    containers_apart,
    containers_of,
    lifted,
)

# Choose a host for each of several things that may not run everywhere, nor all beside each other.
#
# No Spark, no clock, no threads.

_STEPS = 2_000
"""How many hosts are tried before it counts as impossible."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Slots that must be on one host: `size` of them.

    `allowed`: the hosts where they may run. Units of one `rack_group` run in one rack; -1: in any.
    """

    size: int
    allowed: Collection[str]
    rack_group: int = -1


def choose_hosts(
    units: Sequence[Unit],
    free: Mapping[str, int],
    racks: Mapping[str, str],
    apart: Iterable[tuple[int, int]],
    by_rack: Iterable[tuple[int, int]],
) -> Sequence[str] | None:
    """A host for each unit; None if none was found. `free`: places of each host, `racks`: their racks.

    `apart`: pairs of units on different hosts, `by_rack`: in different racks. Hosts with places are
    preferred, the one with the most of them first.
    """
    foes = _neighbours(len(units), apart)
    rack_foes = _neighbours(len(units), by_rack)
    order = sorted(
        range(len(units)),
        key=lambda one: (
            len(units[one].allowed),
            -len(foes[one]) - len(rack_foes[one]),
            -units[one].size,
            one,
        ),
    )
    left = dict(free)
    chosen: dict[int, str] = {}

    def candidates(one: int) -> list[str]:
        barred = {chosen[other] for other in foes[one] if other in chosen}
        barred_racks = {racks[chosen[other]] for other in rack_foes[one] if other in chosen}
        group = units[one].rack_group
        near = {
            racks[host] for other, host in chosen.items() if group >= 0 and units[other].rack_group == group
        }
        fitting = [
            host
            for host in units[one].allowed
            if host not in barred and racks[host] not in barred_racks and (not near or racks[host] in near)
        ]
        return sorted(fitting, key=lambda host: (left[host] >= units[one].size, left[host], host))

    stack: list[list[str]] = []
    for _ in range(_STEPS + len(units)):
        if len(chosen) == len(units):
            return [chosen[one] for one in range(len(units))]
        if len(stack) == len(chosen):
            stack.append(candidates(order[len(chosen)]))
        if stack[-1]:
            one = order[len(chosen)]
            chosen[one] = stack[-1].pop()
            left[chosen[one]] -= units[one].size
        else:
            stack.pop()
            if not stack:
                return None
            one = order[len(stack) - 1]
            left[chosen[one]] += units[one].size
            del chosen[one]
    return None


def _neighbours(count: int, pairs: Iterable[tuple[int, int]]) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in range(count)]
    for one, other in pairs:
        found[one].add(other)
        found[other].add(one)
    return found


RESERVED_CORES = 1
"""Cores that slots leave at least to Spark's own jobs: what publishers write, checks at the start."""

Placement = tuple[tuple[int, ...], ...]
"""The containers of each slot, by slot number."""

Against = Callable[[Sequence[int], int], int]
"""How much speaks against these containers in a slot: localities, rules."""

_NOBODY: Mapping[int, str] = MappingProxyType({})
_NOT_MEASURED: Mapping[int, float] = MappingProxyType({})
_LEAST_LOAD = 0.01
"""A container that does nothing takes some memory, and may have to do something soon."""
_WORTH_A_MOVE = 0.25
"""How much less load a move must bring: what is measured varies, and a state has to be read again."""
_Cost = tuple[float, float, int, int]
_ONE_HOST = frozenset({Locality.NODE_LOCAL})
_ONE_RACK = frozenset({Locality.NODE_LOCAL, Locality.RACK_LOCAL})


@dataclass(frozen=True, slots=True)
class HostCapacity:
    """The places for slots on a host, and its rack ("" if unknown: all such are one rack)."""

    places: int
    rack: str = ""


HostCapacities = Mapping[str, HostCapacity]
"""The capacity of hosts, by name; none where there is nothing to choose."""


@dataclass(frozen=True, slots=True)
class HostPreference:
    """The hosts where a slot should run; none: anywhere. `binding`: a locality or a rule asks for it."""

    hosts: tuple[str, ...] = ()
    binding: bool = False


def count_slots(containers: int, cores: int, extra: int = 0, held: int = 0, fed: int = 0) -> int:
    """How many slots: one a container, but no more than there are cores, or are left.

    `extra`: task slots among `cores` that Spark was given for slots, beyond its own. `held`: those that slots
    of other applications hold. `fed`: containers of Spark sources; up to half of the cores are left to the
    tasks that read for them. Raises RidgelineError if too few are left.
    """
    free = cores - held
    reserved = max(RESERVED_CORES, min(fed, free // 2))
    slots = min(containers, cores - extra, free - reserved)
    if slots < 1:
        needed = held + RESERVED_CORES + 1
        taken = f", {held} for slots of other applications" if held else ""
        what = f"one for a slot, which all containers can share, {RESERVED_CORES} for Spark's own jobs{taken}"
        raise RidgelineError(f"slots need {needed} cores ({what}); Spark has {cores}; give Spark more cores")
    return slots


def most_slots(plan: Plan) -> int:
    """The most slots that a plan may have: one a container, or `containers_max_count` if that is less."""
    most: int | None = plan.logical.attributes["containers_max_count"]
    containers = len(plan.execution.containers)
    return containers if most is None else min(most, containers)


class Spread:
    """Gives containers of a plan to slots, at the start and while it runs; `hosted`: what each slot has.

    A container goes where least speaks against it, then where partitions of its operators have the least to
    do, then where containers have. `loads`: the seconds that containers work in a window, as measured; those
    that are not in it count as a mean one. So at a start the slots' numbers of partitions differ by one at
    most for each operator, and so do their numbers of containers. Later, partitions that have little to do
    share a slot. Localities and rules may have it otherwise.
    """

    def __init__(
        self, plan: Plan, hosted: Mapping[int, Sequence[int]], loads: Mapping[int, float] = _NOT_MEASURED
    ) -> None:
        mean = sum(loads.values()) / len(loads) if loads else 0.0
        self._loads = {box: max(seconds / mean, _LEAST_LOAD) for box, seconds in loads.items() if mean}
        self._full = defaultdict[int, float](float)
        """The load of each slot; a mean container's is 1."""
        operators = {one.id: (one.name, one.port) for one in plan.physical.operators}
        self._kinds = {
            box.id: tuple(sorted({operators[one] for one in box.operators}, key=str))
            for box in plan.execution.containers
        }
        self._order: dict[object, tuple[int, int]] = {}
        for container in plan.execution.containers:
            self._order.setdefault(self._kinds[container.id], (container.stage, container.id))
        self._crowds = defaultdict[object, defaultdict[int, float]](lambda: defaultdict(float))
        """The part of it that is of one operator's partitions."""
        self.hosted: dict[int, list[int]] = {slot: [] for slot in hosted}
        for slot, boxes in hosted.items():
            for box in boxes:
                self._put(box, slot)

    def add(self, units: Iterable[Sequence[int]], against: Against | None = None) -> None:
        """Give each unit, of one container or of several, to a slot; units of one kind follow each other."""
        for kinds, alike in groupby(units, lambda unit: [self._kinds[box] for box in unit]):
            costs = [self._cost(kinds, place, slot) for place, slot in enumerate(self.hosted)]
            heapq.heapify(costs)
            for unit in alike:
                best = (
                    costs[0] if against is None else min(costs, key=lambda one: (against(unit, one[-1]), one))
                )
                for box in unit:
                    self._put(box, best[-1])
                changed = self._cost(kinds, *best[2:])
                if against is None:
                    heapq.heapreplace(costs, changed)
                else:
                    costs[costs.index(best)] = changed

    def even(self, boxes: Iterable[int], against: Against | None = None) -> None:
        """Move what is of one kind with these, if a slot then has clearly less to do with it.

        At a start, with loads that are all alike: if a slot has two more than another.
        """
        for kind in {self._kinds[box] for box in boxes}:
            while True:
                of_slot = {
                    slot: [box for box in there if self._kinds[box] == kind]
                    for slot, there in self.hosted.items()
                }
                loads = {slot: sum(map(self._load, there)) for slot, there in of_slot.items()}
                most = max(loads, key=loads.__getitem__)
                least = min(loads, key=lambda slot: (loads[slot], self._full[slot]))
                box = min(of_slot[most], key=lambda box: (self._load(box), -box))
                if loads[most] - loads[least] <= self._load(box) + _WORTH_A_MOVE:
                    break
                self._take(box, most)
                if against is not None and against((box,), least) > against((box,), most):
                    self._put(box, most)
                    break
                self._put(box, least)

    def fill(self) -> None:
        """Give each slot that has nothing a container of the slot with the most."""
        for slot in [slot for slot, boxes in self.hosted.items() if not boxes]:
            most = max(self.hosted, key=lambda other: len(self.hosted[other]))
            box = self.hosted[most][-1]
            self._take(box, most)
            self._put(box, slot)

    def in_order(self, boxes: Iterable[int]) -> list[int]:
        """Containers by stage, those of one kind together, those with the most to do first."""
        return sorted(boxes, key=lambda box: (*self._order[self._kinds[box]], -self._load(box), box))

    def _cost(self, kinds: Iterable[Sequence[object]], place: int, slot: int) -> _Cost:
        crowd = sum(self._crowds[one][slot] for kind in kinds for one in kind)
        return crowd, self._full[slot], place, slot

    def _load(self, box: int) -> float:
        return self._loads.get(box, 1.0)

    def _put(self, box: int, slot: int) -> None:
        self.hosted[slot].append(box)
        self._weigh(box, slot, self._load(box))

    def _take(self, box: int, slot: int) -> None:
        self.hosted[slot].remove(box)
        self._weigh(box, slot, -self._load(box))

    def _weigh(self, box: int, slot: int, load: float) -> None:
        for of_slot in (self._full, *(self._crowds[one] for one in self._kinds[box])):
            of_slot[slot] += load


def place(plan: Plan, slots: int, loads: Mapping[int, float] = _NOT_MEASURED) -> Placement:
    """Which containers live in which slot, see `Spread`.

    Containers that must be on one host go to one slot, if an even share of a slot has room for them. Else
    they go to as few slots as have room: all of these have to be on that host.
    """
    groups = _containers_on_one(_ONE_HOST, plan)
    classes = _classes(plan, groups, slots)
    placement: list[tuple[int, ...]] = []
    for some, share in zip(classes, _slots_of(classes, slots), strict=True):
        spread = Spread(plan, dict.fromkeys(range(share), ()), loads)
        room = sum(map(len, some)) // share
        near = sorted((group for group in some if len(group) > 1), key=len, reverse=True)
        beside = _beside_others(near, spread.hosted)
        spread.add((group for group in near if len(group) <= room), beside)
        for group in near:
            if len(group) > room:
                most = -(-sum(map(len, some)) // share)
                free = sorted(spread.hosted, key=lambda slot: (len(spread.hosted[slot]), slot))
                fewest = sorted(free, key=partial(beside, group))[: -(-len(group) // most)]
                spread.add(((box,) for box in spread.in_order(group)), _outside(fewest))
        spread.add((box,) for box in spread.in_order(group[0] for group in some if len(group) == 1))
        spread.fill()
        placement += (tuple(sorted(boxes)) for boxes in spread.hosted.values())
    return tuple(placement)


def _beside_others(groups: Sequence[Sequence[int]], hosted: Mapping[int, Sequence[int]]) -> Against:
    """Against a slot speak groups that must be on one host each: with them there, all must be on one."""
    near = {box: number for number, group in enumerate(groups) for box in group}

    def others(unit: Sequence[int], slot: int) -> int:
        return len({near[box] for box in hosted[slot] if box in near} - {near[unit[0]]})

    return others


def _outside(slots: Sequence[int]) -> Against:
    """Against all other slots."""
    return lambda _, slot: slot not in slots


def _classes(plan: Plan, groups: list[list[int]], slots: int) -> list[list[list[int]]]:
    """The groups in classes that must not share a host; one class if no rule says so, or with too few slots.

    Groups that no rule names fill the class with the fewest containers.
    """
    rules = plan.logical.affinity
    pairs = _not_in_one_slot(plan, groups, rules)
    found = colours(len(groups), pairs)
    if max(found, default=0) >= slots:
        pairs = _not_in_one_slot(plan, groups, [rule for rule in rules if not rule.relax])
        found = colours(len(groups), pairs)
    count = max(found, default=0) + 1
    if count == 1 or count > slots:
        return [groups]
    named = {number for pair in pairs for number in pair}
    classes: list[list[int]] = [[] for _ in range(count)]
    for number in sorted(range(len(groups)), key=lambda number: number not in named):
        fewest = min(classes, key=lambda members: sum(len(groups[member]) for member in members))
        (classes[found[number]] if number in named else fewest).append(number)
    return [[groups[number] for number in sorted(members)] for members in classes]


def _not_in_one_slot(plan: Plan, groups: list[list[int]], rules: Sequence[PlacementRule]) -> Pairs:
    """The pairs of groups that rules want on different hosts, or that may run on different hosts."""
    homes, of_container = containers_of(plan), dict[int, frozenset[object]]()
    for name, limit in limits_of(rules).items():
        for container in homes[name]:
            of_container[container] = of_container.get(container, frozenset()) | limit
    limits = [frozenset[object]().union(*(of_container.get(one, ()) for one in group)) for group in groups]
    limited = [number for number, limit in enumerate(limits) if limit]
    unlike = {(one, other) for one, other in combinations(limited, 2) if limits[one] != limits[other]}
    return lifted(containers_apart(plan, _ONE_RACK, rules), groups) | unlike


def _slots_of(classes: Sequence[Sequence[Sequence[int]]], slots: int) -> Sequence[int]:
    """How many slots each class gets: one at least, and no more than it has containers."""
    sizes = [sum(map(len, groups)) for groups in classes]
    shares = [1] * len(classes)
    for _ in range(slots - len(classes)):
        shares[max(range(len(classes)), key=lambda number: sizes[number] / shares[number])] += 1
    return shares


def host_preferences(
    plan: Plan, placement: Placement, capacities: HostCapacities, stay: Mapping[int, str] = _NOBODY
) -> Mapping[int, HostPreference]:
    """On which host each slot should run.

    Slots whose containers a NODE_LOCAL stream joins get one host, those of a RACK_LOCAL stream one rack. All
    others are spread evenly; slots that follow each other share a host where that is possible. `stay`: the
    hosts of slots that are not to move, if that breaks no rule.
    """
    if len(capacities) < 2:  # noqa: PLR2004  there is nothing to choose
        return {}
    slots = [slot for slot, hosted in enumerate(placement) if hosted]
    hosts = _slots_on_one(_ONE_HOST, plan, placement)
    free = {host: offer.places for host, offer in capacities.items()}
    found: dict[int, HostPreference] = dict(_ruled(plan, placement, capacities, free, stay))
    for rack_group in sorted(
        _slots_on_one(_ONE_RACK, plan, placement), key=lambda group: (-len(group), group)
    ):
        if len(rack_group) == 1:
            continue
        units = [group for group in hosts if group[0] in rack_group and group[0] not in found]
        chosen = [found[slot].hosts[0] for slot in rack_group if slot in found]
        near = _hosts_beside(capacities, chosen[0]) if chosen else _rack(capacities, free)
        for unit in sorted(units, key=lambda group: (-len(group), group)):
            one_host = len(rack_group) == len(unit)  # no stream asks for a rack: every host will do
            host = _freest(free if one_host else near, free)
            free[host] -= len(unit)
            allowed = (host,) if len(unit) > 1 else tuple(sorted(near, key=lambda name: name != host))
            found.update(dict.fromkeys(unit, HostPreference(allowed, binding=True)))
    others = [slot for slot in slots if slot not in found]
    for slot, host in zip(others, _shares(len(others), free), strict=True):
        found[slot] = HostPreference((host,))
    return found


def _ruled(
    plan: Plan,
    placement: Placement,
    capacities: HostCapacities,
    free: dict[str, int],
    stay: Mapping[int, str],
) -> Mapping[int, HostPreference]:
    """The hosts of slots that rules are about, and of those that must be on one host with them.

    Takes their places from `free`. If all rules cannot be kept, strict ones come first.
    """
    rules = sorted(plan.logical.affinity, key=lambda rule: rule.relax)
    found = _keep(plan, placement, capacities, free, rules, stay)
    if found is None:
        kept: list[PlacementRule] = []
        found = {}
        for rule in rules:
            more = _keep(plan, placement, capacities, free, [*kept, rule], stay)
            if more is not None:
                kept, found = [*kept, rule], more
    for preference in found.values():
        free[preference.hosts[0]] -= 1
    return found


def _keep(
    plan: Plan,
    placement: Placement,
    capacities: HostCapacities,
    free: Mapping[str, int],
    rules: Sequence[PlacementRule],
    stay: Mapping[int, str],
) -> Mapping[int, HostPreference] | None:
    """Hosts with which rules are kept, of the slots that they are about; None if there are none."""
    units = _slots_on_one(_ONE_HOST, plan, placement)
    inside = [[container for slot in unit for container in placement[slot]] for unit in units]
    apart = lifted(containers_apart(plan, _ONE_RACK, rules), inside)
    by_rack = lifted(containers_apart(plan, (Locality.RACK_LOCAL,), rules), inside)
    racks = {host: offer.rack for host, offer in capacities.items()}
    allowed = allowed_hosts(plan, racks, rules)
    groups = _containers_on_one(_ONE_RACK, plan, rules)
    group_of = {one: number for number, group in enumerate(groups) for one in group if len(group) > 1}
    asked: list[Unit] = []
    numbers: list[int] = []
    for number, unit in enumerate(units):
        hosts = [allowed[one] for one in inside[number] if one in allowed]
        at = [frozenset({stay[slot]}) for slot in unit if stay.get(slot) in capacities]
        if hosts or at or any(number in pair for pair in apart):
            possible = frozenset(capacities).intersection(*hosts, *at)
            near = {group_of[one] for one in inside[number] if one in group_of}
            asked.append(Unit(len(unit), possible, min(near, default=-1)))
            numbers.append(number)
    place_of = {number: place for place, number in enumerate(numbers)}
    chosen = choose_hosts(
        asked,
        free,
        racks,
        [(place_of[one], place_of[other]) for one, other in apart],
        [(place_of[one], place_of[other]) for one, other in by_rack],
    )
    if chosen is None:
        return None
    bound = {number for pair in apart for number in pair}
    found = {}
    for number, one, host in zip(numbers, asked, chosen, strict=True):
        free_to_choose = number not in bound and one.rack_group < 0 and len(units[number]) == 1
        others = sorted(set(one.allowed) - {host}) if free_to_choose else ()
        found.update(dict.fromkeys(units[number], HostPreference((host, *others), binding=True)))
    return found


def broken_rules(
    plan: Plan, placement: Placement, preferences: Mapping[int, HostPreference], capacities: HostCapacities
) -> Sequence[PlacementRule]:
    """The affinity rules that this placement cannot keep. Without offers all slots are on one host."""
    where = {
        container: preference.hosts[0]
        if (preference := preferences.get(slot)) and preference.hosts
        else f"slot {slot}"
        for slot, hosted in enumerate(placement)
        for container in hosted
    }
    if len(capacities) < 2:  # noqa: PLR2004  one host has all
        where = dict.fromkeys(where, next(iter(capacities), ""))
    return broken(plan, where, {host: offer.rack for host, offer in capacities.items()})


def _rack(capacities: HostCapacities, free: Mapping[str, int]) -> Sequence[str]:
    """The hosts of the rack that has the most places left."""
    racks: dict[str, list[str]] = {}
    for host in sorted(capacities):
        racks.setdefault(capacities[host].rack, []).append(host)
    return max(racks.values(), key=lambda hosts: sum(free[host] for host in hosts))


def _hosts_beside(capacities: HostCapacities, host: str) -> Sequence[str]:
    """The hosts of a host's rack."""
    return [other for other in sorted(capacities) if capacities[other].rack == capacities[host].rack]


def _freest(hosts: Iterable[str], free: Mapping[str, int]) -> str:
    return min(hosts, key=lambda host: (-free[host], host))


def _shares(slots: int, free: Mapping[str, int]) -> Sequence[str]:
    """A host for each of so many slots: the freest one takes the next; then in the order of hosts."""
    left, taken = [(-places, host) for host, places in free.items()], []
    heapq.heapify(left)
    for _ in range(slots):
        places, host = left[0]
        heapq.heapreplace(left, (places + 1, host))
        taken.append(host)
    return sorted(taken)


def _containers_on_one(
    localities: frozenset[Locality], plan: Plan, rules: Iterable[PlacementRule] | None = None
) -> list[list[int]]:
    """Groups of containers that streams of these localities, and rules, join; most are of one container."""
    wanted = {
        (stream.name, sink.operator)
        for stream in plan.logical.streams
        for sink, locality in zip(stream.sinks, stream.localities, strict=True)
        if locality in localities
    }
    containers = plan.execution.containers
    home = {operator: container.id for container in containers for operator in container.operators}
    edges = []
    if wanted:
        readers = _readers(plan)
        edges = [
            (home[stream.source], home[stream.sink])
            for stream in plan.physical.streams
            if any((stream.name, name) in wanted for name in readers[stream.sink])
        ]
    homes = containers_of(plan)
    for rule in plan.logical.affinity if rules is None else rules:
        if rule.near and rule.locality in localities:
            together = [container for name in rule.operators for container in homes[name]]
            edges += [(together[0], container) for container in together[1:]]
    return _components([container.id for container in containers], edges)


def _readers(plan: Plan) -> Mapping[int, frozenset[str]]:
    """By physical operator, the logical ones that get what it is sent: itself, or all behind a unifier."""
    unifiers = {one.id for one in plan.physical.operators if one.unifier}
    found: dict[int, frozenset[str]] = {
        one.id: frozenset() if one.unifier else frozenset({one.name}) for one in plan.physical.operators
    }
    places = plan.physical.places
    behind = [(stream.source, stream.sink) for stream in plan.physical.streams if stream.source in unifiers]
    for unifier, sink in sorted(behind, key=lambda edge: -places[edge[0]]):
        found[unifier] |= found[sink]
    return found


def _slots_on_one(localities: frozenset[Locality], plan: Plan, placement: Placement) -> list[list[int]]:
    """Groups of slots that must be near each other, since their containers must; most are of one slot."""
    home = {container: slot for slot, hosted in enumerate(placement) for container in hosted}
    edges = [
        (home[group[0]], home[container])
        for group in _containers_on_one(localities, plan)
        for container in group[1:]
    ]
    return _components(range(len(placement)), edges)


def _components(nodes: Iterable[int], edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The connected components of nodes, each sorted, by their lowest node."""
    ordered = sorted(nodes)
    sets = Sets(ordered)
    for edge in edges:
        sets.join(*edge)
    found: dict[int, list[int]] = {}
    for node in ordered:
        found.setdefault(sets.of(node), []).append(node)
    return list(found.values())
