"""Compaction of keyed state into one new segment, in chunks: memory does not depend on the size of values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ridgeline.api.codec import Hashes
from ridgeline.engine.state.keyed_columns import (
    EntryColumn,
    FixedLeaf,
    Leaf,
    Places,
    codes,
    common_kind,
    dtype_of,
)
from ridgeline.engine.state.keyed_segment import Segment, bucket_bits, file_of

_CHUNK_KEYS = 1 << 18
_CHUNK_BYTES = 1 << 25


class Entries(NamedTuple):
    """Entries in memory, sorted by hash, as a segment has them."""

    hashes: Hashes
    there: npt.NDArray[np.bool_]
    """Whether each key is there; else it was removed."""
    key_column: EntryColumn
    value_column: EntryColumn
    size_bytes: int
    own: npt.NDArray[np.bool_] | None = None


Source = Segment | Entries


class _Chunk(NamedTuple):
    """A range of hashes: its place in each source, and the entries that stay, concatenated and sorted."""

    ranges: list[tuple[int, int]]
    kept: Places


class Merge:
    """The merge of some sources, the newest first.

    `oldest`: no segment remains below it, so nothing needs to say that a key was removed.
    """

    def __init__(self, sources: Sequence[Source], *, oldest: bool) -> None:
        self._sources = sources
        self._oldest = oldest
        self._key_kind = common_kind(source.key_column.kind for source in sources)
        self._value_kind = common_kind(source.value_column.kind for source in sources)
        self._chunks = [self._chunk(ranges) for ranges in self._ranges()]
        self.keys = sum(len(chunk.kept) for chunk in self._chunks)

    def _ranges(self) -> Iterator[list[tuple[int, int]]]:
        keys = sum(len(source.hashes) for source in self._sources)
        size = sum(source.size_bytes for source in self._sources)
        count = max(1, -(-keys // _CHUNK_KEYS), min(keys, -(-size // _CHUNK_BYTES)))
        borders = np.array([number * (1 << 64) // count for number in range(1, count)], np.uint64)
        starts = [
            [0, *np.searchsorted(source.hashes, borders).tolist(), len(source.hashes)]
            for source in self._sources
        ]
        for number in range(count):
            yield [(start[number], start[number + 1]) for start in starts]

    def _chunk(self, ranges: list[tuple[int, int]]) -> _Chunk:
        """Find a chunk's entries in all sources, sort them, and leave out what newer entries replace."""
        hashes = np.concatenate(
            [source.hashes[start:stop] for source, (start, stop) in zip(self._sources, ranges, strict=True)]
        )
        kept = np.argsort(hashes, kind="stable")
        if any(source.own is not None for source in self._sources):
            kept = kept[self._own(ranges)[kept]]
        hashes = hashes[kept]
        later = np.flatnonzero(hashes[1:] == hashes[:-1]) + 1
        if len(later):
            kept = kept[self._newest(ranges, kept, hashes, later)]
        if self._oldest:
            kept = kept[self._gathered(_Chunk(ranges, kept), _there).array]
        return _Chunk(ranges, kept.astype(np.uint32))

    def _own(self, ranges: list[tuple[int, int]]) -> npt.NDArray[np.bool_]:
        """Which entries of a chunk belong to whom it is written for."""
        return np.concatenate(
            [
                np.ones(stop - start, np.bool_) if source.own is None else source.own[start:stop]
                for source, (start, stop) in zip(self._sources, ranges, strict=True)
            ]
        )

    def _newest(
        self, ranges: list[tuple[int, int]], kept: Places, hashes: Hashes, later: Places
    ) -> npt.NDArray[np.bool_]:
        """Select sorted entries without a newer one of the same key; `later`: same hash as the entry before.

        All entries of a hash are compared with the first one. Those of another key are then compared with the
        first one of them, and so on.
        """
        everything = np.arange(sum(stop - start for start, stop in ranges))
        leaves = [
            self._gathered(_Chunk(ranges, everything), leaf) for leaf in _leaves(_key_column, self._key_kind)
        ]
        keys = EntryColumn(self._key_kind, leaves)
        newest = np.ones(len(kept), np.bool_)
        firsts = np.searchsorted(hashes, hashes[later])
        while len(later):
            same = keys.same(kept[firsts], keys, kept[later])
            newest[later[same]] = False
            later, firsts = later[~same], firsts[~same]
            leads = np.diff(firsts, prepend=-1) != 0
            firsts = later[leads][np.cumsum(leads) - 1]
            later, firsts = later[~leads], firsts[~leads]
        return newest

    def file(self, name: str, live: int) -> Iterator[bytes]:
        """The pieces of the segment's file of this name. `live`: number of keys then."""
        about = {
            "name": name,
            "keys": self.keys,
            "live": live,
            "key_kind": self._key_kind,
            "value_kind": self._value_kind,
        }
        yield from file_of(about, self._streams())

    def _streams(self) -> Iterator[Iterable[bytes]]:
        yield self._fixed(_hashes)
        yield self._fixed(_there)
        for column, kind in ((_key_column, self._key_kind), (_value_column, self._value_kind)):
            for code, leaf in zip(codes(kind), _leaves(column, kind), strict=True):
                if dtype_of(code) is None:
                    yield self._offsets(leaf)
                    yield (bytes(self._gathered(chunk, leaf).raw) for chunk in self._chunks)
                else:
                    yield self._fixed(leaf)
        yield self._buckets()

    def _gathered(self, chunk: _Chunk, part: _Part) -> Any:
        """The values of one leaf in a chunk."""
        parts = [
            part(source, start, stop)
            for source, (start, stop) in zip(self._sources, chunk.ranges, strict=True)
        ]
        return parts[0].gather(parts, chunk.kept)

    def _fixed(self, part: _Part) -> Iterator[bytes]:
        for chunk in self._chunks:
            yield self._gathered(chunk, part).array.tobytes()

    def _offsets(self, part: _Part) -> Iterator[bytes]:
        end = 0
        yield bytes(8)
        for chunk in self._chunks:
            ends = end + np.cumsum(self._gathered(chunk, lambda *place: part(*place).lengths).array)
            end = int(ends[-1]) if len(ends) else end
            yield ends.tobytes()

    def _buckets(self) -> Iterator[bytes]:
        bits = bucket_bits(self.keys)
        starts = np.zeros((1 << bits) + 1, np.uint32)
        for chunk in self._chunks:
            buckets = (self._gathered(chunk, _hashes).array >> np.uint64(64 - bits)).astype(np.int64)
            if len(buckets):
                counts = np.bincount(buckets - buckets[0])
                starts[buckets[0] + 1 :][: len(counts)] += counts.astype(np.uint32)
        np.cumsum(starts, out=starts)
        for start in range(0, len(starts), _CHUNK_KEYS):
            yield starts[start : start + _CHUNK_KEYS].tobytes()


_Part = Callable[[Source, int, int], Any]
"""A leaf of a source, from an entry to another."""


def _hashes(source: Source, start: int, stop: int) -> Leaf:
    return FixedLeaf(source.hashes[start:stop])


def _there(source: Source, start: int, stop: int) -> Leaf:
    return FixedLeaf(source.there[start:stop])


def _key_column(source: Source) -> EntryColumn:
    return source.key_column


def _value_column(source: Source) -> EntryColumn:
    return source.value_column


def _leaves(column: Callable[[Source], EntryColumn], kind: str) -> list[_Part]:
    """The leaves of a column that is made one of that kind."""

    def leaf(number: int) -> _Part:
        return lambda source, start, stop: column(source).part(start, stop, kind).leaves[number]

    return [leaf(number) for number in range(len(codes(kind)))]
