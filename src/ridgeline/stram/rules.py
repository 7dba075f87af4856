"""The plan's rules for running slots: where they should be, which are broken, who takes containers.

No Spark, no clock, no threads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ridgeline.api.attributes import Locality
from ridgeline.api.errors import listed
from ridgeline.plan.execution import Plan
from ridgeline.plan.placement_rule import PlacementRule
from ridgeline.stram.anti_affinity import broken, containers_apart, containers_of
from ridgeline.stram.placement import (
    Against,
    HostCapacities,
    HostPreference,
    Placement,
    Spread,
    host_preferences,
    place,
)

_HOSTS = (Locality.NODE_LOCAL, Locality.RACK_LOCAL)


class PlanRules:
    """The affinity rules and localities of a plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def host_preferences(
        self, placement: Placement, capacities: HostCapacities, stay: Mapping[int, str]
    ) -> Mapping[int, HostPreference]:
        """Where slots should run; see `placement.host_preferences`."""
        return host_preferences(self._plan, placement, capacities, stay)

    def broken(
        self, placement: Placement, where: Mapping[int, str], capacities: HostCapacities
    ) -> Sequence[PlacementRule]:
        """The rules that are not kept where slots are on these hosts; slots that are left out are unknown."""
        if not self._plan.logical.affinity:
            return ()
        hosts = {box: where[slot] for slot, hosted in enumerate(placement) if slot in where for box in hosted}
        return broken(self._plan, hosts, {host: offer.rack for host, offer in capacities.items()})

    def move(
        self,
        placement: Placement,
        kept: Sequence[int],
        where: Mapping[int, str],
        loads: Mapping[int, float],
        *,
        even: bool = False,
    ) -> Placement:
        """The containers of all slots in those that are kept, see `Spread`.

        Of several slots one where the container breaks the fewest rules. `where`: the hosts of slots.
        `loads`: what containers have to do. `even`: operators that get a slot have others moved, if they
        would be uneven.
        """
        spread = Spread(self._plan, {slot: placement[slot] for slot in kept}, loads)
        orphans = spread.in_order(_orphans(placement, kept))
        against = None
        if self._plan.logical.affinity:
            foes = self._foes()
            against = self._against(foes, where, spread.hosted)
            orphans.sort(key=lambda one: -sum(foes.get(one, Counter()).values()))
        spread.add(((one,) for one in orphans), against)
        if even:
            spread.even(orphans, against)
        return _filled(placement, spread.hosted)

    def _foes(self) -> Mapping[int, Counter[int]]:
        """By container, those that rules want elsewhere, and how much."""
        foes: dict[int, Counter[int]] = {}
        for weight, relaxed in ((1_000, False), (1, True)):
            some = [rule for rule in self._plan.logical.affinity if rule.relax is relaxed]
            for one, other in containers_apart(self._plan, _HOSTS, some):
                foes.setdefault(one, Counter())[other] += weight
                foes.setdefault(other, Counter())[one] += weight
        return foes

    def _against(
        self,
        foes: Mapping[int, Counter[int]],
        where: Mapping[int, str],
        hosted: Mapping[int, Sequence[int]],
    ) -> Against:
        """How much rules speak against a container in a slot, by what its host has."""
        at = {slot: where.get(slot, f"slot {slot}") for slot in hosted}

        def against(unit: Sequence[int], slot: int) -> int:
            enemies = foes.get(unit[0], Counter())
            there = (box for other, boxes in hosted.items() if at[other] == at[slot] for box in boxes)
            return self._unfit(unit[0], at[slot]) + (sum(enemies[box] for box in there) if enemies else 0)

        return against

    def _unfit(self, container: int, host: str) -> int:
        """How much rules of hosts speak against a container on a host; those of racks are left out."""
        homes = containers_of(self._plan)
        return sum(
            1 if rule.relax else 1_000
            for rule in self._plan.logical.affinity
            if rule.hosts and rule.locality is Locality.NODE_LOCAL and not rule.allows(host, "")
            for name in rule.operators
            if container in homes[name]
        )

    def place(self, slots: int, loads: Mapping[int, float]) -> Placement | None:
        """A placement in so many slots that has nothing to do with another one; None: there is no need."""
        return place(self._plan, slots, loads) if self._plan.logical.affinity else None


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


def _orphans(placement: Placement, kept: Sequence[int]) -> list[int]:
    """The containers of slots that are not kept."""
    stay = set(kept)
    return sorted(one for slot, hosted in enumerate(placement) if slot not in stay for one in hosted)


def _filled(placement: Placement, hosted: Mapping[int, Sequence[int]]) -> Placement:
    """A placement of as many slots, those that are not hosted empty."""
    return tuple(tuple(sorted(hosted.get(slot, ()))) for slot in range(len(placement)))
