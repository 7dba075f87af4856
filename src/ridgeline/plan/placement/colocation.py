"""Operators that must share a container or host: by the locality of a stream, or by an affinity rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ridgeline.api.attributes import Locality
from ridgeline.api.errors import Fault, listed
from ridgeline.measure.wording.units import plural
from ridgeline.plan.graphs import Sets, find_path, strong_components, successors, topological_order
from ridgeline.plan.placement_rule import PlacementRule, find_homeless


@dataclass(frozen=True, slots=True)
class Node:
    """A logical operator; `partitions` is None while a fault hides the number."""

    name: str
    is_input: bool
    partitions: int | None


@dataclass(frozen=True, slots=True)
class Edge:
    """A stream to one sink, by the numbers of its operators; `port` is the sink's.

    `way`: how tuples are divided (for errors).
    """

    stream: str
    source: int
    sink: int
    port: str
    parallel: bool
    locality: Locality | None
    way: str = ""

    @property
    def together(self) -> bool:
        """True if both ends must be in one container."""
        return self.locality is not None and self.locality.together

    @property
    def apart(self) -> bool:
        """True if the ends must be in separate containers."""
        return self.locality is not None and not self.locality.together


@dataclass(frozen=True, slots=True)
class Join:
    """Two operators, by number, that an affinity rule puts into one container. `title`: the rule in full."""

    first: int
    second: int
    rule: str
    title: str


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of operators that share containers, in topological order; the faults of impossible groups."""

    groups: tuple[tuple[int, ...], ...]
    faults: tuple[Fault, ...]


def one_to_one(nodes: Sequence[Node], edge: Edge) -> bool:
    """True if each partition of the sink gets its tuples on this edge from one partition of the source."""
    counts = {nodes[edge.source].partitions, nodes[edge.sink].partitions}
    return len(counts) == 1 and (edge.parallel or counts == {1})


def find_groups(nodes: Sequence[Node], edges: Sequence[Edge], joins: Sequence[Join] = ()) -> Groups:
    """Group operators along streams with a locality, and by rules; those between two of a group belong to it.

    The graph must have no cycle.
    """
    group, faults = _demanded(nodes, edges, joins)
    members = _closed(group, edges)
    for component in members:
        if len(component) > 1:
            wanted = {node for node in component if group.count(group[node]) > 1}
            fault = _conflict(nodes, edges, joins, set(component), wanted)
            if fault is not None:
                faults.append(fault)
    home = {node: index for index, component in enumerate(members) for node in component}
    between = [(home[edge.source], home[edge.sink]) for edge in edges if home[edge.source] != home[edge.sink]]
    order = topological_order(len(members), between)
    return Groups(tuple(tuple(members[index]) for index in order), tuple(faults))


def _demanded(
    nodes: Sequence[Node], edges: Sequence[Edge], joins: Sequence[Join]
) -> tuple[list[int], list[Fault]]:
    """For each operator the group that a locality or a rule puts it into; localities that cannot be kept."""
    group = Sets(range(len(nodes)))
    faults = []
    for edge in filter(lambda one: one.together, edges):
        if one_to_one(nodes, edge):
            group.join(edge.sink, edge.source)
        elif None not in (nodes[edge.source].partitions, nodes[edge.sink].partitions):
            faults.append(_not_one_to_one(nodes, edge))
    for join in joins:
        group.join(join.second, join.first)
    return [group.of(number) for number in range(len(nodes))], faults


def _closed(group: list[int], edges: Sequence[Edge]) -> list[list[int]]:
    """The operators of each group, with those on streams from a group back to itself."""
    contracted = [
        (group[edge.source], group[edge.sink]) for edge in edges if group[edge.source] != group[edge.sink]
    ]
    components = strong_components(len(group), contracted)
    number = {member: index for index, component in enumerate(components) for member in component}
    members: list[list[int]] = [[] for _ in components]
    for node, own in enumerate(group):
        members[number[own]].append(node)
    return [component for component in members if component]


def _not_one_to_one(nodes: Sequence[Node], edge: Edge) -> Fault:
    """The fault of a locality between partitions that are not one to one, with its reason."""
    source, sink = nodes[edge.source], nodes[edge.sink]
    what = f"locality {edge.locality} wants `{source.name}` and `{sink.name}` in one container, but "
    if source.partitions == sink.partitions:
        what += f"each of their {sink.partitions} partitions gets tuples of all others: port "
        what += f"`{sink.name}.{edge.port}` is {edge.way}"
    else:
        has = [f"`{one.name}` has {plural(one.partitions or 0, 'partition')}" for one in (source, sink)]
        what += " and ".join(has)
    remedy = f"make `{edge.port}` an `InputPort(..., parallel=True)`, give both one partition, "
    return Fault(edge.stream, what, f"{remedy}or leave the locality out")


def _conflict(
    nodes: Sequence[Node], edges: Sequence[Edge], joins: Sequence[Join], members: set[int], wanted: set[int]
) -> Fault | None:
    """Why a group cannot be one container; None if it can.

    `wanted`: the operators that a locality or a rule names; the others are between them.
    """
    inside = [edge for edge in edges if edge.source in members and edge.sink in members]
    entering = [edge for edge in edges if edge.sink in members and edge.source not in members]
    why = _conflict_inside(nodes, inside)
    if why == "":
        why = _conflict_of_inputs(nodes, members, entering)
    if not why:
        return None
    named = [edge for edge in edges if edge.together and edge.source in wanted and edge.sink in wanted]
    rules = [join for join in joins if join.first in wanted]
    causes = [f"locality {named[0].locality}"] if named else []
    causes += dict.fromkeys(f"rule {join.title}" for join in rules)
    together = listed([nodes[node].name for node in sorted(wanted)])
    streams = list(dict.fromkeys(edge.stream for edge in named))
    of = "one of the streams" if len(streams) > 1 else "stream"
    return Fault(
        named[0].stream if named else rules[0].rule,
        f"{' and '.join(causes)} wants {together} in one container, but {why}",
        f"leave the locality of {of} {listed(streams)} out",
    )


def _conflict_inside(nodes: Sequence[Node], inside: Sequence[Edge]) -> str | None:
    """Which stream within a group keeps it from being one container; "" for none, None if it is not known."""
    for edge in inside:
        if edge.apart:
            return f"stream `{edge.stream}` between them is {edge.locality}"
        if not one_to_one(nodes, edge) and not edge.together:
            if None in (nodes[edge.source].partitions, nodes[edge.sink].partitions):
                return None  # a fault hides a number of partitions: it is reported instead
            return f"it would wait for itself: `{_detour(nodes, inside, edge)}` leaves it and comes back"
    return ""


def _conflict_of_inputs(nodes: Sequence[Node], members: set[int], entering: Sequence[Edge]) -> str:
    """Which input operators keep a group from being one container; "" for none."""
    roots = [nodes[node].name for node in sorted(members) if nodes[node].is_input]
    if len(roots) > 1:
        return f"a container holds one input operator, not {listed(roots)}"
    if roots and entering:
        first = entering[0]
        port = f"{nodes[first.sink].name}.{first.port}"
        return (
            "a container with an input operator cannot wait for others, "
            f"and `{port}` gets tuples of `{nodes[first.source].name}`"
        )
    return ""


def _detour(nodes: Sequence[Node], inside: Sequence[Edge], broken: Edge) -> str:
    """The path through the group over an edge that cannot be within one container."""
    following = successors(len(nodes), [(edge.source, edge.sink) for edge in inside])
    ends = {edge.source: edge.sink for edge in inside if edge.together}
    way = [broken.source, broken.sink]
    for start, goal in ends.items():
        before = [start] if start == broken.source else find_path(start, broken.source, following)
        after = [goal] if goal == broken.sink else find_path(broken.sink, goal, following)
        if before and after:
            way = before + after
            break
    return " -> ".join(nodes[node].name for node in way)


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
    sets = Sets(range(total))
    for tie in ties:
        firsts = range(starts[tie.first], starts[tie.first] + (nodes[tie.first].partitions or 1))
        seconds = range(starts[tie.second], starts[tie.second] + (nodes[tie.second].partitions or 1))
        if tie.every:
            pairs = [(firsts[0], one) for one in (*firsts, *seconds)]
        else:
            pairs = list(zip(firsts, seconds, strict=False))
        for one, other in pairs:
            sets.join(one, other)
    return [
        [sets.of(starts[number] + partition) for partition in range(node.partitions or 1)]
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
