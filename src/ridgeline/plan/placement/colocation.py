"""Operators that must share a container or host: by the locality of a stream, or by an affinity rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
    """A stream to one sink; `port` is the sink's. `way`: how tuples are divided (for errors)."""

    stream: str
    source: str
    sink: str
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

    @property
    def title(self) -> str:
        """The stream as errors name what puts operators together."""
        return f"stream `{self.stream}` ({self.locality})"

    def is_inside(self, names: Collection[str]) -> bool:
        """True if both ends are among these operators."""
        return self.source in names and self.sink in names


@dataclass(frozen=True, slots=True)
class Layout:
    """Which operators share containers: groups of them, in topological order."""

    nodes: Mapping[str, Node]
    edges: Sequence[Edge]
    groups: Sequence[Sequence[str]]

    def one_to_one(self, edge: Edge) -> bool:
        """True if each partition of the sink gets its tuples on this edge from one of the source."""
        counts = {self.nodes[edge.source].partitions, self.nodes[edge.sink].partitions}
        return len(counts) == 1 and (edge.parallel or counts == {1})

    def is_known(self, edge: Edge) -> bool:
        """True unless a fault hides a number of partitions: it is reported instead."""
        return None not in (self.nodes[edge.source].partitions, self.nodes[edge.sink].partitions)


def laid_out(
    nodes: Mapping[str, Node], edges: Sequence[Edge], rules: Sequence[PlacementRule] = ()
) -> tuple[Layout, list[Fault]]:
    """Group operators along streams with a locality, and by rules; those between two of a group belong to it.

    The graph must have no cycle. Also returns the faults of impossible groups.
    """
    layout, faults, demanded = Layout(nodes, edges, ()), list[Fault](), Sets(nodes)
    for edge in filter(lambda one: one.together, edges):
        if layout.one_to_one(edge):
            demanded.join(edge.sink, edge.source)
        elif layout.is_known(edge):
            faults.append(_not_one_to_one(nodes, edge))
    for first, second in (pair for rule in rules for pair in rule.joined):
        demanded.join(second, first)
    group = {name: demanded.of(name) for name in nodes}
    sizes = Counter(group.values())
    between = [(group[one.source], group[one.sink]) for one in edges]
    between = [pair for pair in between if pair[0] != pair[1]]
    # those on streams from a group back to itself belong to it
    components = strong_components([name for name in nodes if name in sizes], between)
    number = {name: index for index, component in enumerate(components) for name in component}
    members: list[list[str]] = [[] for _ in components]
    for name in nodes:
        members[number[group[name]]].append(name)
    for component in members:
        if len(component) > 1:
            wanted = [name for name in component if sizes[group[name]] > 1]
            fault = _conflict(layout, rules, component, wanted)
            faults += [] if fault is None else [fault]
    left = [(number[one], number[other]) for one, other in between]
    order = topological_order(range(len(members)), [pair for pair in left if pair[0] != pair[1]])
    return Layout(nodes, edges, tuple(tuple(members[index]) for index in order)), faults


def _not_one_to_one(nodes: Mapping[str, Node], edge: Edge) -> Fault:
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
    layout: Layout, rules: Sequence[PlacementRule], members: Sequence[str], wanted: Sequence[str]
) -> Fault | None:
    """Why a group cannot be one container; None if it can.

    `wanted`: the operators that a locality or a rule names; the others are between them.
    """
    why = _conflict_inside(layout, [edge for edge in layout.edges if edge.is_inside(members)])
    if why == "":
        why = _conflict_of_inputs(layout, members)
    if not why:
        return None
    named = [edge for edge in layout.edges if edge.together and edge.is_inside(wanted)]
    joining = [rule for rule in rules if any(first in wanted for first, _ in rule.joined)]
    causes = [f"locality {named[0].locality}"] if named else []
    causes += [f"rule {rule.title}" for rule in joining]
    streams = list(dict.fromkeys(edge.stream for edge in named))
    of = "one of the streams" if len(streams) > 1 else "stream"
    return Fault(
        named[0].stream if named else joining[0].name,
        f"{' and '.join(causes)} wants {listed(wanted)} in one container, but {why}",
        f"leave the locality of {of} {listed(streams)} out",
    )


def _conflict_inside(layout: Layout, inside: Sequence[Edge]) -> str | None:
    """Which stream within a group keeps it from being one container; "" for none, None if it is not known."""
    for edge in inside:
        if edge.apart:
            return f"stream `{edge.stream}` between them is {edge.locality}"
        if not layout.one_to_one(edge) and not edge.together:
            if not layout.is_known(edge):
                return None
            return f"it would wait for itself: `{_detour(layout, inside, edge)}` leaves it and comes back"
    return ""


def _conflict_of_inputs(layout: Layout, members: Sequence[str]) -> str:
    """Which input operators keep a group from being one container; "" for none."""
    roots = [name for name in members if layout.nodes[name].is_input]
    if len(roots) > 1:
        return f"a container holds one input operator, not {listed(roots)}"
    entering = [edge for edge in layout.edges if edge.sink in members and edge.source not in members]
    if roots and entering:
        first = entering[0]
        return (
            "a container with an input operator cannot wait for others, "
            f"and `{first.sink}.{first.port}` gets tuples of `{first.source}`"
        )
    return ""


def _detour(layout: Layout, inside: Sequence[Edge], broken: Edge) -> str:
    """The path through the group over an edge that cannot be within one container."""
    following = successors(layout.nodes, [(edge.source, edge.sink) for edge in inside])
    ends = {edge.source: edge.sink for edge in inside if edge.together}
    way = [broken.source, broken.sink]
    for start, goal in ends.items():
        before = [start] if start == broken.source else find_path(start, broken.source, following)
        after = [goal] if goal == broken.sink else find_path(broken.sink, goal, following)
        if before and after:
            way = before + after
            break
    return " -> ".join(way)


def with_rules(layout: Layout, rules: Sequence[PlacementRule]) -> tuple[Layout, Fault | None]:
    """A layout with these rules, and the contradiction of the last one with another or with a locality.

    The rules before it, and the streams, must not contradict each other. All numbers of partitions are known.
    """
    last, nodes = rules[-1], layout.nodes
    counts = {name: nodes[name].partitions for name in last.operators}
    if not last.apart and last.locality.together:
        many = [name for name in last.spread if counts[name] != 1]
        if many:
            what = f"{last.title} wants the partitions of {listed(many)} in one container"
            return layout, Fault(last.name, what, "give the operator one partition, or the rule NODE_LOCAL")
        if len(set(counts.values())) > 1:
            found = ", ".join(f"`{name}` has {count}" for name, count in counts.items())
            what = f"{last.title} wants partition with partition, but {found}"
            remedy = "give them the same number of partitions, or the rule NODE_LOCAL"
            return layout, Fault(last.name, what, remedy)
    layout, faults = laid_out(nodes, layout.edges, rules)
    if faults:
        remedy = "leave the rule out, or a locality; or `relax=True`"
        return layout, Fault(last.name, faults[0].what, remedy)
    return layout, next(_contradictions(layout, rules), None)


@dataclass(frozen=True, slots=True)
class _Tie:
    """Two operators whose partitions are together: each with its like, or all of them (`every`)."""

    first: str
    second: str
    label: str
    every: bool


def _contradictions(layout: Layout, rules: Sequence[PlacementRule]) -> Iterator[Fault]:
    """A fault for each rule that wants apart what is together, and for operators without a host."""
    host, rack = Locality.NODE_LOCAL, Locality.RACK_LOCAL
    levels = {Locality.CONTAINER_LOCAL: [], host: [host], rack: [host, rack]}
    ties = {level: _ties(layout, rules, within) for level, within in levels.items()}
    homes = {level: _homes(layout, some) for level, some in ties.items()}
    for rule in filter(lambda one: one.apart, rules):
        level = Locality.CONTAINER_LOCAL if rule.locality.together else rule.locality
        home = homes[level]
        for first, second in (*rule.pairs, *((name, name) for name in rule.spread)):
            shared = set(home[first]) & set(home[second])
            if len(set(home[first])) < len(home[first]) if first == second else shared:
                yield _contradiction(layout, rules, rule, ties[level], (first, second))
    if any(rule.hosts for rule in rules):
        yield from find_homeless(rules, {level: homes[level] for level in (host, rack)})


def _ties(layout: Layout, rules: Sequence[PlacementRule], within: Collection[Locality]) -> list[_Tie]:
    """The operators that are together in containers, or by these localities."""
    found = []
    for group in layout.groups:
        labels = [edge.title for edge in layout.edges if edge.together and edge.is_inside(group)]
        labels += [rule.title for rule in rules if any({*pair} <= {*group} for pair in rule.joined)]
        label = " and ".join(dict.fromkeys(labels))
        found += [_Tie(first, second, label, every=False) for first, second in pairwise(group)]
    for edge in layout.edges:
        if edge.locality in within:
            found.append(_Tie(edge.source, edge.sink, edge.title, every=not layout.one_to_one(edge)))
    for rule in rules:
        if rule.near and rule.locality in within:
            found += [_Tie(*pair, rule.title, every=True) for pair in pairwise(rule.operators)]
    return found


def _homes(layout: Layout, ties: Iterable[_Tie]) -> dict[str, list[int]]:
    """For each operator and partition the number of what shares a place with it."""
    parts = {
        name: [(name, part) for part in range(one.partitions or 1)] for name, one in layout.nodes.items()
    }
    every = [part for own in parts.values() for part in own]
    sets, number = Sets(every), {part: place for place, part in enumerate(every)}
    for tie in ties:
        firsts, seconds = parts[tie.first], parts[tie.second]
        pairs = zip(firsts, seconds, strict=False)
        for one, other in ((firsts[0], one) for one in firsts + seconds) if tie.every else pairs:
            sets.join(one, other)
    return {name: [number[sets.of(part)] for part in own] for name, own in parts.items()}


def _contradiction(
    layout: Layout,
    rules: Sequence[PlacementRule],
    rule: PlacementRule,
    ties: Sequence[_Tie],
    ends: tuple[str, str],
) -> Fault:
    """The fault of a rule for operators that are tied together, with what ties them."""
    both = [(tie.first, tie.second) for tie in ties] + [(tie.second, tie.first) for tie in ties]
    way = find_path(*ends, successors(layout.nodes, both))
    labels = [tie.label for step in pairwise(way) for tie in ties if {tie.first, tie.second} == set(step)]
    what = f"{rule.title} wants {listed(list(dict.fromkeys(ends)))} apart, but "
    what += f"{' and '.join(dict.fromkeys(labels))} puts them together"
    return Fault(rules[-1].name, what, "leave one of them out, or give a rule `relax=True`")
