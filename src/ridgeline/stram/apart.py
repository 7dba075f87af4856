"""Which containers affinity rules want on different hosts or racks, and which rules a placement breaks.

No Spark, no clock, no threads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations, product

from ridgeline.api.attributes import Locality
from ridgeline.plan.affinity import PlacementRule
from ridgeline.plan.execution import Plan

Pairs = frozenset[tuple[int, int]]
"""Pairs of containers, or of what holds them, the lower number first."""


def containers_of(plan: Plan) -> Mapping[str, Sequence[int]]:
    """The containers of each operator's partitions, in the order of partitions."""
    home = {operator: box.id for box in plan.execution.containers for operator in box.operators}
    found: dict[str, list[int]] = {}
    for operator in plan.physical.operators:
        if not operator.unifier:
            found.setdefault(operator.name, []).append(home[operator.id])
    return found


def apart_by(plan: Plan, rule: PlacementRule) -> Pairs:
    """The containers that one rule wants on different hosts or racks."""
    if not rule.apart or rule.locality.together:
        return frozenset()
    homes = containers_of(plan)
    pairs = {pair for one, other in rule.pairs for pair in product(homes[one], homes[other])}
    pairs |= {pair for name in rule.spread for pair in combinations(homes[name], 2)}
    return frozenset((min(pair), max(pair)) for pair in pairs)


def containers_apart(plan: Plan, localities: Collection[Locality], *, relaxed: bool = True) -> Pairs:
    """The containers that rules of these localities want apart; with relaxed rules, or strict ones only."""
    kept = [rule for rule in plan.logical.affinity if relaxed or not rule.relax]
    rules = [rule for rule in kept if rule.locality in localities]
    return frozenset(pair for rule in rules for pair in apart_by(plan, rule))


def lifted(pairs: Pairs, groups: Sequence[Sequence[int]]) -> Pairs:
    """Pairs of members as pairs of their groups, by number; without those within one group."""
    home = {member: number for number, group in enumerate(groups) for member in group}
    found = {(home[one], home[other]) for one, other in pairs if home[one] != home[other]}
    return frozenset((min(pair), max(pair)) for pair in found)


def colours(count: int, pairs: Pairs) -> Sequence[int]:
    """A colour for each of so many nodes, from 0, so that no pair has one colour; those in no pair have 0."""
    beside: list[set[int]] = [set() for _ in range(count)]
    for one, other in pairs:
        beside[one].add(other)
        beside[other].add(one)
    found: dict[int, int] = {}
    for node in sorted(range(count), key=lambda node: (-len(beside[node]), node)):
        taken = {found[other] for other in beside[node] if other in found}
        found[node] = next(colour for colour in range(count) if colour not in taken)
    return [found[node] for node in range(count)]


def broken(plan: Plan, where: Mapping[int, str], racks: Mapping[str, str]) -> Sequence[PlacementRule]:
    """The rules that are not kept where containers are on these hosts. `racks`: of the hosts."""
    found = []
    for rule in plan.logical.affinity:
        of_racks = rule.locality is Locality.RACK_LOCAL
        place = {box: racks.get(host, "") if of_racks else host for box, host in where.items()}
        if any(place[one] == place[other] for one, other in apart_by(plan, rule)):
            found.append(rule)
    return found


def hosts_for(
    sizes: Sequence[int],
    free: Mapping[str, int],
    racks: Mapping[str, str],
    by_rack: Iterable[tuple[int, int]],
) -> Sequence[str]:
    """A host for each colour: each another one where there are enough, the largest on the freest host.

    `sizes`: how many slots of each colour; `by_rack`: pairs of colours that must be on different racks.
    """
    foes = {pair for one, other in by_rack for pair in ((one, other), (other, one))}
    chosen: dict[int, str] = {}
    for colour in sorted(range(len(sizes)), key=lambda colour: (-sizes[colour], colour)):
        barred = {racks[host] for other, host in chosen.items() if (colour, other) in foes}
        fresh = [host for host in free if host not in chosen.values()]
        fitting = [host for host in fresh if racks[host] not in barred] or fresh or list(free)
        chosen[colour] = min(fitting, key=lambda host: (-free[host], host))
    return [chosen[colour] for colour in range(len(sizes))]
