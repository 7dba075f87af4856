"""Segments that several cells have a part of each: by the hashes of their keys, as tuples are divided.

When partitions of an operator are divided again, no entry is copied. Each cell gets the segments in which its
keys are, and which hashes are its own. Entries that are not its own are hidden until a compaction leaves them
out.
"""

from __future__ import annotations

import numpy as np

from ridgeline.api.cells.keyed_overlay import Mask
from ridgeline.api.codec import Hashes
from ridgeline.api.partitioner import PartitionKeys
from ridgeline.engine.state.keyed_segment import Segment

# Hashes of a partition --------------------------------------------------------------------------------------


def both(one: PartitionKeys | None, other: PartitionKeys | None) -> PartitionKeys | None:
    """The keys that belong to both; None: all do."""
    if one is None or other is None:
        return one or other
    mask = one.mask | other.mask
    values = _spread(one, mask)
    return PartitionKeys(mask, frozenset(key for key in values if key & other.mask in other.keys))


def either(one: PartitionKeys | None, other: PartitionKeys | None) -> PartitionKeys | None:
    """The keys that belong to one of two; None: all do."""
    if one is None or other is None:
        return None
    mask = one.mask | other.mask
    return PartitionKeys(mask, frozenset(_spread(one, mask)) | frozenset(_spread(other, mask)))


def _spread(keys: PartitionKeys, mask: int) -> list[int]:
    """The same keys under a mask that has more bits."""
    found = list(keys.keys)
    more = mask & ~keys.mask
    while more:
        bit = more & -more
        found += [key | bit for key in found]
        more ^= bit
    return found


def belong(hashes: Hashes, keys: PartitionKeys) -> Mask:
    """Which hashes belong to a partition."""
    size = 1 << keys.mask.bit_length()
    table = np.zeros(size, np.bool_)
    table[list(keys.keys)] = True
    found: Mask = table[(hashes & np.uint64(keys.mask)).astype(np.int64)]
    return found


# Segments ---------------------------------------------------------------------------------------------------


class OwnSegment(Segment):
    """A segment of which one cell has the entries with some keys; the others seem removed."""

    def __init__(self, segment: Segment, keys: PartitionKeys) -> None:
        vars(self).update(vars(segment))
        self._segment = segment  # which is open as long as this is
        self.own = belong(segment.hashes, keys)
        self.there = segment.there & self.own
        self._there_view = self.there.data
