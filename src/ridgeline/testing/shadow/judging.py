"""Compare what an output published in a window with what another version would have."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ridgeline.api.columns.schema import Schema, holds_pickles
from ridgeline.testing.matching import Row, Tolerance, changes, match, row_of

_CHUNK = 16_384
_MOST_MATCHED = 50_000
"""Rows without an equal that are looked at one by one; of more, only their number is known."""
_MOST_SHOWN = 5
Batches = Sequence[pa.RecordBatch]


@dataclass(slots=True)
class Counts:
    """How the rows of an output compare.

    `before`, `after`: how many rows the one that runs published, and the other would have. `differ`: rows
    with the same first column and other values. `columns`: how the columns differ, "" if they do not.
    """

    before: int = 0
    after: int = 0
    differ: int = 0
    only_before: int = 0
    only_after: int = 0
    columns: str = ""

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not (self.differ or self.only_before or self.only_after or self.columns)

    def add(self, other: Counts) -> None:
        """Count those of another window, too; the first difference of columns is kept."""
        self.before += other.before
        self.after += other.after
        self.differ += other.differ
        self.only_before += other.only_before
        self.only_after += other.only_after
        self.columns = self.columns or other.columns


@dataclass(slots=True)
class Verdict(Counts):
    """The comparison of one output in one window. `shown`: some of the differences, as texts."""

    shown: list[str] = field(default_factory=list)


def judge(before: Batches, after: Batches, tolerance: Tolerance) -> Verdict:
    """Compare the rows of an output in a window. Their order does not count, how often each comes does."""
    found = Verdict(_count(before), _count(after))
    if not found.before and not found.after:
        return found
    if found.before and found.after:
        found.columns, before, after = _alike(before, after)
        if found.before == found.after and _same(before, after):
            return found
    left, right = _surplus(before, after)
    if not len(left) and not len(right):
        return found
    if max(len(left), len(right)) > _MOST_MATCHED:
        found.only_before, found.only_after = len(left), len(right)
        pairs = list(changes(_rows(before, left[:_MOST_SHOWN]), _rows(after, right[:_MOST_SHOWN])))
    else:
        rest = match(_rows(before, left), _rows(after, right), tolerance, ordered=False)
        pairs = list(changes(rest.only_a, rest.only_b))
        both = sum(one is not None and other is not None for one, other in pairs)
        found.differ = both
        found.only_before = sum(other is None for _, other in pairs)
        found.only_after = sum(one is None for one, _ in pairs)
    found.shown = [_shown(*pair) for pair in sorted(pairs, key=lambda pair: None in pair)[:_MOST_SHOWN]]
    return found


def _shown(one: Row | None, other: Row | None) -> str:
    if one is not None and other is not None:
        return one.beside(other, "published", "by the new version")
    return f"only published: {one}" if one is not None else f"only by the new version: {other}"


def _count(batches: Batches) -> int:
    return sum(batch.num_rows for batch in batches)


def _alike(before: Batches, after: Batches) -> tuple[str, Batches, Batches]:
    """How columns differ, and the rows with those that both have, of one type where no value changes."""
    old, new = before[0].schema, after[0].schema
    if old.equals(new) or holds_pickles(before[0]) or holds_pickles(after[0]):
        return "", before, after
    texts = [f"`{name}` is gone" for name in old.names if name not in new.names]
    texts += [f"`{name}` is new" for name in new.names if name not in old.names]
    common = [name for name in old.names if name in new.names]
    fields = {name: (old.field(name).type, new.field(name).type) for name in common}
    texts += [f"`{name}` is {b} in the place of {a}" for name, (a, b) in fields.items() if a != b]
    wanted = [pa.field(name, b) for name, (_, b) in fields.items()]
    try:
        cast = [batch.select(common).cast(pa.schema(wanted)) for batch in before]
    except pa.ArrowException:
        cast = [batch.select(common) for batch in before]
    return ", ".join(texts), cast, [batch.select(common) for batch in after]


def _same(before: Batches, after: Batches) -> bool:
    """Whether the rows are the same in the same order: quicker than to look at each."""
    try:
        return bool(
            pa.Table.from_batches(before)
            .combine_chunks()
            .equals(pa.Table.from_batches(after, before[0].schema).combine_chunks())
        )
    except pa.ArrowException:
        return False


def _surplus(before: Batches, after: Batches) -> tuple[Any, Any]:
    """The places of rows of which one side has more, by digests of 8 bytes each: rows need not fit twice."""
    left, right = _digests(before), _digests(after)
    return _more(left, right), _more(right, left)


def _more(own: Any, other: Any) -> Any:
    """Places in `own` of those that are there more often than in `other`."""
    order = np.argsort(own, kind="stable")
    values, starts, counts = np.unique(own[order], return_index=True, return_counts=True)
    theirs, numbers = np.unique(other, return_counts=True)
    places = np.searchsorted(theirs, values)
    known = np.zeros(len(values), np.int64)
    there = places < len(theirs)
    there[there] = theirs[places[there]] == values[there]
    known[there] = numbers[places[there]]
    found = [
        order[start + count - more : start + count]
        for start, count, more in zip(starts, counts, counts - known, strict=True)
        if more > 0
    ]
    return np.sort(np.concatenate(found)) if found else np.zeros(0, np.int64)


def _digests(batches: Batches) -> Any:
    found = bytearray()
    for value in _values(batches):
        row = row_of(value)
        text = repr((row.shape, row.numbers)).encode()
        found += hashlib.blake2b(text, digest_size=8).digest()
    return np.frombuffer(bytes(found), np.uint64)


def _values(batches: Batches) -> Iterator[Any]:
    """The rows as plain values: those of `object` as themselves, others by column."""
    for batch in batches:
        for start in range(0, batch.num_rows, _CHUNK):
            piece = batch.slice(start, _CHUNK)
            yield from Schema(object).decode(piece) if holds_pickles(piece) else piece.to_pylist()


def _rows(batches: Batches, places: Any) -> list[Row]:
    """The rows at some places, which are sorted."""
    found, wanted, start = [], list(map(int, places)), 0
    for batch in batches:
        own = [place - start for place in wanted if start <= place < start + batch.num_rows]
        start += batch.num_rows
        if own:
            found += [row_of(value) for value in _values([batch.take(pa.array(own))])]
    return found
