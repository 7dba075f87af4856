"""STRAM's decisions before slots start: how many, which containers live in which, and on which hosts.

No Spark, no sockets, no clock, no threads.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ridgeline.api.attributes import Locality
from ridgeline.api.errors import RidgelineError
from ridgeline.plan.execution import Plan

RESERVED_CORES = 1
"""Cores that slots leave at least to Spark's own jobs: what publishers write, checks at the start."""

Placement = tuple[tuple[int, ...], ...]
"""The containers of each slot, by slot number."""

_ONE_HOST = frozenset({Locality.NODE_LOCAL})
_ONE_RACK = frozenset({Locality.NODE_LOCAL, Locality.RACK_LOCAL})


@dataclass(frozen=True, slots=True)
class Offer:
    """What a host has: so many places for slots, and its rack ("" if unknown: all such are one rack)."""

    places: int
    rack: str = ""


Offers = Mapping[str, Offer]
"""What the hosts have, by name; none where there is nothing to choose."""


@dataclass(frozen=True, slots=True)
class Wish:
    """The hosts where a slot should run; none: anywhere. `binding`: a stream's locality asks for it."""

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
        what = f"slots need {needed} cores (one for a slot, {RESERVED_CORES} for Spark's own jobs{taken})"
        remedy = "give Spark more cores, or run with `--execution jobs`"
        msg = f"{what}; Spark has {cores}; {remedy}"
        raise RidgelineError(msg)
    return slots


def place(plan: Plan, slots: int) -> Placement:
    """Which containers live in which slot: an even number each.

    Containers at the same position of successive stages are neighbours. So a hop between partitions of one
    number stays within a slot where that is possible. Containers that must be on one host come one after the
    other, and slots begin between such groups where that leaves none empty.
    """
    positions = {
        container.id: ((index + 0.5) / len(stage.containers), stage.index, container.id)
        for stage in plan.execution.stages
        for index, container in enumerate(stage.containers)
    }
    groups = [sorted(group, key=positions.__getitem__) for group in _containers_on_one(_ONE_HOST, plan)]
    groups.sort(key=lambda group: positions[group[0]])
    containers = [container for group in groups for container in group]
    starts = [0]
    for group in groups:
        starts.append(starts[-1] + len(group))
    bounds = [0]
    for slot in range(1, slots):
        even = len(containers) * slot // slots
        after = bisect.bisect_left(starts, even)
        near = min(starts[max(0, after - 1) : after + 1], key=lambda start: abs(start - even))
        fits = bounds[-1] < near <= len(containers) - (slots - slot)
        bounds.append(near if fits else max(even, bounds[-1] + 1))
    bounds.append(len(containers))
    return tuple(tuple(sorted(containers[bounds[slot] : bounds[slot + 1]])) for slot in range(slots))


def wishes(plan: Plan, placement: Placement, offers: Offers) -> Mapping[int, Wish]:
    """On which host each slot should run.

    Slots whose containers a NODE_LOCAL stream joins get one host, those of a RACK_LOCAL stream one rack. All
    others are spread evenly; slots that follow each other share a host where that is possible.
    """
    if len(offers) < 2:  # noqa: PLR2004  there is nothing to choose
        return {}
    slots = [slot for slot, hosted in enumerate(placement) if hosted]
    hosts = _slots_on_one(_ONE_HOST, plan, placement)
    free = {host: offer.places for host, offer in offers.items()}
    found: dict[int, Wish] = {}
    for rack_group in sorted(
        _slots_on_one(_ONE_RACK, plan, placement), key=lambda group: (-len(group), group)
    ):
        if len(rack_group) == 1:
            continue
        near = _rack(offers, free)
        units = [group for group in hosts if group[0] in rack_group]
        for unit in sorted(units, key=lambda group: (-len(group), group)):
            one_host = len(rack_group) == len(unit)  # no stream asks for a rack: every host will do
            host = _freest(free if one_host else near, free)
            free[host] -= len(unit)
            allowed = (host,) if len(unit) > 1 else tuple(sorted(near, key=lambda name: name != host))
            found.update(dict.fromkeys(unit, Wish(allowed, binding=True)))
    others = [slot for slot in slots if slot not in found]
    for slot, host in zip(others, _shares(len(others), free), strict=True):
        found[slot] = Wish((host,))
    return found


def _rack(offers: Offers, free: Mapping[str, int]) -> Sequence[str]:
    """The hosts of the rack that has the most places left."""
    racks: dict[str, list[str]] = {}
    for host in sorted(offers):
        racks.setdefault(offers[host].rack, []).append(host)
    return max(racks.values(), key=lambda hosts: sum(free[host] for host in hosts))


def _freest(hosts: Iterable[str], free: Mapping[str, int]) -> str:
    return min(hosts, key=lambda host: (-free[host], host))


def _shares(slots: int, free: Mapping[str, int]) -> Sequence[str]:
    """A host for each of so many slots: the freest one takes the next; then in the order of hosts."""
    left, taken = dict(free), []
    for _ in range(slots):
        host = _freest(left, left)
        left[host] -= 1
        taken.append(host)
    return sorted(taken)


def _containers_on_one(localities: frozenset[Locality], plan: Plan) -> list[list[int]]:
    """Groups of containers that streams of these localities join; most are of one container."""
    names = {stream.name for stream in plan.logical.streams if stream.locality in localities}
    containers = plan.execution.containers
    home = {operator: container.id for container in containers for operator in container.operators}
    edges = [
        (home[stream.source], home[stream.sink]) for stream in plan.physical.streams if stream.name in names
    ]
    return _components(len(containers), edges)


def _slots_on_one(localities: frozenset[Locality], plan: Plan, placement: Placement) -> list[list[int]]:
    """Groups of slots that must be near each other, since their containers must; most are of one slot."""
    home = {container: slot for slot, hosted in enumerate(placement) for container in hosted}
    edges = [
        (home[group[0]], home[container])
        for group in _containers_on_one(localities, plan)
        for container in group[1:]
    ]
    return _components(len(placement), edges)


def _components(count: int, edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The connected components of so many nodes, each sorted, by their lowest node."""
    parents = list(range(count))

    def root(node: int) -> int:
        while parents[node] != node:
            parents[node] = parents[parents[node]]
            node = parents[node]
        return node

    for first, second in edges:
        low, high = sorted((root(first), root(second)))
        parents[high] = low
    found: dict[int, list[int]] = {}
    for node in range(count):
        found.setdefault(root(node), []).append(node)
    return list(found.values())
