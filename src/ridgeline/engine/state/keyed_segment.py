"""A segment: one immutable file of entries of a keyed state, sorted by the hashes of their keys.

The parts of the file, in this order:
- the magic
- hashes (uint64)
- whether the key is there (bool; false: it was removed)
- the leaves of the keys
- the leaves of the values
- for each bucket (so many upper bits of the hash) where its entries begin (uint32)
- a description as JSON, which contains the file's own name
- its length, the CRC-32 of all before that, and the magic again

Each stream of bytes begins at a multiple of 8. Numbers are little-endian.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.api.cells.keyed_overlay import Mask
from ridgeline.api.codec import Hashes
from ridgeline.api.errors import StateError
from ridgeline.api.partitioner import PartitionKeys
from ridgeline.engine.state import keyed_hash
from ridgeline.engine.state.keyed_columns import (
    EntryColumn,
    FixedLeaf,
    Leaf,
    Places,
    VaryingLeaf,
    codes,
    dtype_of,
    encode,
    kind_of,
)
from ridgeline.engine.state.keyed_hash import Keys

MAGIC = b"RLRUN4\n\0"
_TAIL = struct.Struct("<QQ8s")
_ALIGNED = 8
TOMBSTONE = -1
NOT_FOUND = -2


class Segment:
    """One opened segment.

    Threads may share it. `keys`: number of its entries, those included that say that a key was removed.
    """

    def __init__(self, buffer: Any, name: str, *, checked: bool = False) -> None:
        """`buffer`: the whole file, mapped or as bytes; `name`: its file, as errors call it.

        Reads all of it once, for its checksum.

        `checked`: who wrote it has read it back already, only its two ends are looked at.
        Raises StateError naming the file if it is truncated or corrupt.
        """
        self.name = name
        self._view = memoryview(buffer).cast("B")
        self.size_bytes = len(self._view)
        about = self._description(checked)
        self.keys: int = about["keys"]
        self.live: int = about["live"]
        """Number of keys that exist according to this segment and those before it."""
        streams = iter([self._view[start : start + length] for start, length in about["streams"]])
        self.hashes: Hashes = np.frombuffer(next(streams), np.uint64)
        self.there: npt.NDArray[np.bool_] = np.frombuffer(next(streams), np.bool_)
        self.key_column = _column(about["key_kind"], streams)
        self.value_column = _column(about["value_kind"], streams)
        self._buckets: npt.NDArray[np.uint32] = np.frombuffer(next(streams), np.uint32)
        self._shift = 64 - bucket_bits(self.keys)
        self._hash_view = self.hashes.data
        self.own: npt.NDArray[np.bool_] | None = None
        """Which entries belong to the cell that has the segment; None: all."""
        self._there_view = self.there.data
        self._bucket_view = self._buckets.data

    def _description(self, checked: bool) -> dict[str, Any]:  # noqa: FBT001  one caller
        """The description. Raises StateError."""
        view, name = self._view, self.name
        size = len(view)
        length, checksum, magic = (
            _TAIL.unpack(view[-_TAIL.size :]) if size >= len(MAGIC) + _TAIL.size else (0, 0, b"")
        )
        what = ""
        if bytes(view[: len(MAGIC)]) != MAGIC[:size]:
            what = "it is no file of keyed state"
        elif magic != MAGIC:
            what = "its end is missing"
        elif length > size - _TAIL.size or (not checked and zlib.crc32(view[: -_TAIL.size]) != checksum):
            what = "checksum differs"
        if what:
            raise StateError(f"state file `{name}` is corrupt ({size} bytes, {what}); restore it from a copy")
        about: dict[str, Any] = json.loads(bytes(view[size - _TAIL.size - length : size - _TAIL.size]))
        if about["name"] != name.rpartition("/")[2]:
            raise StateError(
                f"state file `{name}` is corrupt (it is a copy of `{about['name']}`); restore it from a copy"
            )
        return about

    # Finding ------------------------------------------------------------------------------------------------

    def place_of(self, hashed: int, key: object) -> int:
        """The row index of a key; `NOT_FOUND` if it has no entry, `TOMBSTONE` if the entry removes it."""
        hashes, bucket = self._hash_view, hashed >> self._shift
        place, stop = self._bucket_view[bucket], self._bucket_view[bucket + 1]
        while place < stop:
            if hashes[place] == hashed and self.key_column.one(place) == key:
                return place if self._there_view[place] else TOMBSTONE
            place += 1
        return NOT_FOUND

    def places_of(self, wanted: Wanted, which: Places) -> Places:
        """The row index of each key's entry, a tombstone included; `NOT_FOUND` where there is none."""
        found = np.full(len(which), NOT_FOUND, np.int64)
        hashes = wanted.hashes[which]
        buckets = (hashes >> np.uint64(self._shift)).astype(np.int64)
        place, stop = self._buckets[buckets].astype(np.int64), self._buckets[buckets + 1].astype(np.int64)
        rest = np.arange(len(which))
        while len(rest):
            self._seek(hashes, place, stop)
            near = place < stop
            rest, hashes, place, stop = rest[near], hashes[near], place[near], stop[near]
            equal = wanted.equal(which[rest], self.key_column, place)
            found[rest[equal]] = place[equal]
            rest, hashes, place, stop = rest[~equal], hashes[~equal], place[~equal] + 1, stop[~equal]
        return found

    def _seek(self, hashes: Hashes, place: Places, stop: Places) -> None:
        """Move each place on to the first entry of that hash, to `stop` if there is none before it."""
        short = np.flatnonzero(place < stop)
        while len(short):
            here = self.hashes[place[short]]
            beyond = short[here > hashes[short]]
            place[beyond] = stop[beyond]
            short = short[here < hashes[short]]
            place[short] += 1
            short = short[place[short] < stop[short]]


class Wanted:
    """Keys that are looked for, with what finding them in several segments has in common."""

    def __init__(self, keys: Keys | EntryColumn, hashes: Hashes | None = None) -> None:
        """`hashes` if they are known; a column's must be."""
        self._keys = keys
        self.hashes = keyed_hash.hash_wanted(keys) if hashes is None else hashes  # type: ignore[arg-type]  # no column

    @cached_property
    def objects(self) -> Sequence[Any]:
        """The keys, as Python's objects."""
        if isinstance(self._keys, EntryColumn):
            return self._keys.many(np.arange(len(self.hashes))).tolist()
        return self._keys.tolist() if isinstance(self._keys, np.ndarray) else self._keys

    @cached_property
    def column(self) -> EntryColumn:
        """The keys in a column; one of pickles is empty."""
        if isinstance(self._keys, EntryColumn):
            return self._keys
        if isinstance(self._keys, np.ndarray) and self._keys.dtype == np.int64:
            return EntryColumn("i", [FixedLeaf(self._keys)])
        kind = kind_of(self.objects)
        return encode(() if kind == "p" else self.objects, kind)

    def equal(self, which: Places, column: EntryColumn, places: Places) -> npt.NDArray[np.bool_]:
        """Whether each of those keys is equal to what stands at its place in a column."""
        if column.kind == self.column.kind != "p":
            return column.same(places, self.column, which)
        return column.equal(places, [self.objects[one] for one in which.tolist()])


# Files ------------------------------------------------------------------------------------------------------


def bucket_bits(keys: int) -> int:
    """The number of upper bits of the hash that are the bucket: about one entry a bucket."""
    return max(1, (keys - 1).bit_length())


def file_of(about: dict[str, object], streams: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
    """The pieces of a file in order: `about` without the streams' places, and the parts of each stream."""
    checksum, size = zlib.crc32(MAGIC), len(MAGIC)
    yield MAGIC
    places = []
    for stream in streams:
        start = size
        for piece in stream:
            checksum, size = zlib.crc32(piece, checksum), size + len(piece)
            yield piece
        places.append((start, size - start))
        padding = bytes(-size % _ALIGNED)
        checksum, size = zlib.crc32(padding, checksum), size + len(padding)
        yield padding
    description = json.dumps(about | {"streams": places}).encode()
    yield description + _TAIL.pack(len(description), zlib.crc32(description, checksum), MAGIC)


def _column(kind: str, streams: Iterator[memoryview]) -> EntryColumn:
    leaves: list[Leaf] = []
    for code in codes(kind):
        dtype = dtype_of(code)
        if dtype is None:
            leaves.append(VaryingLeaf.over(code, next(streams), next(streams)))
        else:
            leaves.append(FixedLeaf(np.frombuffer(next(streams), dtype)))
    return EntryColumn(kind, leaves)


# Segments that several cells have a part of each ------------------------------------------------------------
#
# When partitions of an operator are divided again, no entry is copied. Each cell gets the segments in which
# its keys are, and which hashes are its own. Entries that are not its own are hidden until a compaction
# leaves them out.


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


class OwnSegment(Segment):
    """A segment of which one cell has the entries with some keys; the others seem removed."""

    def __init__(self, segment: Segment, keys: PartitionKeys) -> None:
        vars(self).update(vars(segment))
        self._segment = segment  # which is open as long as this is
        self.own = belong(segment.hashes, keys)
        self.there = segment.there & self.own
        self._there_view = self.there.data
