"""Check affinity rules: what they name, and whether they contradict each other or localities of streams."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ridgeline.api.affinity import AffinityRule, AffinityType
from ridgeline.api.attributes import Locality
from ridgeline.api.errors import Faults, did_you_mean, listed, shorten
from ridgeline.api.support.patterns import Pattern
from ridgeline.plan.draft import Draft
from ridgeline.plan.placement_rule import PlacementRule
from ridgeline.plan.validate.attributes import member_of

_LEAST = 2
_BY_ATTRIBUTE = {"locality_host": Locality.NODE_LOCAL, "locality_rack": Locality.RACK_LOCAL}
"""The attributes of operators that name a host or a rack."""


def read_affinity(draft: Draft, faults: Faults) -> list[PlacementRule]:
    """The affinity rules of an application and of its modules; adds faults for what they name."""
    rules = []
    positions = Counter[str]()
    for module, rule in draft.graph.rules:
        positions[module] += 1
        prefix = f"{module}." if module else ""
        read = _read(draft, faults, f"{prefix}affinity {positions[module]}", prefix, rule)
        if read is not None:
            rules.append(read)
    for attribute, locality in _BY_ATTRIBUTE.items():
        for operator in draft.operators:
            host = operator.attributes[attribute]
            if host is not None and attribute not in operator.doubtful:
                name = f"{operator.name}.{attribute}"
                wanted = PlacementRule(
                    name,
                    apart=False,
                    operators=(operator.name,),
                    locality=locality,
                    relax=True,
                    hosts=(host,),
                    declared=True,
                )
                rules.append(wanted)
    return rules


def _read(draft: Draft, faults: Faults, where: str, prefix: str, rule: Any) -> PlacementRule | None:
    """One rule with the full names of its operators; None, and faults, if it is not sound."""
    if isinstance(rule, PlacementRule):
        return rule
    if not isinstance(rule, AffinityRule):
        faults.add(where, f"{shorten(rule)} is no `AffinityRule`", "give `AffinityRule(type, operators)`")
        return None
    before = len(faults)
    kind = member_of(faults, where, "type of rules", AffinityType, rule.type)
    locality = member_of(faults, where, "locality", Locality, rule.locality)
    if not isinstance(rule.relax, bool):
        faults.add(where, f"`relax` is {shorten(rule.relax)}", "give True or False")
    if (rule.pattern is None) == (not rule.operators):
        found = "neither" if rule.pattern is None else "both"
        faults.add(where, f"a rule has `operators` or `pattern`; found {found}", "give one of them")
        return None
    find = _named if rule.pattern is None else _matched
    names = find(draft, faults, where, prefix, rule)
    hosts = _hosts(faults, where, rule, locality)
    if kind is None or locality is None or len(faults) > before:
        return None
    if len(names) < (1 if hosts else _LEAST):
        what = f"a rule needs two operators; found {listed(names) or 'none'}"
        faults.add(where, what, "name two, or one twice for its partitions")
        return None
    return PlacementRule(
        where,
        kind is AffinityType.ANTI_AFFINITY,
        tuple(names),
        locality,
        rule.relax,
        hosts,
    )


def _hosts(faults: Faults, where: str, rule: AffinityRule, locality: object) -> tuple[str, ...]:
    """The hosts or racks that a rule names; adds a fault if they are none."""
    given = [rule.hosts] if isinstance(rule.hosts, str) else rule.hosts
    if not isinstance(given, (list, tuple)) or not all(isinstance(one, str) and one for one in given):
        faults.add(where, f"`hosts` is {shorten(rule.hosts)}", "give a list of names of hosts")
        return ()
    if given and locality in (Locality.THREAD_LOCAL, Locality.CONTAINER_LOCAL):
        remedy = "leave the locality out for hosts, or give RACK_LOCAL for racks"
        faults.add(where, f"a rule that names hosts has locality {locality}", remedy)
    return tuple(dict.fromkeys(given))


def _named(draft: Draft, faults: Faults, where: str, prefix: str, rule: AffinityRule) -> list[str]:
    """The operators that a rule lists."""
    known = [*draft.owners]
    modules = [*draft.graph.parts]
    names: list[str] = []
    listed_names = rule.operators if isinstance(rule.operators, (list, tuple)) else [rule.operators]
    for given in listed_names:
        name = given if given in known or given in modules else f"{prefix}{given}"
        if name in known:
            names.append(name)
        elif name in modules:
            names += [one for one in known if one.startswith(f"{name}.")]
        else:
            short = str(given).removeprefix(prefix)
            shown = shorten(given) if not isinstance(given, str) else f"`{short}`"
            own = [one.removeprefix(prefix) for one in (*known, *modules) if one.startswith(prefix)]
            faults.add(where, f"there is no operator {shown}", did_you_mean(short, own))
    return names


def _matched(draft: Draft, faults: Faults, where: str, prefix: str, rule: AffinityRule) -> list[str]:
    """The operators whose names a rule's regular expression matches as a whole; it takes linear time."""
    try:
        pattern = Pattern(str(rule.pattern))
    except ValueError as error:
        faults.add(where, f"`pattern`: {error}", "fix it, or list the operators")
        return []
    names = [name for name in draft.owners if name.startswith(prefix)]
    return [name for name in names if pattern.matches(name.removeprefix(prefix))]
