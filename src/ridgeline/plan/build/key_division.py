"""How an operator is divided by key now, as far as one may divide it otherwise: cells and their owners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ridgeline.api.balancing import BalancedPartitioner
from ridgeline.api.partitioner import KeyedPartitioner, Partitioner, PartitionKeys, StickyPartitioner
from ridgeline.measure.deciding.key_load import KEY_BITS
from ridgeline.plan.build.key_sharing import alone
from ridgeline.plan.execution import Plan
from ridgeline.plan.physical import PhysicalOperator

_MEANT = (StickyPartitioner, KeyedPartitioner, BalancedPartitioner)
"""Partitioners that give equal keys to the same partition, and mean nothing else by it."""


@dataclass(frozen=True, slots=True, eq=False)
class KeyDivision:
    """The cells of an operator: `owners`, `shared`, `fixed` and `alone` as of `KeyLoad`."""

    bits: int
    partitions: int
    owners: npt.NDArray[np.intp]
    shared: Mapping[int, tuple[int, ...]]
    partitioner: Partitioner
    fixed: str
    alone: str


def key_division(plan: Plan, operator: str, bits: int = KEY_BITS) -> KeyDivision | None:
    """How a logical operator is divided, by `bits` bits of the hashes at least; None if not by key."""
    parts = [one for one in plan.physical.operators if one.name == operator and not one.unifier]
    if len(parts) < 2 or not parts[0].keys:  # noqa: PLR2004  one partition is not divided
        return None
    parts.sort(key=lambda one: one.partition)
    ports = [[part.keys[port] for part in parts] for port in parts[0].keys]
    divided = ports[0]
    bits = max(bits, *(keys.mask.bit_length() for keys in divided))
    owners, shared = _owners(divided, bits)
    partitioner = _partitioner(parts[0])
    fixed = ""
    if any(port != divided for port in ports):
        fixed = "its ports are divided in different ways"
    elif not (type(partitioner) in _MEANT and not getattr(partitioner, "ports", ())):
        fixed = f"its partitioner is the author's, `{partitioner}`"
    return KeyDivision(bits, len(parts), owners, shared, partitioner, fixed, alone(plan, operator))


def _partitioner(part: PhysicalOperator) -> Partitioner:
    given: Partitioner | None = part.attributes["partitioner"] or part.operator.partitioner_default
    return given or StickyPartitioner()


def _owners(
    divided: list[PartitionKeys], bits: int
) -> tuple[npt.NDArray[np.intp], Mapping[int, tuple[int, ...]]]:
    """The first owner of each cell, and the partitions that share one."""
    cells = np.arange(1 << bits)
    owners = np.zeros(1 << bits, np.intp)
    sharers: dict[int, list[int]] = {}
    for partition, keys in reversed(list(enumerate(divided))):
        owners[np.isin(cells & keys.mask, sorted(keys.keys | keys.shared))] = partition
        for cell in np.flatnonzero(np.isin(cells & keys.mask, sorted(keys.shared))).tolist():
            sharers.setdefault(cell, []).insert(0, partition)
    return owners, {cell: tuple(several) for cell, several in sharers.items()}
