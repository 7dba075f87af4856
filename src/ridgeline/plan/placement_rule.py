"""One affinity rule of a plan, and hosts that rules leave to operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

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
    def near(self) -> bool:
        """True if the operators run on one host, or in one rack, whichever it is."""
        return not self.apart and not self.hosts and not self.locality.together

    def allows(self, host: str, rack: str) -> bool:
        """True if the operators may run on this host, as far as this rule of hosts says."""
        return ((rack if self.locality is Locality.RACK_LOCAL else host) in self.hosts) is not self.apart

    @property
    def limit(self) -> tuple[object, ...]:
        """What it says of hosts, without the operators: equal for rules that allow the same hosts."""
        return self.apart, self.locality, frozenset(self.hosts)


def limits_of(rules: Sequence[PlacementRule]) -> Mapping[str, frozenset[tuple[object, ...]]]:
    """What rules of hosts say of each operator that they name; equal ones may run on the same hosts."""
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
        named: dict[int, list[PlacementRule]] = {}
        for rule in rules:
            if rule.hosts and rule.locality is level:
                for home in {home for name in rule.operators for home in of_operator[name]}:
                    named.setdefault(home, []).append(rule)
        left: dict[int, frozenset[str]] = {}
        for home, of_home in named.items():
            kept = [frozenset(rule.hosts) for rule in of_home if not rule.apart]
            if kept:
                barred = frozenset(host for rule in of_home if rule.apart for host in rule.hosts)
                left[home] = frozenset.intersection(*kept) - barred
                if not left[home]:
                    names = [name for name, inside in of_operator.items() if home in inside]
                    yield _fault(rules, of_home, f"leave nowhere for {listed(names)}")
        for rule in rules:
            if rule.apart and not rule.hosts and rule.locality is level:
                for first, second in (*rule.pairs, *((name, name) for name in rule.spread)):
                    both = {*of_operator[first], *of_operator[second]}
                    places = frozenset().union(*(left.get(home, ()) for home in both))
                    needed = len(both) if first == second else 2
                    if both <= left.keys() and len(places) < needed:
                        of_both = [one for home in sorted(both) for one in named[home]]
                        names = list(dict.fromkeys((first, second)))
                        yield _fault(rules, [rule, *of_both], f"leave too few places for {listed(names)}")


def _fault(rules: Sequence[PlacementRule], guilty: Sequence[PlacementRule], what: str) -> Fault:
    """The fault of rules that contradict each other, at the last of all rules."""
    titles = " and ".join(dict.fromkeys(rule.title for rule in guilty))
    return Fault(rules[-1].name, f"{titles} {what}", "leave one of them out, or name other hosts")
