"""Where the containers of a plan live that follows another one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ridgeline.plan.execution import Plan
from ridgeline.plan.placement_rule import PlacementRule
from ridgeline.stram.placement import HostCapacities, HostPreference, Placement, place
from ridgeline.stram.rules import PlanRules

_NOWHERE: Mapping[int, str] = {}
_NOT_MEASURED: Mapping[int, float] = {}


def place_following(
    new: Plan,
    placement: Placement,
    fresh: Sequence[int],
    where: Mapping[int, str] = _NOWHERE,
    loads: Mapping[int, float] = _NOT_MEASURED,
) -> Placement:
    """Place the containers of a new plan. `fresh`: slots beside those of now. `where`: the hosts of slots.

    Those that stay, stay where they are. Partitions of an operator that gets more of them are spread evenly,
    as at a start. `loads`: what containers have to do, see `Spread`.
    """
    present = {container.id for container in new.execution.containers}
    width = max([len(placement), *(slot + 1 for slot in fresh)])
    kept = [tuple(one for one in hosted if one in present) for hosted in placement]
    kept += [()] * (width - len(kept))
    homes = {one for hosted in kept for one in hosted}
    added = tuple(one.id for one in new.execution.containers if one.id not in homes)
    usable = sorted({*fresh, *(slot for slot, hosted in enumerate(placement) if hosted)})
    return PlanRules(new).move((*kept, added), usable, where, loads, even=True)[:width]


def place_spread(
    plan: Plan, placement: Placement, fresh: Sequence[int], loads: Mapping[int, float] = _NOT_MEASURED
) -> Placement:
    """Spread the containers of a plan over the slots that there are and `fresh` ones, as at a start.

    Each share goes to the slot that hosts most of it already.
    """
    slots = [*(slot for slot, hosted in enumerate(placement) if hosted), *fresh]
    shares = place(plan, len(slots), loads)
    width = max([len(placement), *(slot + 1 for slot in fresh)])
    home = {container: slot for slot, hosted in enumerate(placement) for container in hosted}
    common = Counter((home[one], share) for share in shares for one in share if one in home)
    found: dict[int, tuple[int, ...]] = {}
    taken: set[tuple[int, ...]] = set()
    for _, slot, share in sorted((-count, *pair) for pair, count in common.items()):
        if slot not in found and share not in taken:
            found[slot] = share
            taken.add(share)
    rest = sorted(share for share in shares if share not in taken)
    found.update(zip((slot for slot in sorted(slots) if slot not in found), rest, strict=True))
    return tuple(found.get(slot, ()) for slot in range(width))


def preferences_for_fresh(
    placement: Placement,
    fresh: Sequence[int],
    capacities: HostCapacities,
    where: Mapping[int, str],
    free: Sequence[str],
) -> Mapping[int, HostPreference]:
    """The hosts for fresh slots that may be anywhere: the one of `free` with the most places left, each."""
    left = {host: offer.places for host, offer in capacities.items() if host in free}
    for slot, host in where.items():
        if host in left and slot < len(placement) and placement[slot]:
            left[host] -= 1
    found: dict[int, HostPreference] = {}
    for slot in fresh if left else ():
        host = min(left, key=lambda name: (-left[name], name))
        left[host] -= 1
        found[slot] = HostPreference((host,))
    return found


def strict_rules_broken(
    new: Plan,
    placement: Placement,
    capacities: HostCapacities,
    where: Mapping[int, str],
    preferences: Mapping[int, HostPreference],
) -> Sequence[PlacementRule]:
    """The strict rules that would be broken by slots where they are, or should be; none on one machine."""
    if not capacities:
        return ()
    hosts = {
        slot: preference.hosts[0] for slot, preference in preferences.items() if preference.hosts
    } | dict(where)
    at = {slot: host for slot, host in hosts.items() if slot < len(placement) and placement[slot]}
    return [rule for rule in PlanRules(new).broken(placement, at, capacities) if not rule.relax]
