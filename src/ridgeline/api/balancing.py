"""A partitioner that is made of loads: keys are divided so that partitions have about as much to do."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ridgeline.api.partitioner import Partition, Partitioner, PartitionKeys, PortInfo

MOST_BITS = 16
_NOTHING: Mapping[int, Sequence[int]] = {}


class BalancedPartitioner(Partitioner):
    """Sticky by key on all keyed ports, cell by cell: a cell has the tuples with one `hash & (2**bits - 1)`.

    `owners`: the partition of each cell. `shared`: cells that several partitions share, each with these; its
    tuples are divided among them. `balance` makes one of measured loads. With another number of partitions
    than `owners` names it moves as few cells as it can, so that all have as many.

    Example:
        >>> from ridgeline import PortInfo
        >>> from ridgeline.api.balancing import BalancedPartitioner
        >>> partitioner = BalancedPartitioner(2, [0, 1, 0, 0])
        >>> partitioner
        BalancedPartitioner(4 cells, 2 partitions)
        >>> for part in partitioner.define_partitions(2, [PortInfo("data", keyed=True, connected=True)]):
        ...     dict(part.keys)
        {'data': PartitionKeys(mask=3, keys=frozenset({0, 2, 3}))}
        {'data': PartitionKeys(mask=3, keys=frozenset({1}))}
    """

    def __init__(
        self, bits: int, owners: Sequence[int], shared: Mapping[int, Sequence[int]] = _NOTHING
    ) -> None:
        if not 0 < bits <= MOST_BITS or len(owners) != 1 << bits or min(owners) < 0:
            raise ValueError(
                f"{bits} bits and {len(owners)} owners do not fit: give 1 to {MOST_BITS} bits, and a "
                "partition for each of the 2 ** bits cells"
            )
        self.bits = int(bits)
        self.owners = [int(one) for one in owners]
        self.shared = {str(cell): sorted({int(one) for one in some}) for cell, some in shared.items()}
        """By cells as texts, which is how a specification has them."""
        for cell, some in self.sharers.items():
            if not 0 <= cell < len(self.owners) or len(some) < 2 or min(some) < 0:  # noqa: PLR2004  several
                raise ValueError(
                    f"cell {cell} is shared by {some}: give a cell below {len(owners)}, and two partitions"
                )

    @property
    def sharers(self) -> dict[int, list[int]]:
        """The partitions of each shared cell."""
        return {int(cell): some for cell, some in self.shared.items()}

    @property
    def partitions(self) -> int:
        """How many partitions it was made for."""
        return 1 + max([*self.owners, *(max(some) for some in self.shared.values())])

    def define_partitions(self, count: int, ports: Sequence[PortInfo]) -> list[Partition]:
        """Assign the same cells on all keyed ports. Raises ValueError if no connected port has a key."""
        keyed = [port.name for port in ports if port.connected and port.keyed]
        if not keyed:
            raise ValueError("no input port has a key")
        mask, owners = (1 << self.bits) - 1, respread(self.owners, count)
        sharers = {cell: [one for one in some if one < count] for cell, some in self.sharers.items()}
        sharers = {cell: some for cell, some in sharers.items() if len(some) > 1}
        cells: list[set[int]] = [set() for _ in range(count)]
        shared: list[set[int]] = [set() for _ in range(count)]
        for cell, owner in enumerate(owners):
            if cell not in sharers:
                cells[owner].add(cell)
            for one in sharers.get(cell, ()):
                shared[one].add(cell)
        return [
            Partition({port: PartitionKeys(mask, frozenset(own), frozenset(some)) for port in keyed})
            for own, some in zip(cells, shared, strict=True)
        ]

    def __repr__(self) -> str:
        shared = f", {len(self.shared)} shared" if self.shared else ""
        return f"BalancedPartitioner({len(self.owners):,} cells, {self.partitions} partitions{shared})"


def respread(owners: Sequence[int], count: int) -> list[int]:
    """Owners of the same cells among `count` partitions: as few move as can, so that all have as many.

    Nothing moves if they are among as many as there were.

    >>> respread([0, 0, 1, 1, 2, 2], 2), respread([0, 0, 0, 0], 2), respread([0, 0, 0, 1], 2)
    ([0, 0, 1, 1, 0, 1], [1, 1, 0, 0], [0, 0, 0, 1])
    """
    found, before = list(owners), 1 + max(owners)
    if before == count:
        return found
    numbers = np.bincount([one for one in found if one < count], minlength=count)
    emptiest = [(int(number), partition) for partition, number in enumerate(numbers)]
    heapq.heapify(emptiest)
    for cell, owner in enumerate(found):
        if owner >= count:
            number, partition = heapq.heappop(emptiest)
            found[cell] = partition
            heapq.heappush(emptiest, (number + 1, partition))
    if count > before:
        mine: list[list[int]] = [[] for _ in range(count)]
        for cell in reversed(range(len(found))):
            mine[found[cell]].append(cell)
        for partition in range(before, count):
            while len(mine[partition]) < len(found) // count:
                fullest = max(range(count), key=lambda one: len(mine[one]))
                cell = mine[fullest].pop()
                found[cell] = partition
                mine[partition].append(cell)
    return found


def balance(
    load: npt.NDArray[np.float64],
    owners: npt.NDArray[np.intp],
    partitions: int,
    *,
    may_share: bool,
    tolerance: float,
) -> BalancedPartitioner:
    """Divide cells so that no partition has more than `tolerance` above the mean, if that is possible.

    Little moves: from where it is too much to where it is too little, large cells first. A cell that is
    heavier than a partition should be is shared if `may_share`. `load`: of each cell; `owners`: who has it.

    Example:
        >>> import numpy as np
        >>> from ridgeline.api.balancing import balance
        >>> loads, owners = np.array([4.0, 3.0, 1.0, 0.0]), np.array([0, 0, 1, 1])
        >>> balance(loads, owners, 2, may_share=False, tolerance=0.1).owners
        [0, 1, 1, 1]
    """
    found, total = owners.astype(np.intp).copy(), float(load.sum())
    bits = (len(load) - 1).bit_length()
    if total <= 0 or partitions < 2:  # noqa: PLR2004  nothing to divide
        return BalancedPartitioner(bits, found.tolist())
    limit = total / partitions * (1 + tolerance)
    hot = np.flatnonzero(load > limit) if may_share else np.empty(0, np.intp)
    own = load.copy()
    own[hot] = 0.0
    levels = np.bincount(found, own, minlength=partitions).astype(np.float64)
    shared: dict[int, list[int]] = {}
    for cell in sorted(hot.tolist(), key=lambda one: -load[one]):
        many = min(partitions, int(np.ceil(load[cell] * partitions / total)) + 1)
        taken = sorted(range(partitions), key=lambda one: (levels[one], one != found[cell], one))[:many]
        shared[cell] = taken
        levels[taken] += load[cell] / many
    _move(own, found, levels, limit)
    _own_one(load, found, shared)
    return BalancedPartitioner(bits, found.tolist(), shared)


def _own_one(
    load: npt.NDArray[np.float64], owners: npt.NDArray[np.intp], shared: Mapping[int, Sequence[int]]
) -> None:
    """Give partitions that only share cells the lightest that another can spare, as each needs one."""
    alone = np.ones(len(load), np.bool_)
    alone[list(shared)] = False
    for partition in sorted({one for some in shared.values() for one in some}):
        numbers = np.bincount(owners[alone], minlength=1 + max(partition, int(owners.max())))
        spare = np.flatnonzero(alone & (numbers[owners] > 1))
        if not numbers[partition] and len(spare):
            owners[spare[load[spare].argmin()]] = partition


def _move(
    load: npt.NDArray[np.float64],
    owners: npt.NDArray[np.intp],
    levels: npt.NDArray[np.float64],
    limit: float,
) -> None:
    """Move cells from the fullest partition to the emptiest while it is above the limit and that helps."""
    mean = float(levels.mean())
    for _ in range(2 * len(load)):
        full, empty = int(levels.argmax()), int(levels.argmin())
        if levels[full] <= limit:
            return
        cells = np.flatnonzero((owners == full) & (load > 0))
        if not len(cells):
            return
        loads = load[cells]
        fits = loads <= min(levels[full] - mean, mean - levels[empty])
        if fits.any():  # the largest that takes neither of the two beyond the mean
            best = int(np.argmax(np.where(fits, loads, -1.0)))
        else:
            best = int(np.argmin(np.maximum(levels[full] - loads, levels[empty] + loads)))
            if levels[empty] + loads[best] >= levels[full] * (1 - 1e-9):
                return
        owners[cells[best]] = empty
        levels[full] -= loads[best]
        levels[empty] += loads[best]
