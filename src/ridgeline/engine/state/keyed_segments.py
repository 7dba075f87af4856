"""Keyed state larger than memory: a set of immutable sorted segments, mapped into memory, newest last.

A cell of the state is `attach`ed to its segments and holds what changed since. A compactor, outside of any
window, `apply`s deltas to such a cell and asks `compact` to write what it holds as one more segment. Small
segments are merged into the new one on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ridgeline.api.cells.keyed_overlay import KeyedBase, Mask
from ridgeline.api.cells.keyed_state import Held, KeyedCell
from ridgeline.api.cells.keyed_table import NumberTable
from ridgeline.api.partitioner import PartitionKeys
from ridgeline.engine.state import keyed_hash
from ridgeline.engine.state.keyed_columns import Places, Values, encode, kind_of, numbers, zero
from ridgeline.engine.state.keyed_hash import Keys, UnstableKeyError
from ridgeline.engine.state.keyed_segment import TOMBSTONE, Segment, Wanted
from ridgeline.engine.state.segment_compaction import Entries, Merge, Source

__all__ = ["SEGMENT_KEYS", "Part", "Segment", "Segments", "SegmentsChange", "Write", "compact"]

SEGMENT_KEYS = 50_000
"""A cell with fewer keys stays a dict; one that lies in segments becomes a dict again with half as many."""
_TIER = 4  # a segment is merged into a newer one that has more than this part of its keys
_CHUNK = 1 << 14  # entries that are examined at once

Write = Callable[[Callable[[str], Iterable[bytes]]], str]
"""Writes one new file and returns its name.

Its pieces are what the argument gives for the name, one after the other (some MB each).
"""


class Part(NamedTuple):
    """Segments of which a cell has the keys of one partition, those that the partition was divided from."""

    names: tuple[str, ...]
    """The files of the segments, oldest first."""
    keys: PartitionKeys | None
    """Which hashes its keys have (`stable_hash`); None: it has all that is in the segments."""


class SegmentsChange(NamedTuple):
    """In a snapshot file: a keyed cell that is held in segments. A small cell has its full change there."""

    application_window: int
    names: tuple[str, ...]
    """The files of its segments, oldest first."""
    changed: list[object]
    """The keys that the application window changed so far."""
    parts: tuple[Part, ...] = ()
    """If it was moved here from other partitions: what of the segments it has. No key is in two parts."""
    values: Mapping[object, object] | None = None
    """Values that are set beside its segments."""
    removed: Sequence[object] = ()
    """Keys that are removed from its segments, before `values` are set."""


class Segments(KeyedBase):
    """The segments of one cell as one mapping: what `KeyedCell.attach` takes.

    They come in parts, of each the oldest first. As a rule there is one; a cell that was moved here has one
    for each cell that it was divided from. No key is in two parts.
    """

    def __init__(self, *parts: Sequence[Segment]) -> None:
        self._parts = parts
        self.segments = tuple(chain.from_iterable(parts))
        self.whole = len(parts) == 1 and all(segment.own is None for segment in self.segments)
        """False if other cells have a part of what is in the segments."""
        self._live: int | None = None
        self._lookups = [
            [(segment.place_of, segment.value_column.one) for segment in part[::-1]] for part in parts
        ]

    @property
    def of_whole_numbers(self) -> bool:
        """Whether all keys are of type int, and all that is in the segments is this cell's."""
        return self.whole and all(segment.key_column.kind == "i" for segment in self.segments)

    def __len__(self) -> int:
        if self._live is None:
            self._live = (
                self.segments[-1].live if self.whole else sum(int(one.sum()) for one in self.visible())
            )
        return self._live

    def __contains__(self, key: object) -> bool:
        """Whether the key is there. As `find`, without reading the value."""
        hashed = keyed_hash.wanted_hash(key)
        for lookups in self._lookups:
            for place_of, _ in lookups:
                place = place_of(hashed, key)
                if place >= 0:
                    return True
                if place == TOMBSTONE:
                    break
        return False

    def find(self, key: object, default: object) -> object:
        """The value of a key, a new object if it can change in place; `default` if there is none."""
        hashed = keyed_hash.wanted_hash(key)
        for lookups in self._lookups:
            for place_of, value_at in lookups:
                place = place_of(hashed, key)
                if place >= 0:
                    return value_at(place)
                if place == TOMBSTONE:
                    break
        return default

    def has_many(self, keys: Keys) -> Mask:
        """For each key, whether it exists."""
        there = np.zeros(len(keys), np.bool_)
        for _, which, _ in self.entries_of(Wanted(keys)):
            there[which] = True
        return there

    def find_many(self, keys: Keys) -> tuple[Mask, Values]:
        """For each key, whether it exists, and its value."""
        there = np.zeros(len(keys), np.bool_)
        parts = []
        for segment, which, places in self.entries_of(Wanted(keys)):
            there[which] = True
            parts.append((which, segment.value_column.many(places)))
        return there, _merged(parts, len(keys))

    def entries_of(self, wanted: Wanted) -> Iterator[tuple[Segment, Places, Places]]:
        """Where those of some keys (by number) are that exist, as (segment, which, places of the entries)."""
        for part in self._parts:
            rest = np.arange(len(wanted.hashes))
            for segment in part[::-1]:
                places = segment.places_of(wanted, rest)
                found = places >= 0
                here = found.copy()
                here[found] = segment.there[places[found]]
                if here.any():
                    yield segment, rest[here], places[here]
                rest = rest[~found]

    def __iter__(self) -> Iterator[Any]:
        for segment, places in self._chunks():
            yield from segment.key_column.many(places).tolist()

    def items(self) -> Iterator[tuple[Any, Any]]:
        """All keys and values."""
        for segment, places in self._chunks():
            columns = segment.key_column, segment.value_column
            yield from zip(*(column.many(places).tolist() for column in columns), strict=True)

    def _chunks(self) -> Iterator[tuple[Segment, Places]]:
        """Where the entries are of all keys that exist."""
        for segment, seen in zip(self.segments, self.visible(), strict=True):
            places = np.flatnonzero(seen)
            for start in range(0, len(places), _CHUNK):
                yield segment, places[start : start + _CHUNK]

    def visible(self) -> list[Mask]:
        """Of each segment, the entries of keys that exist, are its own, and that no newer segment has."""
        return [seen for part in self._parts for seen in _visible(part)]


def _visible(segments: Sequence[Segment]) -> list[Mask]:
    """The same of one part."""
    visible = [segment.there.copy() for segment in segments]
    for number, segment in enumerate(segments):
        for start in range(0, segment.keys if number else 0, _CHUNK):
            stop = min(start + _CHUNK, segment.keys)
            wanted = Wanted(
                segment.key_column.part(start, stop, segment.key_column.kind), segment.hashes[start:stop]
            )
            every = np.arange(len(wanted.hashes))
            for older, seen in zip(segments[:number], visible, strict=False):
                places = older.places_of(wanted, every)
                seen[places[places >= 0]] = False
    return visible


def _merged(parts: Sequence[tuple[Places, Values]], size: int) -> Values:
    """One array of values that stand at some places each."""
    types = {values.dtype for _, values in parts}
    whole = np.empty(size, types.pop() if len(types) == 1 else object)
    for which, values in parts:
        whole[which] = (
            values if whole.dtype == values.dtype else np.fromiter(values.tolist(), object, len(values))
        )
    return whole


def compact(cell: KeyedCell[object], write: Write) -> SegmentsChange | None:
    """Write what a cell holds beside its segments as a new segment, merged with the small ones of them.

    The cell stays as it is.

    To use what it returns: `attach` a new or reset cell of the declaration to `Segments` of the opened files
    `names`, with `application_window` and `changed`. `names` are what `write` returned and, of segments that
    stay, what stands after the last `/` of their `name`.

    Returns None and writes nothing in two cases. The cell has less than `SEGMENT_KEYS` keys, or a key whose
    hash differs between processes. Then write `cell.snapshot()`. Nothing is written either if nothing changed
    since the segments: then `names` are theirs. Segments that it shares with other cells are written again.
    Raises what
    `write` raises.

    Memory: for each key held beside the segments some 100 bytes and its value encoded; for each key merged 12
    bytes; and some 100 MB.
    """
    held = cell.held()
    segments = held.base if isinstance(held.base, Segments) else None
    if held.table is not None and not (segments and segments.of_whole_numbers):
        held = cell.held(table=False)
    least = SEGMENT_KEYS // 2 if segments else SEGMENT_KEYS
    live = len(segments) if segments and held.table else len(cell)
    if live < least and len(cell) < least:
        return None
    stay = list(segments.segments) if segments else []
    names: tuple[str, ...] = ()
    alone = segments is None or segments.whole
    if held.values or held.table or held.removed or not alone:
        try:
            if held.table is None:
                new = _entries(held)
            else:
                new, added = _rows(held.table, segments)
                live += added
        except UnstableKeyError:
            return None
        sources: list[Source] = [new]
        while not alone and stay:
            sources.append(stay.pop())
        while stay and stay[-1].keys < _TIER * sum(len(source.hashes) for source in sources):
            sources.append(stay.pop())
        merge = Merge(sources, oldest=not stay)
        names = (write(lambda name: merge.file(name, live)),)
    return SegmentsChange(
        held.application_window,
        (*(segment.name.rpartition("/")[2] for segment in stay), *names),
        held.changed,
    )


def _rows(table: NumberTable, segments: Segments | None) -> tuple[Entries, int]:
    """The entries of what lies in a table, and how many keys are new.

    They are looked up in the order of hashes: so the segments are read in turn.
    """
    hashes = keyed_hash.hash_many(table.keys)
    sorted_ = np.argsort(hashes, kind="stable")
    hashes, keys = hashes[sorted_], table.keys[sorted_]
    known = 0
    if segments:
        for _, which, _ in segments.entries_of(Wanted(keys, hashes)):
            known += len(which)
    columns = numbers(keys), numbers(table.values[sorted_])
    size = 9 * len(table) + sum(column.size_bytes for column in columns)
    return Entries(hashes, np.ones(len(table), np.bool_), *columns, size), len(table) - known


def _entries(held: Held) -> Entries:
    """The entries of a cell. Raises UnstableKeyError."""
    keys, values = [*held.values, *held.removed], list(held.values.values())
    there = np.arange(len(keys)) < len(values)
    hashes = keyed_hash.hash_many(keys)
    sorted_ = np.argsort(hashes, kind="stable")
    kind = kind_of(values)
    columns = encode(keys, kind_of(keys)), encode([*values, *[zero(kind)] * len(held.removed)], kind)
    key_column, value_column = (column.gathered(sorted_) for column in columns)
    size = 9 * len(keys) + key_column.size_bytes + value_column.size_bytes
    return Entries(hashes[sorted_], there[sorted_], key_column, value_column, size)
