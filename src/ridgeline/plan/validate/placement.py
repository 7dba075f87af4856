"""Operators that must share a container or host: by the locality of a stream, or by an affinity rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from ridgeline.api.attributes import Locality
from ridgeline.api.errors import Fault, Faults, listed
from ridgeline.measure.wording.units import plural
from ridgeline.plan.draft import Draft
from ridgeline.plan.graphs import Sets, strong_components, topological_order
from ridgeline.plan.logical import Edge, LogicalOperator
from ridgeline.plan.placement_rule import PlacementRule, find_homeless

Groups = Sequence[Sequence[str]]
"""The operators that share containers, in topological order."""
_WITHIN: Mapping[Locality, Collection[Locality]] = {
    Locality.CONTAINER_LOCAL: (),
    Locality.NODE_LOCAL: (Locality.NODE_LOCAL,),
    Locality.RACK_LOCAL: (Locality.NODE_LOCAL, Locality.RACK_LOCAL),
}
"""By what operators may be apart: the localities that put them together there, beside a container."""


def settle_placement(draft: Draft, faults: Faults) -> None:
    """Decide which affinity rules hold; faults where operators cannot share a container as they must.

    Does nothing while there is a cycle.
    """
    if len(topological_order(draft.owners, draft.pairs())) < len(draft.owners):
        return
    colocation = _Colocation(draft)
    groups, found = colocation.grouped(())
    faults.extend(found)
    if found or any(one.partitions is None for one in draft.operators):
        return
    kept: list[PlacementRule] = []
    for rule in sorted(draft.affinity, key=lambda rule: rule.relax and not rule.declared):
        wanted, fault = colocation.with_rules([*kept, rule])
        if fault is None:
            kept.append(rule)
            groups = wanted
        elif rule.relax and not rule.declared:
            draft.given_up.append((rule, fault.what))
        else:
            faults.append(fault)
    draft.affinity, draft.groups = kept, tuple(map(tuple, groups))


class _Colocation:
    """Groups the operators of a draft without cycles."""

    def __init__(self, draft: Draft) -> None:
        self._operators = {one.name: one for one in draft.ordered()}
        self._edges = draft.edges

    def grouped(self, rules: Sequence[PlacementRule]) -> tuple[Groups, list[Fault]]:
        """Group operators along streams with a locality, and by rules; what is between two belongs to them.

        Also returns the faults of impossible groups.
        """
        faults, demanded = list[Fault](), Sets(self._operators)
        for edge in filter(lambda one: one.together, self._edges):
            if edge.one_to_one:
                demanded.join(edge.sink.name, edge.source.name)
            elif edge.is_known:
                faults.append(_not_one_to_one(edge))
        for first, second in (pair for rule in rules for pair in rule.joined):
            demanded.join(second, first)
        group = {name: demanded.of(name) for name in self._operators}
        sizes = Counter(group.values())
        between = [(group[one.source.name], group[one.sink.name]) for one in self._edges]
        between = [pair for pair in between if pair[0] != pair[1]]
        # those on streams from a group back to itself belong to it
        components = strong_components([name for name in self._operators if name in sizes], between)
        number = {name: index for index, component in enumerate(components) for name in component}
        members: list[list[str]] = [[] for _ in components]
        for name in self._operators:
            members[number[group[name]]].append(name)
        for component in members:
            if len(component) > 1:
                wanted = [name for name in component if sizes[group[name]] > 1]
                fault = self._conflict(rules, component, wanted)
                faults += [] if fault is None else [fault]
        left = [(number[one], number[other]) for one, other in between]
        order = topological_order(range(len(members)), [pair for pair in left if pair[0] != pair[1]])
        return [members[index] for index in order], faults

    def _conflict(
        self, rules: Sequence[PlacementRule], members: Sequence[str], wanted: Sequence[str]
    ) -> Fault | None:
        """Why a group cannot be one container; None if it can.

        `wanted`: the operators that a locality or a rule names; the others are between them.
        """
        why = self._conflict_inside([edge for edge in self._edges if edge.is_inside(members)])
        if why == "":
            why = self._conflict_of_inputs(members)
        if not why:
            return None
        named = [edge for edge in self._edges if edge.together and edge.is_inside(wanted)]
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

    def _conflict_inside(self, inside: Sequence[Edge]) -> str | None:
        """Which stream within a group keeps it from being one container; "" for none, None if not known."""
        for edge in inside:
            if edge.apart:
                return f"stream `{edge.stream}` between them is {edge.locality}"
            if not edge.one_to_one and not edge.together:
                if not edge.is_known:
                    return None
                return f"it would wait for itself: stream `{edge.stream}` leaves it and comes back"
        return ""

    def _conflict_of_inputs(self, members: Sequence[str]) -> str:
        """Which input operators keep a group from being one container; "" for none."""
        roots = [name for name in members if self._operators[name].is_input]
        if len(roots) > 1:
            return f"a container holds one input operator, not {listed(roots)}"
        entering = (one for one in self._edges if one.sink.name in members and one.source.name not in members)
        if roots and (first := next(entering, None)) is not None:
            return (
                "a container with an input operator cannot wait for others, "
                f"and `{first.sink.port(first.port)}` gets tuples of `{first.source.name}`"
            )
        return ""

    def with_rules(self, rules: Sequence[PlacementRule]) -> tuple[Groups, Fault | None]:
        """The groups with these rules, and the contradiction of the last one with another or with a locality.

        The rules before it, and the streams, must not contradict each other. All numbers of partitions are
        known.
        """
        last = rules[-1]
        counts = {name: self._operators[name].partitions for name in last.operators}
        if not last.apart and last.locality.together:
            many = [name for name in last.spread if counts[name] != 1]
            if many:
                what = f"{last.title} wants the partitions of {listed(many)} in one container"
                return (), Fault(last.name, what, "give the operator one partition, or the rule NODE_LOCAL")
            if len(set(counts.values())) > 1:
                found = ", ".join(f"`{name}` has {count}" for name, count in counts.items())
                what = f"{last.title} wants partition with partition, but {found}"
                remedy = "give them the same number of partitions, or the rule NODE_LOCAL"
                return (), Fault(last.name, what, remedy)
        groups, faults = self.grouped(rules)
        if faults:
            remedy = "leave the rule out, or a locality; or `relax=True`"
            return (), Fault(last.name, faults[0].what, remedy)
        return groups, next(self._contradictions(groups, rules), None)

    def _contradictions(self, groups: Groups, rules: Sequence[PlacementRule]) -> Iterator[Fault]:
        """A fault for each rule that wants apart what is together, and for operators without a host."""
        places = {level: _Places(self._operators, self._ties(groups, rules, level)) for level in _WITHIN}
        for rule in filter(lambda one: one.apart, rules):
            level = Locality.CONTAINER_LOCAL if rule.locality.together else rule.locality
            for pair in (*rule.pairs, *((name, name) for name in rule.spread)):
                if causes := places[level].causes(*pair):
                    what = f"{rule.title} wants {listed(list(dict.fromkeys(pair)))} apart, but "
                    what += f"{' and '.join(causes)} puts them together"
                    yield Fault(rules[-1].name, what, "leave one of them out, or give a rule `relax=True`")
        if any(rule.hosts for rule in rules):
            levels = (Locality.NODE_LOCAL, Locality.RACK_LOCAL)
            yield from find_homeless(rules, {level: places[level].homes for level in levels})

    def _ties(self, groups: Groups, rules: Sequence[PlacementRule], level: Locality) -> Iterator[_Tie]:
        """The operators that are together in containers, or by the localities of a level."""
        for group in groups:
            causes = [edge.title for edge in self._edges if edge.together and edge.is_inside(group)]
            causes += [rule.title for rule in rules if any({*pair} <= {*group} for pair in rule.joined)]
            for first, second in pairwise(group):
                yield _Tie(first, second, causes, every=False)
        for edge in self._edges:
            if edge.locality in _WITHIN[level]:
                yield _Tie(edge.source.name, edge.sink.name, [edge.title], every=not edge.one_to_one)
        for rule in rules:
            if rule.near and rule.locality in _WITHIN[level]:
                yield from (_Tie(*pair, [rule.title], every=True) for pair in pairwise(rule.operators))


class _Tie(NamedTuple):
    """Two operators whose partitions are together: each with its like, or all of them (`every`)."""

    first: str
    second: str
    causes: Sequence[str]
    every: bool


class _Places:
    """The partitions that share a place: a container, a host or a rack. `homes`: as of `find_homeless`."""

    def __init__(self, operators: Mapping[str, LogicalOperator], ties: Iterator[_Tie]) -> None:
        parts = {
            name: [(name, part) for part in range(one.partitions or 1)] for name, one in operators.items()
        }
        every = [part for own in parts.values() for part in own]
        self._sets, number = Sets(every), {part: place for place, part in enumerate(every)}
        self._ties = list(ties)
        for tie in self._ties:
            firsts, seconds = parts[tie.first], parts[tie.second]
            pairs = zip(firsts, seconds, strict=False)
            for one, other in ((firsts[0], one) for one in firsts + seconds) if tie.every else pairs:
                self._sets.join(one, other)
        self.homes = {name: [number[self._sets.of(part)] for part in own] for name, own in parts.items()}

    def causes(self, first: str, second: str) -> list[str]:
        """What puts partitions of two operators, or of one, into one place; nothing if they have others."""
        one, other = self.homes[first], self.homes[second]
        shared = {*one} & {*other} if first != second else {home for home in one if one.count(home) > 1}
        ties = (tie for tie in self._ties if not shared.isdisjoint(self.homes[tie.first]))
        return list(dict.fromkeys(cause for tie in ties for cause in tie.causes))


def _not_one_to_one(edge: Edge) -> Fault:
    """The fault of a locality between partitions that are not one to one, with its reason."""
    source, sink = edge.source, edge.sink
    what = f"locality {edge.locality} wants `{source.name}` and `{sink.name}` in one container, but "
    if source.partitions == sink.partitions:
        what += f"each of their {sink.partitions} partitions gets tuples of all others: port "
        what += f"`{sink.port(edge.port)}` is {_way(sink, edge.port)}"
    else:
        has = [f"`{one.name}` has {plural(one.partitions or 0, 'partition')}" for one in (source, sink)]
        what += " and ".join(has)
    remedy = f"make `{edge.port}` an `InputPort(..., parallel=True)`, give both one partition, "
    return Fault(edge.stream, what, f"{remedy}or leave the locality out")


def _way(operator: LogicalOperator, port: str) -> str:
    if any(port in part.keys for part in operator.divided):
        return "divided by key"
    if any(port in part.round_robin for part in operator.divided):
        return "divided round robin"
    return "broadcast"
