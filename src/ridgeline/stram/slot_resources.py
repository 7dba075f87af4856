"""The needs of slots beyond one core: memory, cores and GPUs, as the attributes of operators say."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ridgeline.plan.execution import Plan
from ridgeline.stram.placement import HostCapacities, Placement, place

NEEDS = ("memory_mb", "vcores", "gpus")
"""The attributes."""


@dataclass(frozen=True, slots=True)
class Need:
    """The needs of a slot. `memory_mb` and `gpus` are sums over its operators.

    `vcores` is the most that one asks for, since a slot runs one operator at a time.
    """

    memory_mb: int = 0
    vcores: int = 1
    gpus: int = 0


def needs_of(plan: Plan, placement: Placement, given: Collection[str]) -> Sequence[Need]:
    """The needs of each slot, out of `given`, the attributes that the cluster can give."""
    operators = {operator.id: operator.attributes for operator in plan.physical.operators}
    hosted = {container.id: container.operators for container in plan.execution.containers}

    def values(slot: Collection[int], name: str) -> list[int]:
        ids = [operator for container in slot for operator in hosted[container]] if name in given else []
        return [int(operators[operator][name] or 0) for operator in ids]

    return [
        Need(sum(values(slot, "memory_mb")), max(1, *values(slot, "vcores"), 1), sum(values(slot, "gpus")))
        for slot in placement
    ]


def greatest_of(needs: Sequence[Need]) -> Need:
    """The least that is enough for any of these."""
    return Need(
        max(need.memory_mb for need in needs),
        max(need.vcores for need in needs),
        max(need.gpus for need in needs),
    )


def not_given(plan: Plan, given: Collection[str]) -> Mapping[str, Sequence[str]]:
    """The attributes that operators have and the cluster cannot give, with the names of the operators."""
    found = {
        name: list(dict.fromkeys(one.name for one in plan.physical.operators if one.attributes[name]))
        for name in NEEDS
        if name not in given
    }
    return {name: operators for name, operators in found.items() if operators}


def place_within(
    plan: Plan, slots: int, cores: int, given: Collection[str], capacities: HostCapacities
) -> Placement:
    """Containers in as many slots as `cores` are enough for, at most so many; one at least."""
    for count in range(slots, 1, -1):
        placement = place(plan, count, capacities=capacities)
        if sum(need.vcores for need in needs_of(plan, placement, given)) <= cores:
            return placement
    return place(plan, 1)
