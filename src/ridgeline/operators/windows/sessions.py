"""Sessions, the one window of all records, and windows of so many records. In state: by key the open ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress, groupby
from operator import itemgetter
from typing import Any

import numpy as np

from ridgeline.api.times import EARLIEST, LATEST
from ridgeline.operators._exact import Index
from ridgeline.operators._vectors import runs
from ridgeline.operators.aggregate.rules import Rows
from ridgeline.operators.windows import Counted, Global, Session
from ridgeline.operators.windows.columns import (
    NEVER,
    Columns,
    Holder,
    Key,
    Parts,
    Records,
    Result,
    Span,
    WindowKind,
    new_records,
)


def joined(
    known: Sequence[Span], new: Sequence[Span], gap: int, merged: Callable[[Parts, Parts], Parts]
) -> tuple[Span, ...]:
    """The sessions of a key, the oldest first: known ones, and those of a batch that may join them.

    Sessions that are less than `gap` apart are one.

    Both are in the order of their times. `merged` merges parts; those of the first came before.

    >>> one, two = (0, 4, ("a",)), (20, 20, ("b",))
    >>> joined((one, two), [(9, 12, ("c",))], 10, lambda first, second: (first[0] + second[0],))
    ((0, 20, ('abc',)),)
    """
    if not known and len(new) == 1:
        return tuple(new)
    members: list[list[tuple[bool, Span]]] = []
    ends = 0
    every = [(False, span) for span in known] + [(True, span) for span in new]
    for one in sorted(every, key=lambda one: one[1][0]):
        start, end, _ = one[1]
        if members and start - ends < gap:
            members[-1].append(one)
            ends = max(ends, end)
        else:
            members.append([one])
            ends = end
    return tuple(_one(group, merged) for group in members)


def _one(group: Sequence[tuple[bool, Span]], merged: Callable[[Parts, Parts], Parts]) -> Span:
    """A session of several; the parts of new ones come after those of known ones."""
    if len(group) == 1:
        return group[0][1]
    spans = [span for _, span in sorted(group, key=lambda one: one[0])]
    parts = spans[0][2]
    for span in spans[1:]:
        parts = merged(parts, span[2])
    return min(span[0] for span in spans), max(span[1] for span in spans), parts


UNENDING = 4 * LATEST
"""The gap of a session that holds all records."""


class SessionWindows(WindowKind):
    """Windows of records that are less than `gap` apart."""

    def __init__(self, operator: Holder, columns: Columns, windows: Session | Global) -> None:
        super().__init__(operator, columns, windows)
        self.gap = UNENDING if isinstance(windows, Global) else windows.gap

    def bounds(self, times: Index) -> tuple[Index, Index]:
        """Late once a session of such a record alone has ended."""
        return times, times + self.gap

    def add(self, records: Records) -> None:
        """Join records with the open sessions."""
        batch, times, _, codes, keys, *_ = records
        state, gap = self.operator.open, self.gap
        rows, groups = runs(codes, times, gap)
        count = int(groups[-1]) + 1
        begins = np.searchsorted(groups, np.arange(count))
        ends = np.append(begins[1:], len(rows)) - 1
        newest = times[rows[ends]].tolist()
        parts = self.columns.parts(Rows(batch, rows, times[rows], groups, count))
        new_spans = zip(times[rows[begins]].tolist(), newest, parts, strict=True)
        owners = codes[rows[begins]].tolist()
        held: list[tuple[Key, Parts]] = []
        for owner, own in groupby(zip(owners, new_spans, strict=True), key=itemgetter(0)):
            key = keys[owner]
            spans = joined(state.get(key, ()), [span for _, span in own], gap, self.columns.merged)
            held += [(key, span[2]) for span in spans]
            state[key] = spans
        self.columns.check([parts for _, parts in held], lambda place: held[place][0])
        self.operator.due = min(self.operator.due, min(newest) + gap)

    def _result(self, key: Key, span: Span) -> Result:
        start, newest, parts = span
        return Result(start, newest if self.gap == UNENDING else newest + self.gap, key, parts)

    def close(self, closed: int) -> list[Result]:
        """By the newest record of each."""
        state, gap = self.operator.open, self.gap
        found, due = [], NEVER
        for key, spans in list(state.items()):
            left = tuple(span for span in spans if span[1] + gap > closed)
            if len(left) < len(spans):
                found += [self._result(key, span) for span in spans if span[1] + gap <= closed]
                if left:
                    state[key] = left
                else:
                    del state[key]
            due = min([due, *(span[1] + gap for span in left)])
        self.operator.due = due
        return found

    def last_end(self) -> int:
        """Of the one with the newest record."""
        spans = [spans[-1] for spans in self.operator.open.values()]
        return max((span[1] + self.gap for span in spans), default=EARLIEST)

    def early(
        self, name: Any, value: Sequence[Span], least: int, left: Callable[[Parts], Parts]
    ) -> tuple[list[Result], tuple[Span, ...]]:
        """Those with so many new records."""
        due = [new_records(span[2]) >= least for span in value]
        after = (
            (*span[:2], left(span[2])) if is_due else span for span, is_due in zip(value, due, strict=True)
        )
        return [self._result(name, span) for span in compress(value, due)], tuple(after)


_END = 2 * LATEST


class CountedWindows(WindowKind):
    """A window is over once it has `every` records, or the input has ended.

    In state: by key one window, as a session has it. The last of its parts is the number of its records.
    """

    windows: Counted

    def bounds(self, times: Index) -> tuple[Index, Index]:
        """Never late."""
        return times, np.full(len(times), _END)

    def add(self, records: Records) -> None:
        """Fill windows; emits those that are full."""
        batch, times, _, codes, keys, *_ = records
        state, columns, every = self.operator.open, self.columns, self.windows.every
        known: list[Span | None] = [state.get(key) for key in keys]
        filled = np.array([0 if one is None else one[2][-1] for one in known], np.int64)
        order = np.argsort(codes, kind="stable")  # by key, in the order of arrival
        sizes = np.bincount(codes, minlength=len(keys))
        ranks = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        numbers = np.empty(len(codes), np.int64)
        numbers[order] = (ranks + filled[codes[order]]) // every
        rows = np.argsort(times, kind="stable")
        found, groups = np.unique(codes[rows] * (len(codes) + 1) + numbers[rows], return_inverse=True)
        count = len(found)
        oldest, newest = np.full(count, NEVER), np.full(count, -NEVER)
        np.minimum.at(oldest, groups, times[rows])
        np.maximum.at(newest, groups, times[rows])
        new = zip(
            oldest.tolist(),
            newest.tolist(),
            columns.parts(Rows(batch, rows, times[rows], groups, count)),
            (found // (len(codes) + 1)).tolist(),
            strict=True,
        )
        full: list[Result] = []
        held: list[tuple[Key, Parts]] = []
        for *added, code in new:
            before, key = known[code], keys[code]
            known[code] = None  # what comes after it begins a window
            start, end, parts = added if before is None else self._joined(before, added)
            held.append((key, parts))
            if parts[-1] == every:
                full.append(Result(start, end, key, parts))
                state.pop(key, None)
            else:
                state[key] = (start, end, parts)
        columns.check([parts for _, parts in held], lambda place: held[place][0])
        self.operator.due = 0
        self.operator.emit_final(full)

    def _joined(self, one: Span, other: Sequence[Any]) -> Span:
        return min(one[0], other[0]), max(one[1], other[1]), self.columns.merged(one[2], other[2])

    def close(self, closed: int) -> list[Result]:
        """Those that are not full, once the input has ended."""
        if closed < _END:
            return []
        found = [Result(start, end, key, parts) for key, (start, end, parts) in self.operator.open.items()]
        self.operator.open.clear()
        self.operator.due = NEVER
        return found

    def last_end(self) -> int:
        """No record is ever too late."""
        return _END
