"""STRAM's decisions about places: how many slots, which containers live in which, and on which hosts.

At the start, for a plan that follows, and while slots come and go. No Spark, no sockets, no clock, no
threads.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from types import MappingProxyType

from ridgeline.api.attributes import Locality
from ridgeline.api.errors import RidgelineError
from ridgeline.plan.execution import Plan
from ridgeline.plan.placement_rule import PlacementRule, limits_of
from ridgeline.stram.rules import (
    ONE_HOST,
    ONE_RACK,
    Pairs,
    allowed_hosts,
    broken,
    colours,
    components,
    containers_apart,
    containers_of,
    containers_on_one,
    lifted,
)

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
_STRICT, _RELAXED = 1_000_000, 1_000
"""How much a broken rule speaks against a place, beside groups that share one."""


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


class _Foes:
    """What rules have against containers beside each other. Those that must share a host are a group."""

    def __init__(self, plan: Plan) -> None:
        rules = plan.logical.affinity
        self._plan = plan
        self._homes = containers_of(plan)
        self.groups = containers_on_one(ONE_HOST, plan)
        self._group_of = {box: number for number, group in enumerate(self.groups) for box in group}
        self._apart = defaultdict[int, Counter[int]](Counter)
        self._colours: list[tuple[int, Mapping[int, int]]] = []
        """Groups of different colours must not share a host: then as few hosts as there are colours do."""
        for weight, some in ((_STRICT, [rule for rule in rules if not rule.relax]), (_RELAXED, rules)):
            pairs = lifted(containers_apart(plan, ONE_RACK, some), self.groups)
            for one, other in (*pairs, *(pair[::-1] for pair in pairs)):
                self._apart[one][other] += weight
            self._colours.append((weight, colours(pairs | self._unlike(some))))

    def _unlike(self, rules: Sequence[PlacementRule]) -> Pairs:
        """The pairs of groups that may run on different hosts."""
        of_box: dict[int, frozenset[object]] = {}
        for name, limit in limits_of(rules).items():
            for box in self._homes[name]:
                of_box[box] = of_box.get(box, frozenset()) | limit
        limits = [frozenset[object]().union(*(of_box.get(one, ()) for one in group)) for group in self.groups]
        limited = [number for number, limit in enumerate(limits) if limit]
        return frozenset(pair for pair in combinations(limited, 2) if limits[pair[0]] != limits[pair[1]])

    def enmity(self, box: int) -> int:
        """How much rules have against others beside a container."""
        return self._apart[self._group_of[box]].total()

    def against(self, hosted: Mapping[int, Sequence[int]], where: Mapping[int, str] = _NOBODY) -> Against:
        """How much speaks against one or several containers of a group in a slot, by what its host has.

        `where`: the hosts of slots. Of a slot whose host is not known, what it has itself must find a host.
        """
        of = self._group_of

        def cost(unit: Sequence[int], slot: int) -> int:
            own = of[unit[0]]
            here = {of[box] for box in hosted[slot]} - {own}
            beside = sum(len(self.groups[one]) > 1 for one in here) if len(self.groups[own]) > 1 else 0
            if slot not in where:
                return beside + sum(
                    weight
                    for weight, colour in self._colours
                    for one in (here if own in colour else ())
                    if colour.get(one, colour[own]) != colour[own]
                )
            found = beside + self._unfit(unit[0], where[slot])
            if foes := self._apart[own]:
                there = (boxes for other, boxes in hosted.items() if where.get(other) == where[slot])
                found += sum(foes[of[box]] for boxes in there for box in boxes)
            return found

        return cost

    def _unfit(self, box: int, host: str) -> int:
        """How much rules of hosts speak against a container on a host; those of racks are left out."""
        return sum(
            _RELAXED if rule.relax else _STRICT
            for rule in self._plan.logical.affinity
            if rule.hosts and rule.locality is Locality.NODE_LOCAL and not rule.allows(host, "")
            for name in rule.operators
            if box in self._homes[name]
        )


def place(plan: Plan, slots: int, loads: Mapping[int, float] = _NOT_MEASURED) -> Placement:
    """Which containers live in which slot, see `Spread`.

    Containers that must be on one host go to one slot, if an even share of a slot has room for them. Else
    they go to as few slots as have room: all of these have to be on that host.
    """
    spread, foes = Spread(plan, dict.fromkeys(range(slots), ()), loads), _Foes(plan)
    against, boxes = foes.against(spread.hosted), len(plan.execution.containers)
    near = sorted(
        (group for group in foes.groups if len(group) > 1), key=lambda one: (-foes.enmity(one[0]), -len(one))
    )
    spread.add((group for group in near if len(group) <= boxes // slots), against)
    for group in near:
        if len(group) > boxes // slots:
            best = sorted(
                spread.hosted, key=lambda slot: (against(group, slot), len(spread.hosted[slot]), slot)
            )
            fewest = best[: -(-len(group) // -(-boxes // slots))]
            spread.add(((box,) for box in spread.in_order(group)), _outside(fewest))
    alone = spread.in_order(group[0] for group in foes.groups if len(group) == 1)
    ruled = bool(plan.logical.affinity)
    alone.sort(key=lambda box: -foes.enmity(box))
    spread.add(((box,) for box in alone), against if ruled else None)
    spread.fill()
    return tuple(tuple(sorted(found)) for found in spread.hosted.values())


def _outside(slots: Sequence[int]) -> Against:
    """Against all other slots."""
    return lambda _, slot: slot not in slots


def place_following(
    new: Plan,
    placement: Placement,
    fresh: Sequence[int],
    where: Mapping[int, str] = _NOBODY,
    loads: Mapping[int, float] = _NOT_MEASURED,
) -> Placement:
    """Place the containers of a new plan. `fresh`: slots beside those of now. `where`: the hosts of slots.

    Those that stay, stay where they are. Partitions of an operator that gets more of them are spread evenly,
    as at a start. `loads`: what containers have to do, see `Spread`.
    """
    present = {container.id for container in new.execution.containers}
    width = max([len(placement), *(slot + 1 for slot in fresh)])
    kept = [tuple(one for one in hosted if one in present) for hosted in placement]
    kept += [()] * (width - len(kept))
    homes = {one for hosted in kept for one in hosted}
    added = tuple(one.id for one in new.execution.containers if one.id not in homes)
    usable = sorted({*fresh, *(slot for slot, hosted in enumerate(placement) if hosted)})
    return PlanRules(new).move((*kept, added), usable, where, loads, even=True)[:width]


def place_spread(
    plan: Plan, placement: Placement, fresh: Sequence[int], loads: Mapping[int, float] = _NOT_MEASURED
) -> Placement:
    """Spread the containers of a plan over the slots that there are and `fresh` ones, as at a start.

    Each share goes to the slot that hosts most of it already.
    """
    slots = [*(slot for slot, hosted in enumerate(placement) if hosted), *fresh]
    shares = place(plan, len(slots), loads)
    width = max([len(placement), *(slot + 1 for slot in fresh)])
    home = {container: slot for slot, hosted in enumerate(placement) for container in hosted}
    common = Counter((home[one], share) for share in shares for one in share if one in home)
    found: dict[int, tuple[int, ...]] = {}
    taken: set[tuple[int, ...]] = set()
    for _, slot, share in sorted((-count, *pair) for pair, count in common.items()):
        if slot not in found and share not in taken:
            found[slot] = share
            taken.add(share)
    rest = sorted(share for share in shares if share not in taken)
    found.update(zip((slot for slot in sorted(slots) if slot not in found), rest, strict=True))
    return tuple(found.get(slot, ()) for slot in range(width))


class PlanRules:
    """The affinity rules and localities of a plan, for slots that run."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def host_preferences(
        self, placement: Placement, capacities: HostCapacities, stay: Mapping[int, str]
    ) -> Mapping[int, HostPreference]:
        """Where slots should run; see there."""
        return host_preferences(self._plan, placement, capacities, stay)

    def broken(
        self, placement: Placement, where: Mapping[int, str], capacities: HostCapacities
    ) -> Sequence[PlacementRule]:
        """The rules that are not kept where slots are on these hosts; slots that are left out are unknown."""
        if not self._plan.logical.affinity:
            return ()
        hosts = {box: where[slot] for slot, hosted in enumerate(placement) if slot in where for box in hosted}
        return broken(self._plan, hosts, {host: offer.rack for host, offer in capacities.items()})

    def strict_broken(
        self, placement: Placement, where: Mapping[int, str], capacities: HostCapacities
    ) -> Sequence[PlacementRule]:
        """The strict ones of them; none on a single machine."""
        return (
            [one for one in self.broken(placement, where, capacities) if not one.relax] if capacities else ()
        )

    def move(
        self,
        placement: Placement,
        kept: Sequence[int],
        where: Mapping[int, str],
        loads: Mapping[int, float],
        *,
        even: bool = False,
    ) -> Placement:
        """The containers of all slots in those that are kept, see `Spread`.

        Of several slots one where the container breaks the fewest rules. `where`: the hosts of slots.
        `loads`: what containers have to do. `even`: operators that get a slot have others moved, if they
        would be uneven.
        """
        spread = Spread(self._plan, {slot: placement[slot] for slot in kept}, loads)
        gone = (slot for slot in range(len(placement)) if slot not in spread.hosted)
        orphans = spread.in_order(box for slot in gone for box in placement[slot])
        against = None
        if self._plan.logical.affinity:
            foes = _Foes(self._plan)
            against = foes.against(spread.hosted, where)
            orphans.sort(key=lambda box: -foes.enmity(box))
        spread.add(((one,) for one in orphans), against)
        if even:
            spread.even(orphans, against)
        return tuple(tuple(sorted(spread.hosted.get(slot, ()))) for slot in range(len(placement)))

    def place(self, slots: int, loads: Mapping[int, float]) -> Placement | None:
        """A placement in so many slots that has nothing to do with another one; None: there is no need."""
        return place(self._plan, slots, loads) if self._plan.logical.affinity else None


# Hosts for slots that may not run everywhere, nor all beside each other.

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
    preferred, those of the rack with the most of them first if units share one, then that with the most.
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
        group, size = units[one].rack_group, units[one].size
        near = {
            racks[host] for other, host in chosen.items() if group >= 0 and units[other].rack_group == group
        }
        room = Counter[str]()
        for host in left if group >= 0 else ():
            room[racks[host]] += left[host]
        fitting = [
            host
            for host in units[one].allowed
            if host not in barred and racks[host] not in barred_racks and (not near or racks[host] in near)
        ]
        best = sorted(fitting, key=lambda host: (left[host] < size, -room[racks[host]], -left[host], host))
        return best[::-1]

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
    free = {host: offer.places for host, offer in capacities.items()}
    found = dict(_bound(plan, placement, capacities, free, stay))
    for preference in found.values():
        free[preference.hosts[0]] -= 1
    others = [slot for slot, hosted in enumerate(placement) if hosted and slot not in found]
    for slot, host in zip(others, _shares(len(others), free), strict=True):
        found[slot] = HostPreference((host,))
    return found


def _bound(
    plan: Plan,
    placement: Placement,
    capacities: HostCapacities,
    free: Mapping[str, int],
    stay: Mapping[int, str],
) -> Mapping[int, HostPreference]:
    """The hosts of slots that localities and rules are about. If not all can be kept, strict ones first."""
    rules = sorted(plan.logical.affinity, key=lambda rule: rule.relax)
    found = _keep(plan, placement, capacities, free, rules, stay)
    if found is not None:
        return found
    found, kept = _keep(plan, placement, capacities, free, [], _NOBODY) or {}, list[PlacementRule]()
    for rule in rules:
        more = _keep(plan, placement, capacities, free, [*kept, rule], stay)
        if more is not None:
            kept, found = [*kept, rule], more
    return found


def _keep(
    plan: Plan,
    placement: Placement,
    capacities: HostCapacities,
    free: Mapping[str, int],
    rules: Sequence[PlacementRule],
    stay: Mapping[int, str],
) -> Mapping[int, HostPreference] | None:
    """Hosts with which localities and rules are kept, of the slots that they are about; None if none are."""
    units = _slots_on_one(ONE_HOST, plan, placement, plan.logical.affinity)
    inside = [[container for slot in unit for container in placement[slot]] for unit in units]
    apart = lifted(containers_apart(plan, ONE_RACK, rules), inside)
    by_rack = lifted(containers_apart(plan, (Locality.RACK_LOCAL,), rules), inside)
    bound = {number for pair in apart for number in pair}
    racks = {host: offer.rack for host, offer in capacities.items()}
    allowed = allowed_hosts(plan, racks, rules)
    groups = _slots_on_one(ONE_RACK, plan, placement, rules)
    rack_of = {slot: number for number, group in enumerate(groups) for slot in group if len(group) > 1}
    asked: dict[int, Unit] = {}
    for number, unit in enumerate(units):
        hosts = [allowed[one] for one in inside[number] if one in allowed]
        at = [frozenset({stay[slot]}) for slot in unit if stay.get(slot) in capacities]
        rack = min((rack_of[slot] for slot in unit if slot in rack_of), default=-1)
        if hosts or at or len(unit) > 1 or rack >= 0 or number in bound:
            asked[number] = Unit(len(unit), frozenset(capacities).intersection(*hosts, *at), rack)
    place_of = {number: place for place, number in enumerate(asked)}
    chosen = choose_hosts(
        list(asked.values()),
        free,
        racks,
        [(place_of[one], place_of[other]) for one, other in apart],
        [(place_of[one], place_of[other]) for one, other in by_rack],
    )
    if chosen is None:
        return None
    found = {}
    for (number, one), host in zip(asked.items(), chosen, strict=True):
        loose = () if number in bound or len(units[number]) > 1 else one.allowed
        near = (other for other in loose if one.rack_group < 0 or racks[other] == racks[host])
        others = sorted(other for other in near if other != host)
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


def _shares(slots: int, free: Mapping[str, int]) -> Sequence[str]:
    """A host for each of so many slots: the freest one takes the next; then in the order of hosts."""
    left, taken = [(-places, host) for host, places in free.items()], []
    heapq.heapify(left)
    for _ in range(slots):
        places, host = left[0]
        heapq.heapreplace(left, (places + 1, host))
        taken.append(host)
    return sorted(taken)


def _slots_on_one(
    localities: frozenset[Locality], plan: Plan, placement: Placement, rules: Iterable[PlacementRule]
) -> list[list[int]]:
    """Groups of slots that must be near each other, since their containers must; most are of one slot."""
    home = {container: slot for slot, hosted in enumerate(placement) for container in hosted}
    edges = [
        (home[group[0]], home[container])
        for group in containers_on_one(localities, plan, rules)
        for container in group[1:]
    ]
    return components(range(len(placement)), edges)
