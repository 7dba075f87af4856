"""One affinity rule of a plan, and hosts that rules leave to operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from ridgeline.api.attributes import Locality
from ridgeline.api.errors import Fault, listed

Homes = Mapping[str, Sequence[int]]
"""By operator, for each partition the number of the group that shares its host, or its rack."""


@dataclass(frozen=True, slots=True)
class PlacementRule:
    """An affinity rule with the full names of its operators; one that is named twice means its partitions.

    `name`: which of the rules it is, for errors. `apart`: the operators run apart. `hosts`: the rule is about
    these hosts, or racks if `locality` is RACK_LOCAL: the operators run there, or (`apart`) not there.
    `declared`: an attribute of the operator says it.
    """

    name: str
    apart: bool
    operators: tuple[str, ...]
    locality: Locality
    relax: bool
    hosts: tuple[str, ...] = ()
    declared: bool = False

    @property
    def title(self) -> str:
        """The rule as errors and plans show it."""
        kind = "ANTI_AFFINITY" if self.apart else "AFFINITY"
        to = ""
        if self.hosts:
            noun = "rack" if self.locality is Locality.RACK_LOCAL else "host"
            to = f" to {noun}{'s' if len(self.hosts) > 1 else ''} {listed(list(self.hosts))}"
        return f"`{self.name}` ({kind} {self.locality} of {listed(list(self.operators))}{to})"

    @property
    def spread(self) -> tuple[str, ...]:
        """The operators whose own partitions are meant."""
        if self.hosts:
            return ()
        return tuple(name for name in dict.fromkeys(self.operators) if self.operators.count(name) > 1)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The pairs of different operators that are apart."""
        if self.hosts or not self.apart:
            return []
        return list(combinations(dict.fromkeys(self.operators), 2))

    @property
    def joined(self) -> list[tuple[str, str]]:
        """The pairs of different operators that share a container."""
        if self.apart or not self.locality.together:
            return []
        return list(pairwise(dict.fromkeys(self.operators)))

    @property
    def near(self) -> bool:
        """True if the operators run on one host, or in one rack, whichever it is."""
        return not self.apart and not self.hosts and not self.locality.together

    def allows(self, host: str, rack: str) -> bool:
        """True if the operators may run on this host, as far as this rule of hosts says."""
        return ((rack if self.locality is Locality.RACK_LOCAL else host) in self.hosts) is not self.apart

    @property
    def limit(self) -> tuple[object, ...]:
        """The rule without its operators: equal for rules that allow the same hosts."""
        return self.apart, self.locality, frozenset(self.hosts)


def limits_of(rules: Sequence[PlacementRule]) -> Mapping[str, frozenset[tuple[object, ...]]]:
    """The limits that rules of hosts set each operator; those with equal ones may run on the same hosts."""
    found: dict[str, set[tuple[object, ...]]] = {}
    for rule in rules:
        for name in rule.operators if rule.hosts else ():
            found.setdefault(name, set()).add(rule.limit)
    return {name: frozenset(limits) for name, limits in found.items()}


def find_homeless(rules: Sequence[PlacementRule], homes: Mapping[Locality, Homes]) -> Iterator[Fault]:
    """Faults of operators for which rules of hosts leave none, or not enough of them.

    `homes`: what shares a host (NODE_LOCAL), and what shares a rack (RACK_LOCAL).
    """
    for level, of_operator in homes.items():
        of_level = [rule for rule in rules if rule.locality is level]
        named = _rules_by_home(of_level, of_operator)
        left = {home: places for home, own in named.items() if (places := _places(own)) is not None}
        for home, places in left.items():
            if not places:
                names = [name for name, inside in of_operator.items() if home in inside]
                yield _fault(rules, named[home], f"leave nowhere for {listed(names)}")
        for rule in of_level:
            for first, second in (*rule.pairs, *((name, name) for name in rule.spread if rule.apart)):
                both = {*of_operator[first], *of_operator[second]}
                needed = len(both) if first == second else 2
                if both <= left.keys() and len(frozenset().union(*map(left.__getitem__, both))) < needed:
                    of_both = [one for home in sorted(both) for one in named[home]]
                    names = list(dict.fromkeys((first, second)))
                    yield _fault(rules, [rule, *of_both], f"leave too few places for {listed(names)}")


def _rules_by_home(rules: Sequence[PlacementRule], of_operator: Homes) -> dict[int, list[PlacementRule]]:
    """The rules of hosts that are about each group."""
    found: dict[int, list[PlacementRule]] = {}
    for rule in filter(lambda one: one.hosts, rules):
        for home in {home for name in rule.operators for home in of_operator[name]}:
            found.setdefault(home, []).append(rule)
    return found


def _places(rules: Sequence[PlacementRule]) -> frozenset[str] | None:
    """The hosts, or racks, that rules leave; None if they allow all but some."""
    kept = [frozenset(rule.hosts) for rule in rules if not rule.apart]
    barred = frozenset(host for rule in rules if rule.apart for host in rule.hosts)
    return frozenset.intersection(*kept) - barred if kept else None


def _fault(rules: Sequence[PlacementRule], guilty: Sequence[PlacementRule], what: str) -> Fault:
    """The fault of rules that contradict each other, at the last of all rules."""
    titles = " and ".join(dict.fromkeys(rule.title for rule in guilty))
    return Fault(rules[-1].name, f"{titles} {what}", "leave one of them out, or name other hosts")
