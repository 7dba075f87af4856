"""Segments that several cells have a part of each: by the hashes of their keys, as tuples are divided.

When partitions of an operator are divided again, no entry is copied. Each cell gets the segments in which its
keys are, and which hashes are its own. Entries that are not its own are hidden until a compaction leaves them
out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ridgeline.api.cells.keyed_overlay import Mask
from ridgeline.api.codec import Hashes, hash_column, mix, stable_hash
from ridgeline.api.partitioner import PartitionKeys
from ridgeline.engine.state import keyed_hash
from ridgeline.engine.state.keyed_columns import Leaf, VaryingLeaf
from ridgeline.engine.state.keyed_segment import Segment

_INVERSE = np.uint64(pow(keyed_hash.SPREAD, -1, 1 << 64))


# By which hash keys are divided -----------------------------------------------------------------------------


def routed(keys: Sequence[object]) -> Hashes:
    """The stable hashes of keys, by which tuples go to partitions. Raises TypeError for one that has none."""
    kinds = set(map(type, keys))
    if len(kinds) == 1 and kinds <= {int, str, bytes, float}:
        try:
            return hash_column(pa.array(keys)).astype(np.uint64, copy=False)
        except (pa.ArrowInvalid, UnicodeEncodeError, OverflowError):
            pass  # an integer of more than 64 bits, half a character
    return np.fromiter(map(stable_hash, keys), np.uint64, len(keys))


def routed_segment(segment: Segment) -> Hashes:
    """The stable hashes of the keys of a segment's entries. Raises TypeError as `routed`.

    Those of whole numbers and texts follow from the hashes by which the segment is sorted.
    """
    column = segment.key_column
    if column.kind in {"i", "b"}:
        return mix(segment.hashes * _INVERSE)
    if column.kind in {"s", "y"}:
        return mix((segment.hashes * _INVERSE) & np.uint64(0xFFFFFFFF))
    if column.kind.startswith("("):
        total, *others = map(_routed_leaf, column.leaves)
        for part in others:
            total = mix(total * np.uint64(31) + part)
        return total
    return _routed_leaf(column.leaves[0]) if column.leaves else np.empty(0, np.uint64)


def _routed_leaf(leaf: Leaf) -> Hashes:
    if isinstance(leaf, VaryingLeaf) and leaf.code == "p":
        keys = leaf.many(np.arange(len(leaf.array))).tolist()
        return np.fromiter(map(stable_hash, keys), np.uint64, len(keys))
    found = hash_column(leaf.array if isinstance(leaf, VaryingLeaf) else pa.array(leaf.array))
    return found.astype(np.uint64, copy=False)


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
        self.own = belong(routed_segment(segment), keys)
        self.there = segment.there & self.own
        self._there_view = self.there.data
