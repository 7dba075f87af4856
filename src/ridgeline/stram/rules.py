"""What localities and affinity rules of a plan say: who shares a host, and what is broken.

No Spark, no clock, no threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ridgeline.api.attributes import Locality
from ridgeline.api.errors import listed
from ridgeline.plan.execution import Plan
from ridgeline.plan.graphs import Sets
from ridgeline.plan.placement_rule import PlacementRule

ONE_HOST = frozenset({Locality.NODE_LOCAL})
ONE_RACK = frozenset({Locality.NODE_LOCAL, Locality.RACK_LOCAL})


def containers_of(plan: Plan) -> Mapping[str, Sequence[int]]:
    """The containers of each operator's partitions, in the order of partitions."""
    home, found = plan.execution.homes, dict[str, list[int]]()
    for operator in plan.physical.operators:
        if not operator.unifier:
            found.setdefault(operator.name, []).append(home[operator.id])
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


def containers_on_one(
    localities: frozenset[Locality], plan: Plan, rules: Iterable[PlacementRule] | None = None
) -> list[list[int]]:
    """Groups of containers that streams of these localities, and rules, join; most are of one container."""
    wanted = {
        (stream.name, sink.operator)
        for stream in plan.logical.streams
        for sink, given in stream.sinks.items()
        if given.locality in localities
    }
    home = plan.execution.homes
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
    return components([container.id for container in plan.execution.containers], edges)


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


def components(nodes: Iterable[int], edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The connected components of nodes, each sorted, by their lowest node."""
    ordered = sorted(nodes)
    sets = Sets(ordered)
    for edge in edges:
        sets.join(*edge)
    found: dict[int, list[int]] = {}
    for node in ordered:
        found.setdefault(sets.of(node), []).append(node)
    return list(found.values())


def describe_given_up(rule: PlacementRule, hosts: Sequence[str], slots: int) -> str:
    """The text on a rule that cannot be kept with slots on these hosts; none: on one machine."""
    noun = "host" if len(hosts) == 1 else "hosts"
    where = f"on {noun} {listed(list(hosts))}" if hosts else "on one machine"
    number = "is 1 slot" if slots == 1 else f"are {slots} slots"
    found = f"affinity rule {rule.title} {{}}; there {number} {where}"
    if rule.relax:
        return found.format("is not kept")
    remedy = "give Spark more hosts or cores, or the rule `relax=True`"
    return f"{found.format('cannot be kept' if hosts else 'is not kept')}; {remedy}"
