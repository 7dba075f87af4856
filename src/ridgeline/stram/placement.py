"""STRAM's decisions about places: how many slots, which containers live in which, and on which hosts.

At the start, for a plan that follows, and while slots come and go. No Spark, no sockets, no clock, no
threads.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

from ridgeline.api.attributes import Locality
from ridgeline.api.errors import RidgelineError
from ridgeline.plan.execution import Plan
from ridgeline.plan.placement_rule import PlacementRule
from ridgeline.stram.rules import (
    ONE_HOST,
    ONE_RACK,
    broken,
    components,
    containers_of,
    containers_on_one,
)

RESERVED_CORES = 1
"""Cores that slots leave at least to Spark's own jobs: what publishers write, checks at the start."""

Placement = tuple[tuple[int, ...], ...]
"""The containers of each slot, by slot number."""

_NOBODY: Mapping[int, str] = MappingProxyType({})
_NOT_MEASURED: Mapping[int, float] = MappingProxyType({})
_NO_RACKS: Mapping[str, str] = MappingProxyType({})
_LEAST_LOAD = 0.01
"""A container that does nothing takes some memory, and may have to do something soon."""
_WORTH_A_MOVE = 0.25
"""How much less load a move must bring: what is measured varies, and a state has to be read again."""
_Cost = tuple[float, float, int, int]
_STRICT, _MOVED, _RELAXED = 1_000_000_000, 1_000_000, 1_000
"""How much speaks against a host: a strict rule that is broken, a slot that has to move, a relaxed rule."""
_MANY = 1 << 20
"""More places than a host has."""
_SWEEPS = 8
"""How often hosts are chosen again in the light of the others' hosts."""


@dataclass(frozen=True, slots=True)
class HostCapacity:
    """The places for slots on a host, and its rack ("" if unknown: all such are one rack)."""

    places: int
    rack: str = ""


HostCapacities = Mapping[str, HostCapacity]
"""The capacity of hosts, by name; none where there is nothing to choose."""
_NO_CAPACITIES: HostCapacities = MappingProxyType({})


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


class _Bond(NamedTuple):
    """One thing that speaks for or against a host for a container.

    `own`: the set of containers that it belongs to. `foes`: sets that must not be on the same host, or in the
    same rack if `by_rack`. `near`: all of its own set must be. `rule`: one that names hosts. `share`: the
    hosts where it should be, so that its foes find others.
    """

    weight: int
    by_rack: bool
    own: object
    foes: tuple[object, ...] = ()
    near: bool = False
    rule: PlacementRule | None = None
    share: Collection[str] = ()


class Ties:
    """What localities and rules have against containers on hosts, by where others were put.

    A host that is not known yet is the number of its slot. It may be any host, so it is unlike all others if
    containers must be apart, and like all others if they must be near. `racks`: of hosts. `hosts`: those that
    are divided among operators that must be apart.
    """

    def __init__(self, plan: Plan, racks: Mapping[str, str] = _NO_RACKS, hosts: Collection[str] = ()) -> None:
        self._racks = racks
        self._bonds = defaultdict[int, list[_Bond]](list)
        self._sizes = Counter[object]()
        self._there = Counter[tuple[object, str | int]]()
        self._put = Counter[object]()
        homes, rules = containers_of(plan), plan.logical.affinity
        for rule in rules:
            weight, by_rack = _RELAXED if rule.relax else _STRICT, rule.locality is Locality.RACK_LOCAL
            named = dict.fromkeys(rule.operators)
            for name in named:
                own = rule.name, name
                foes = tuple((rule.name, one) for one in named if one != name or one in rule.spread)
                if rule.hosts:
                    self._tie(homes[name], _Bond(weight, by_rack, own, rule=rule))
                elif rule.apart and not rule.locality.together:
                    share = _divided(hosts, {one: len(homes[one]) for one in named}).get(name, ())
                    self._tie(homes[name], _Bond(weight, by_rack, own, foes, share=share))
        strict = [rule for rule in rules if not rule.relax]
        self.groups = [group for group in containers_on_one(ONE_HOST, plan) if len(group) > 1]
        """The containers that must share a host."""
        for level, weight, groups in (
            (ONE_HOST, _STRICT, self.groups),
            (ONE_RACK, _STRICT, containers_on_one(ONE_RACK, plan, strict)),
            (ONE_RACK, _RELAXED, containers_on_one(ONE_RACK, plan)),
        ):
            for group in groups:
                if len(group) > 1:
                    self._tie(group, _Bond(weight, level is ONE_RACK, (level, weight, group[0]), near=True))

    def _tie(self, boxes: Sequence[int], bond: _Bond) -> None:
        self._sizes[bond.own] += len(boxes)
        for box in boxes:
            self._bonds[box].append(bond)

    def bonds(self, boxes: Iterable[int]) -> list[_Bond]:
        """All that is said of these containers."""
        return [bond for box in boxes for bond in self._bonds.get(box, ())]

    def enmity(self, bonds: Iterable[_Bond]) -> int:
        """How much might speak against hosts, by these: the more, the sooner their containers are placed."""
        return sum(bond.weight * (1 + sum(self._sizes[foe] for foe in bond.foes)) for bond in bonds)

    def against(self, bonds: Iterable[_Bond], host: str | int) -> int:
        """How much speaks against a host, by these."""
        return sum(
            bond.weight * self._broken(bond, host) + bool(bond.share and host not in bond.share)
            for bond in bonds
        )

    def _broken(self, bond: _Bond, host: str | int) -> int:
        """How many containers break it on a host, for one that is not put anywhere."""
        place = self._place(bond, host)
        if bond.near:
            return self._put[bond.own] - self._there[bond.own, place]
        if bond.rule is not None:
            return not (isinstance(host, str) and bond.rule.allows(host, self._racks.get(host, "")))
        return sum(self._there[foe, place] for foe in bond.foes)

    def _place(self, bond: _Bond, host: str | int) -> str | int:
        unknown = "" if bond.near else host
        if isinstance(host, int):
            return unknown
        return self._racks.get(host, unknown) if bond.by_rack else host

    def put(self, bonds: Iterable[_Bond], host: str | int, by: int = 1) -> None:
        """The containers that these are of are on a host; `by` -1: no more."""
        for bond in bonds:
            self._there[bond.own, self._place(bond, host)] += by
            self._put[bond.own] += by


class Spread:
    """Gives containers of a plan to slots, at the start and while it runs; `hosted`: what each slot has.

    A container goes where least speaks against it, then where partitions of its operators have the least to
    do, then where containers have. `where`: the hosts of slots, as far as they are known. `loads`: the
    seconds that containers work in a window, as measured; those that are not in it count as a mean one. So at
    a start the slots' numbers of partitions differ by one at most for each operator, and so do their numbers
    of containers. Later, partitions that have little to do share a slot. Localities and rules may have it
    otherwise.
    """

    def __init__(
        self,
        plan: Plan,
        hosted: Mapping[int, Iterable[int]],
        ties: Ties,
        where: Mapping[int, str],
        loads: Mapping[int, float],
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
        self._ties = ties
        self._where = dict(where)
        self.hosted: dict[int, list[int]] = {slot: [] for slot in hosted}
        for slot, boxes in hosted.items():
            for box in boxes:
                self._put(box, slot)

    def add(self, units: Iterable[Sequence[int]], within: Sequence[int] = ()) -> None:
        """Give each unit, of one container or of several, to a slot; units of one kind follow each other.

        `within`: only these slots.
        """
        for kinds, alike in groupby(units, lambda unit: [self._kinds[box] for box in unit]):
            costs = [self._cost(kinds, place, slot) for place, slot in enumerate(within or self.hosted)]
            heapq.heapify(costs)
            for unit in alike:
                if self._ties.bonds(unit):
                    best = min(costs, key=lambda one: (self._against(unit, one[-1]), one))
                    costs.remove(best)
                    heapq.heapify(costs)
                else:
                    best = heapq.heappop(costs)
                for box in unit:
                    self._put(box, best[-1])
                heapq.heappush(costs, self._cost(kinds, *best[2:]))

    def add_wide(self, unit: Sequence[int], share: int) -> None:
        """Give containers that must be on one host to as few slots as have room for `share` each.

        Slots that have nothing yet can be on that host, too.
        """
        empty = Counter(self._where.get(slot) for slot, boxes in self.hosted.items() if not boxes)
        best = min(
            self.hosted,
            key=lambda slot: (
                self._against(unit, slot),
                len(self.hosted[slot]),
                -empty[self._where.get(slot)],
            ),
        )
        host = self._where.get(best)
        nearest = sorted(
            self.hosted,
            key=lambda slot: (bool(self.hosted[slot]), self._where.get(slot) != host, len(self.hosted[slot])),
        )
        fewest = nearest[: -(-len(unit) // share)]
        for slot in fewest:
            if host is not None and not self.hosted[slot]:
                self._where[slot] = host
        self.add(((box,) for box in self.in_order(unit)), fewest)

    def even(self, boxes: Iterable[int]) -> None:
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
                if self._against((box,), least) > self._against((box,), most):
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

    def _against(self, unit: Sequence[int], slot: int) -> int:
        return self._ties.against(self._ties.bonds(unit), self._where.get(slot, slot))

    def _cost(self, kinds: Iterable[Sequence[object]], place: int, slot: int) -> _Cost:
        crowd = sum(self._crowds[one][slot] for kind in kinds for one in kind)
        return crowd, self._full[slot], place, slot

    def _load(self, box: int) -> float:
        return self._loads.get(box, 1.0)

    def _put(self, box: int, slot: int) -> None:
        self.hosted[slot].append(box)
        self._weigh(box, slot, self._load(box))
        self._ties.put(self._ties.bonds((box,)), self._where.get(slot, slot))

    def _take(self, box: int, slot: int) -> None:
        self.hosted[slot].remove(box)
        self._weigh(box, slot, -self._load(box))
        self._ties.put(self._ties.bonds((box,)), self._where.get(slot, slot), -1)

    def _weigh(self, box: int, slot: int, load: float) -> None:
        for of_slot in (self._full, *(self._crowds[one] for one in self._kinds[box])):
            of_slot[slot] += load


def place(
    plan: Plan,
    slots: int,
    loads: Mapping[int, float] = _NOT_MEASURED,
    capacities: HostCapacities = _NO_CAPACITIES,
) -> Placement:
    """Which containers live in which of so many slots at a start, see `Spread`.

    Containers that must be on one host go to one slot, if an even share of a slot has room for them. Else
    they go to as few slots as have room: all of these have to be on that host. `capacities`: what hosts have.
    """
    shares = _shares(slots, _places(capacities, plan)) if len(capacities) > 1 else ()
    racks = {host: offer.rack for host, offer in capacities.items()}
    found = _placed(plan, range(slots), (), dict(enumerate(shares)), loads, racks)
    if not shares or not _strict_broken(plan, found, capacities):
        return found
    # Slots need not be on these hosts: perhaps rules can be kept on others.
    other = _placed(plan, range(slots), (), _NOBODY, loads, racks)
    return found if _strict_broken(plan, other, capacities) else other


def _strict_broken(plan: Plan, placement: Placement, capacities: HostCapacities) -> bool:
    """Whether a strict rule cannot be kept with this placement."""
    preferences = host_preferences(plan, placement, capacities)
    return any(not rule.relax for rule in broken_rules(plan, placement, preferences, capacities))


def _placed(
    plan: Plan,
    slots: Iterable[int],
    before: Placement,
    where: Mapping[int, str],
    loads: Mapping[int, float],
    racks: Mapping[str, str] = _NO_RACKS,
    *,
    even: bool = False,
) -> Placement:
    """The containers of a plan in these slots. Those that slots hosted `before` stay where they are.

    `where`: the hosts of slots. `even`: operators that get a container have others moved, if they would be
    uneven.
    """
    present = {container.id for container in plan.execution.containers}
    hosted = {slot: before[slot] if slot < len(before) else () for slot in slots}
    ties = Ties(plan, racks, () if any(before) else sorted(set(where.values())))
    kept = {slot: [box for box in boxes if box in present] for slot, boxes in hosted.items()}
    spread = Spread(plan, kept, ties, where, loads)
    new = present.difference(*kept.values())
    near = [unit for group in ties.groups if (unit := [box for box in group if box in new])]
    near.sort(key=lambda unit: (-ties.enmity(ties.bonds(unit[:1])), -len(unit)))
    share = len(present) // len(kept)
    spread.add(unit for unit in near if len(unit) <= share)
    for unit in near:
        if len(unit) > share:
            spread.add_wide(unit, -(-len(present) // len(kept)))
    alone = spread.in_order(new.difference(*near))
    alone.sort(key=lambda box: -ties.enmity(ties.bonds((box,))))
    spread.add((box,) for box in alone)
    if even:
        spread.even(new)
    if new == present:
        spread.fill()
    width = max(len(before), *(slot + 1 for slot in kept))
    return tuple(tuple(sorted(spread.hosted.get(slot, ()))) for slot in range(width))


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
    usable = sorted({*fresh, *(slot for slot, hosted in enumerate(placement) if hosted)})
    return _placed(new, usable, placement, where, loads, even=True)


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
    ) -> Placement:
        """The containers of all slots in those that are kept; those of these stay. See `Spread`."""
        return _placed(self._plan, kept, placement, where, loads)

    def place(
        self, slots: int, loads: Mapping[int, float], capacities: HostCapacities = _NO_CAPACITIES
    ) -> Placement | None:
        """A placement in so many slots that has nothing to do with another one; None: there is no need."""
        return place(self._plan, slots, loads, capacities) if self._plan.logical.affinity else None


def host_preferences(
    plan: Plan, placement: Placement, capacities: HostCapacities, stay: Mapping[int, str] = _NOBODY
) -> Mapping[int, HostPreference]:
    """On which host each slot should run.

    Slots whose containers a NODE_LOCAL stream joins get one host, those of a RACK_LOCAL stream one rack. All
    others are spread evenly; slots that follow each other share a host where that is possible. `stay`: the
    hosts of slots that move only if a strict rule is broken else.

    Each unit of slots that share a host takes the one that least speaks against, those with the most rules
    first. Then all choose again in the light of the others, until none would change.
    """
    if len(capacities) < 2:  # noqa: PLR2004  there is nothing to choose
        return {}
    stay = {slot: host for slot, host in stay.items() if host in capacities}
    hosts = _Hosts(plan, placement, capacities, stay)
    found = dict(hosts.bound())
    for slot in stay.keys() - found.keys():
        found[slot] = HostPreference((stay[slot],))
        hosts.free[stay[slot]] -= 1
    loose = [slot for slot in hosts.slots if slot not in found]
    for slot, host in zip(loose, _shares(len(loose), hosts.free), strict=True):
        found[slot] = HostPreference((host,))
    return found


_Unit = tuple[int, ...]
"""Slots that must be on one host."""


class _Hosts:
    """Chooses hosts for slots, see `host_preferences`. `free`: the places of each host that no slot takes."""

    def __init__(
        self, plan: Plan, placement: Placement, capacities: HostCapacities, stay: Mapping[int, str]
    ) -> None:
        self.free = _places(capacities)
        self.slots = [slot for slot, hosted in enumerate(placement) if hosted]
        self._racks = {host: offer.rack for host, offer in capacities.items()}
        self._stay = stay
        shares = _shares(len(self.slots), _places(capacities, plan))
        self._at = dict(zip(self.slots, shares, strict=True)) | dict(stay)
        self._ties = Ties(plan, self._racks)
        home = {box: slot for slot in self.slots for box in placement[slot]}
        together = [(home[group[0]], home[box]) for group in self._ties.groups for box in group[1:]]
        self._bonds: dict[_Unit, list[_Bond]] = {}
        """What is said of the containers of each unit of which anything is."""
        for unit in components(self.slots, together):
            if bonds := self._ties.bonds(box for slot in unit for box in placement[slot]):
                self._bonds[tuple(unit)] = bonds

    def bound(self) -> Iterable[tuple[int, HostPreference]]:
        """The hosts of slots that localities and rules are about."""
        ties, bonds = self._ties, self._bonds
        barred = {
            unit: sum(ties.against(own, host) >= _STRICT for host in self.free) for unit, own in bonds.items()
        }
        units = sorted(bonds, key=lambda unit: (-barred[unit], -ties.enmity(bonds[unit]), -len(unit), unit))
        there = {unit: self._stay[unit[0]] for unit in units if unit[0] in self._stay}
        found = self._chosen(units, there)
        if found[0] and there:
            # Where units are may leave others no host, though none gains by a move of its own.
            found = min(found, self._chosen(units, {}), key=itemgetter(0))
        _, chosen = found
        for unit, host in chosen.items():
            self._put(unit, host)
        for unit, host in chosen.items():
            preference = HostPreference((host, *self._as_good(unit, host)), binding=True)
            yield from ((slot, preference) for slot in unit)

    def _chosen(self, units: Sequence[_Unit], there: Mapping[_Unit, str]) -> tuple[int, Mapping[_Unit, str]]:
        """The hosts of all units, some of which are `there` before, and how many break a strict rule."""
        chosen = dict(there)
        for unit, host in chosen.items():
            self._put(unit, host)
        for _ in range(_SWEEPS):
            before = dict(chosen)
            for unit in units:
                if unit in chosen:
                    self._put(unit, chosen[unit], -1)
                chosen[unit] = min(self.free, key=partial(self._cost, unit))
                self._put(unit, chosen[unit])
            if chosen == before:
                break
        broken = sum(self._ties.against(self._bonds[unit], host) >= _STRICT for unit, host in chosen.items())
        for unit, host in chosen.items():
            self._put(unit, host, -1)
        return broken, chosen

    def _cost(self, unit: _Unit, host: str) -> tuple[int, bool, int, bool, int, str]:
        """Rules and moves, then whether there is room, then whether it was to be there anyway."""
        free, racks, bonds = self.free, self._racks, self._bonds[unit]
        by_rack = any(bond.near and bond.by_rack for bond in bonds)
        room = sum(max(0, free[one]) for one in free if racks[one] == racks[host]) if by_rack else 0
        moved = sum(self._stay.get(slot, host) != host for slot in unit)
        against = self._ties.against(bonds, host) + _MOVED * moved
        return against, free[host] < len(unit), -room, self._at[unit[0]] != host, -free[host], host

    def _as_good(self, unit: _Unit, host: str) -> list[str]:
        """The hosts that would be as good; none if others count on this one."""
        ties, bonds = self._ties, self._bonds[unit]
        if len(unit) > 1 or any(bond.foes or (bond.near and not bond.by_rack) for bond in bonds):
            return []
        self._put(unit, host, -1)
        least = ties.against(bonds, host)
        found = [one for one in sorted(self.free) if one != host and ties.against(bonds, one) <= least]
        self._put(unit, host)
        return found

    def _put(self, unit: _Unit, host: str, by: int = 1) -> None:
        self._ties.put(self._bonds[unit], host, by)
        self.free[host] -= by * len(unit)


def hosts_of(
    placement: Placement, preferences: Mapping[int, HostPreference], capacities: HostCapacities
) -> Mapping[int, str]:
    """The hosts that slots would be on; the only one that there is, or unlike all others, if unknown."""
    only = next(iter(capacities), "") if len(capacities) < 2 else None  # noqa: PLR2004  one host has all
    found = {}
    for slot, hosted in enumerate(placement):
        if hosted:
            wanted = preferences[slot].hosts if slot in preferences else ()
            found[slot] = next(iter(wanted), f"slot {slot}" if only is None else only)
    return found


def broken_rules(
    plan: Plan, placement: Placement, preferences: Mapping[int, HostPreference], capacities: HostCapacities
) -> Sequence[PlacementRule]:
    """The affinity rules that this placement cannot keep. Without offers all slots are on one host."""
    return PlanRules(plan).broken(placement, hosts_of(placement, preferences, capacities), capacities)


def _divided(hosts: Iterable[str], sizes: Mapping[str, int]) -> Mapping[str, Collection[str]]:
    """Divide hosts among operators that must be apart, by their numbers of containers; one each at least."""
    found: dict[str, list[str]] = {name: [] for name in sizes}
    for host in hosts if len(sizes) > 1 else ():
        name = max(sizes, key=lambda one: (not found[one], sizes[one] / (len(found[one]) + 1)))
        found[name].append(host)
    return found


def _places(capacities: HostCapacities, plan: Plan | None = None) -> dict[str, int]:
    """The places of hosts. With rules of a plan a slot on each host comes first: they may be about any."""
    first = 0 if plan is None or not plan.logical.affinity else _MANY
    return {host: offer.places + first * (offer.places > 0) for host, offer in capacities.items()}


def _shares(slots: int, free: Mapping[str, int]) -> Sequence[str]:
    """A host for each of so many slots: the freest one takes the next; then in the order of hosts."""
    left, taken = [(-places, host) for host, places in free.items()], []
    heapq.heapify(left)
    for _ in range(slots):
        places, host = left[0]
        heapq.heapreplace(left, (places + (_MANY if places < -_MANY else 0) + 1, host))
        taken.append(host)
    return sorted(taken)
