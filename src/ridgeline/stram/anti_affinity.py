"""Which containers affinity rules want on different hosts or racks, and which rules a placement breaks.

No Spark, no clock, no threads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations, product

from ridgeline.api.attributes import Locality
from ridgeline.plan.execution import Plan
from ridgeline.plan.placement_rule import PlacementRule

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


def containers_apart(plan: Plan, localities: Collection[Locality], rules: Iterable[PlacementRule]) -> Pairs:
    """The containers that those of the rules want apart that have these localities."""
    chosen = [rule for rule in rules if rule.locality in localities]
    return frozenset(pair for rule in chosen for pair in apart_by(plan, rule))


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


def allowed_hosts(
    plan: Plan, racks: Mapping[str, str], rules: Iterable[PlacementRule]
) -> Mapping[int, frozenset[str]]:
    """The hosts where each container may run that rules of hosts name. `racks`: of all hosts."""
    homes, found = containers_of(plan), dict[int, frozenset[str]]()
    for rule in rules:
        if rule.hosts:
            allowed = frozenset(host for host, rack in racks.items() if rule.allows(host, rack))
            for container in (one for name in rule.operators for one in homes[name]):
                found[container] = found.get(container, allowed) & allowed
    return found


def broken(plan: Plan, where: Mapping[int, str], racks: Mapping[str, str]) -> Sequence[PlacementRule]:
    """The rules that are not kept where containers are on these hosts. `racks`: of the hosts.

    Containers that are in no place are left out.
    """
    homes, found = containers_of(plan), []
    for rule in plan.logical.affinity:
        of_racks = rule.locality is Locality.RACK_LOCAL
        places = {
            name: [
                racks.get(where[box], "") if of_racks else where[box] for box in homes[name] if box in where
            ]
            for name in rule.operators
        }
        if rule.hosts:
            hosts = [where[box] for name in rule.operators for box in homes[name] if box in where]
            kept = all(rule.allows(host, racks.get(host, "")) for host in hosts)
        elif rule.near:
            kept = len({place for some in places.values() for place in some}) <= 1
        elif rule.apart and not rule.locality.together:
            spread = all(len(set(places[name])) == len(places[name]) for name in rule.spread)
            kept = spread and all(set(places[one]).isdisjoint(places[two]) for one, two in rule.pairs)
        else:
            kept = True
        if not kept:
            found.append(rule)
    return found
