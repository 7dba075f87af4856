"""Choose a host for each of several things that may not run everywhere, nor all beside each other.

No Spark, no clock, no threads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

_STEPS = 2_000
"""How many hosts are tried before it counts as impossible."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Slots that must be on one host: `size` of them.

    `allowed`: the hosts where they may run. Units of one `rack_group` run in one rack; -1: in any.
    """

    size: int
    allowed: Collection[str]
    rack_group: int = -1


def choose_hosts(
    units: Sequence[Unit],
    free: Mapping[str, int],
    racks: Mapping[str, str],
    apart: Iterable[tuple[int, int]],
    by_rack: Iterable[tuple[int, int]],
) -> Sequence[str] | None:
    """A host for each unit; None if none was found. `free`: places of each host, `racks`: their racks.

    `apart`: pairs of units on different hosts, `by_rack`: in different racks. Hosts with places are
    preferred, the one with the most of them first.
    """
    foes = _neighbours(len(units), apart)
    rack_foes = _neighbours(len(units), by_rack)
    order = sorted(
        range(len(units)),
        key=lambda one: (
            len(units[one].allowed),
            -len(foes[one]) - len(rack_foes[one]),
            -units[one].size,
            one,
        ),
    )
    left = dict(free)
    chosen: dict[int, str] = {}

    def candidates(one: int) -> list[str]:
        barred = {chosen[other] for other in foes[one] if other in chosen}
        barred_racks = {racks[chosen[other]] for other in rack_foes[one] if other in chosen}
        group = units[one].rack_group
        near = {
            racks[host] for other, host in chosen.items() if group >= 0 and units[other].rack_group == group
        }
        fitting = [
            host
            for host in units[one].allowed
            if host not in barred and racks[host] not in barred_racks and (not near or racks[host] in near)
        ]
        return sorted(fitting, key=lambda host: (left[host] >= units[one].size, left[host], host))

    stack: list[list[str]] = []
    for _ in range(_STEPS + len(units)):
        if len(chosen) == len(units):
            return [chosen[one] for one in range(len(units))]
        if len(stack) == len(chosen):
            stack.append(candidates(order[len(chosen)]))
        if stack[-1]:
            one = order[len(chosen)]
            chosen[one] = stack[-1].pop()
            left[chosen[one]] -= units[one].size
        else:
            stack.pop()
            if not stack:
                return None
            one = order[len(stack) - 1]
            left[chosen[one]] += units[one].size
            del chosen[one]
    return None


def _neighbours(count: int, pairs: Iterable[tuple[int, int]]) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in range(count)]
    for one, other in pairs:
        found[one].add(other)
        found[other].add(one)
    return found
