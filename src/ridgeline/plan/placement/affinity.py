"""Affinity rules of a plan: what they tie together, and where they contradict each other or localities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ridgeline.api.attributes import Locality
from ridgeline.api.errors import Fault, listed
from ridgeline.plan.graphs import find_path, successors
from ridgeline.plan.placement.colocation import Edge, Groups, Join, Node, find_groups, one_to_one
from ridgeline.plan.placement_rule import PlacementRule, find_homeless


@dataclass(frozen=True, slots=True)
class _Tie:
    """Two operators whose partitions are together: each with its like, or all of them (`every`)."""

    first: int
    second: int
    label: str
    every: bool


def joins_of(rules: Sequence[PlacementRule], nodes: Sequence[Node]) -> list[Join]:
    """The pairs of operators that rules put into one container."""
    numbers = {node.name: number for number, node in enumerate(nodes)}
    return [
        Join(numbers[first], numbers[second], rule.name, rule.title)
        for rule in rules
        if not rule.apart and rule.locality.together
        for first, second in pairwise(dict.fromkeys(rule.operators))
    ]


def find_contradiction(
    nodes: Sequence[Node], edges: Sequence[Edge], rules: Sequence[PlacementRule]
) -> Fault | None:
    """The contradiction of the last rule with another one, or with the locality of a stream; None if none.

    The rules before it, and the streams, must not contradict each other. All numbers of partitions are known.
    """
    last = rules[-1]
    by_name = {node.name: node for node in nodes}
    counts = {name: by_name[name].partitions for name in last.operators}
    if not last.apart and last.locality.together:
        many = [name for name in last.spread if counts[name] != 1]
        if many:
            what = f"{last.title} wants the partitions of {listed(many)} in one container"
            return Fault(last.name, what, "give the operator one partition, or the rule NODE_LOCAL")
        if len(set(counts.values())) > 1:
            found = ", ".join(f"`{name}` has {count}" for name, count in counts.items())
            what = f"{last.title} wants partition with partition, but {found}"
            return Fault(last.name, what, "give them the same number of partitions, or the rule NODE_LOCAL")
    groups = find_groups(nodes, edges, joins_of(rules, nodes))
    if groups.faults:
        return Fault(last.name, groups.faults[0].what, "leave the rule out, or a locality; or `relax=True`")
    return next(_contradictions(nodes, edges, rules, groups), None)


def _contradictions(
    nodes: Sequence[Node], edges: Sequence[Edge], rules: Sequence[PlacementRule], groups: Groups
) -> Iterator[Fault]:
    """A fault for each rule that wants apart what is together, and for operators without a host."""
    numbers = {node.name: number for number, node in enumerate(nodes)}
    ties = {
        Locality.CONTAINER_LOCAL: _ties(nodes, edges, rules, groups, ()),
        Locality.NODE_LOCAL: _ties(nodes, edges, rules, groups, (Locality.NODE_LOCAL,)),
        Locality.RACK_LOCAL: _ties(nodes, edges, rules, groups, (Locality.NODE_LOCAL, Locality.RACK_LOCAL)),
    }
    homes = {locality: _components(nodes, some) for locality, some in ties.items()}
    for rule in rules:
        if not rule.apart:
            continue
        level = Locality.CONTAINER_LOCAL if rule.locality.together else rule.locality
        home = homes[level]
        for first, second in rule.pairs:
            one, other = numbers[first], numbers[second]
            if not set(home[one]).isdisjoint(home[other]):
                yield _contradiction(nodes, rules, rule, ties[level], (one, other))
        for name in rule.spread:
            number = numbers[name]
            if len(set(home[number])) < len(home[number]):
                yield _contradiction(nodes, rules, rule, ties[level], (number, number))
    if any(rule.hosts for rule in rules):
        by_name = {
            level: {node.name: homes[level][number] for number, node in enumerate(nodes)}
            for level in (Locality.NODE_LOCAL, Locality.RACK_LOCAL)
        }
        yield from find_homeless(rules, by_name)


def _ties(
    nodes: Sequence[Node],
    edges: Sequence[Edge],
    rules: Sequence[PlacementRule],
    groups: Groups,
    localities: Sequence[Locality],
) -> list[_Tie]:
    """The operators that are together in containers, or by these localities."""
    numbers = {node.name: number for number, node in enumerate(nodes)}
    found = []
    for group in groups.groups:
        inside = [edge for edge in edges if edge.together and {edge.source, edge.sink} <= set(group)]
        labels = [f"stream `{edge.stream}` ({edge.locality})" for edge in inside]
        labels += [join.title for join in joins_of(rules, nodes) if {join.first, join.second} <= set(group)]
        label = " and ".join(dict.fromkeys(labels))
        found += [_Tie(first, second, label, every=False) for first, second in pairwise(group)]
    for edge in edges:
        if edge.locality in localities:
            label = f"stream `{edge.stream}` ({edge.locality})"
            found.append(_Tie(edge.source, edge.sink, label, every=not one_to_one(nodes, edge)))
    for rule in rules:
        if rule.near and rule.locality in localities:
            members = [numbers[name] for name in rule.operators]
            found += [_Tie(first, second, rule.title, every=True) for first, second in pairwise(members)]
    return found


def _components(nodes: Sequence[Node], ties: Sequence[_Tie]) -> list[list[int]]:
    """For each operator and partition the number of the component that it is in."""
    starts, total = [], 0
    for node in nodes:
        starts.append(total)
        total += node.partitions or 1
    parents = list(range(total))

    def root(one: int) -> int:
        while parents[one] != one:
            parents[one] = parents[parents[one]]
            one = parents[one]
        return one

    for tie in ties:
        firsts = range(starts[tie.first], starts[tie.first] + (nodes[tie.first].partitions or 1))
        seconds = range(starts[tie.second], starts[tie.second] + (nodes[tie.second].partitions or 1))
        if tie.every:
            pairs = [(firsts[0], one) for one in (*firsts, *seconds)]
        else:
            pairs = list(zip(firsts, seconds, strict=False))
        for one, other in pairs:
            parents[root(one)] = root(other)
    return [
        [root(starts[number] + partition) for partition in range(node.partitions or 1)]
        for number, node in enumerate(nodes)
    ]


def _contradiction(
    nodes: Sequence[Node],
    rules: Sequence[PlacementRule],
    rule: PlacementRule,
    ties: Sequence[_Tie],
    ends: tuple[int, int],
) -> Fault:
    """The fault of a rule for operators that are tied together, with what ties them."""
    both = [(tie.first, tie.second) for tie in ties] + [(tie.second, tie.first) for tie in ties]
    way = find_path(*ends, successors(len(nodes), both))
    labels = [tie.label for step in pairwise(way) for tie in ties if {tie.first, tie.second} == set(step)]
    names = listed(list(dict.fromkeys(nodes[end].name for end in ends)))
    where = rule.name if rules[-1] is rule else rules[-1].name
    what = f"{rule.title} wants {names} apart, but {' and '.join(dict.fromkeys(labels))} "
    return Fault(where, f"{what}puts them together", "leave one of them out, or give a rule `relax=True`")
