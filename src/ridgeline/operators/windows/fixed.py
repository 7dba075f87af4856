"""Tumbling and sliding windows. In state: by (start, *key) the parts of a window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ridgeline.api.columns.combined import Combination, Combined, Combiner
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.times import EARLIEST, Times
from ridgeline.operators import _vectors as vectors
from ridgeline.operators._exact import Index
from ridgeline.operators._vectors import by_time, few_distinct, first_rows, is_constant, numbered
from ridgeline.operators.aggregate.exact import rules_of
from ridgeline.operators.aggregate.rules import Aggregate, Rows, Rules
from ridgeline.operators.windows import Sliding
from ridgeline.operators.windows.columns import NEVER, Key, Parts, Records, Result, WindowKind, new_records

_PIECE = 512


def last_starts(windows: Sliding, times: Index) -> Index:
    """The start of the last window that each time is in; a view of one value if all are in the same."""
    if len(times):
        starts = windows.last_starts(np.array([times.min(), times.max()], np.int64))
        if starts[0] == starts[1]:
            return np.broadcast_to(starts[0], len(times))
    return windows.last_starts(times)


class FixedWindows(WindowKind):
    """Windows of one size."""

    windows: Sliding

    def bounds(self, times: Index) -> tuple[Index, Index]:
        """Late once the last window has ended."""
        starts = last_starts(self.windows, times)
        if len(starts) and is_constant(starts):
            return starts, np.broadcast_to(self.windows.ends(starts[:1])[0], len(times))
        return starts, self.windows.ends(starts)

    def add(self, records: Records) -> None:
        """Add records, or partial results of some, to all their windows that are not over."""
        batch, times, starts, codes, keys, closed, given = records
        windows, columns = self.windows, self.columns
        # by time, as `first` and `last` take the order of rows within a group
        rows = by_time(times) if columns.ordered else None
        copies = windows.size // windows.slide
        if rows is not None:
            starts = starts[rows]
        if copies > 1:
            # copy by copy, so that equal starts are in runs
            starts = windows.starts(starts).T.ravel()
            rows = np.tile(np.arange(len(times)) if rows is None else rows, copies)
        firsts, numbers = few_distinct(starts)
        ends = windows.ends(firsts)
        if copies > 1 and rows is not None:
            held = ends[numbers] > closed
            if not held.all():
                numbers, rows = numbers[held], rows[held]
        if rows is not None:
            codes, times = codes[rows], times[rows]
        if len(firsts) > 1:
            codes = numbers * len(keys) + codes
        if len(firsts) == copies == 1:
            found, groups = np.arange(len(keys)), codes  # each key has a row
        else:
            found, groups = numbered(codes, len(firsts) * len(keys))
        owners = (found // len(keys)).tolist()
        begins = firsts.tolist()
        names = [
            (begins[owner], *keys[code])
            for owner, code in zip(owners, (found % len(keys)).tolist(), strict=True)
        ]
        if given is None:
            parts = columns.parts(Rows(batch, rows, times, groups, len(names)))
        else:
            parts = self._merged(given, rows, groups, len(names))
        self._merge_all(names, parts)
        self.operator.due = min(self.operator.due, int(ends[owners[0]]))

    def _merged(self, given: Sequence[Parts], rows: Index | None, groups: Index, count: int) -> list[Parts]:
        """The parts of each group of partial results, those of the first rows first."""
        found: list[Any] = [None] * count
        parts = given if rows is None else [given[row] for row in rows.tolist()]
        for group, part in zip(groups.tolist(), parts, strict=True):
            before = found[group]
            found[group] = part if before is None else self.columns.merged(before, part)
        return found

    def _merge_all(self, names: list[Key], parts: list[Parts]) -> None:
        """In pieces: of many new objects at once Python would look for garbage among all."""
        for begin in range(0, len(names), _PIECE):
            self._merge(names[begin : begin + _PIECE], parts[begin : begin + _PIECE])

    def _merge(self, names: list[Key], parts: list[Parts]) -> None:
        """Add the parts of windows to those that are held."""
        state, columns = self.operator.open, self.columns
        held = state.peek_many(names)
        there = [place for place, before in enumerate(held) if before is not None]
        if there:
            merged = columns.merged_all([held[place] for place in there], [parts[place] for place in there])
            for place, both in zip(there, merged, strict=True):
                parts[place] = both
        columns.check(parts, lambda place: names[place][1:])
        state.put_many(names, parts)

    def close(self, closed: int) -> list[Result]:
        """By the ends of windows."""
        names, state = list(self.operator.open), self.operator.open
        firsts = list({name[0] for name in names})
        ends = dict(zip(firsts, self.windows.ends(np.array(firsts, np.int64)).tolist(), strict=True))
        self.operator.due = min((end for end in ends.values() if end > closed), default=NEVER)
        return [
            Result(name[0], ends[name[0]], name[1:], state.pop(name))
            for name in names
            if ends[name[0]] <= closed
        ]

    def last_end(self) -> int:
        """Of the last one that has begun."""
        starts = [name[0] for name in self.operator.open]
        return self._end((max(starts),)) if starts else EARLIEST

    def _end(self, name: Key) -> int:
        return int(self.windows.ends(np.array(name[:1], np.int64))[0])

    def early(
        self, name: Any, value: Parts, least: int, left: Callable[[Parts], Parts]
    ) -> tuple[list[Result], Parts]:
        """Its one window."""
        if new_records(value) < least:
            return [], value
        return [Result(name[0], self._end(name), name[1:], value)], left(value)


LEAST_RECORDS = 2_048
"""Of fewer records a batch is sent as it is: to combine them would cost more than to send them."""
LEAST_A_ROW = 16
"""The least number of records that become one row, on average; with fewer, rows cost more than they save."""


@dataclass(frozen=True)
class WindowCombiner(Combiner):
    """Makes partial results of each batch by key and window, before it is sent.

    A row is of one key and of one slide: all its records are in the same windows, and late or not together.
    So the operator that merges rows decides all that depends on watermark, clock and state, as for records.
    """

    windows: Sliding
    key: tuple[str, ...]
    values: tuple[Aggregate, ...]

    @cached_property
    def _rules(self) -> list[Rules]:
        return [rules_of(one) for one in self.values]

    def combine(self, tuples: Tuples) -> Combination | None:
        """None for few records, for many keys, and if a record has no time that windows know."""
        times = tuples.times
        if len(tuples) < LEAST_RECORDS or times is None or not vectors.timed(times.newest).all():
            return None
        batch, newest = tuples.batch, times.newest
        groups, count = self._groups(tuples, newest)
        if count * LEAST_A_ROW > len(newest):
            return None
        firsts = first_rows(groups, count)
        if (firsts[1:] < firsts[:-1]).any():  # rows come in the order in which their keys do
            order = np.argsort(firsts)
            places = np.empty(count, np.int64)
            places[order] = np.arange(count)
            firsts, groups = firsts[order], places[groups]
        ordered = any(one.ordered for one in self._rules)
        rows = vectors.by_time(newest) if ordered else None
        taken = (newest, groups) if rows is None else (newest[rows], groups[rows])
        records = Rows(batch, rows, *taken, count)
        parts = list(zip(*[one.parts(records) for one in self._rules], strict=True))
        starts = self.windows.last_starts(newest[firsts])
        combined = Combined(
            tuples.schema,
            (owners := tuples.take(firsts)).batch.select(list(self.key)),
            starts,
            np.bincount(groups, minlength=count),
            _extremes(times, groups, firsts, count),
            parts,
        )
        return Combination(combined, owners, groups)

    def _groups(self, tuples: Tuples, times: Index) -> tuple[Index, int]:
        """For each record the number of its row, and how many rows there are."""
        codes, keys = np.zeros(len(times), np.int64), 1
        if self.key:
            codes, found = vectors.key_codes([tuples.batch.column(name) for name in self.key])
            keys = len(found)
        begins, numbers = vectors.few_distinct(last_starts(self.windows, times))
        if len(begins) == 1:
            return codes, keys
        rows, groups = vectors.numbered(numbers * keys + codes, len(begins) * keys)
        return groups, len(rows)


def _extremes(times: Times, groups: Index, firsts: Index, count: int) -> Times:
    """The newest and the oldest time of each group. `firsts`: the first row of each."""
    newest, oldest = times.newest, times.newest if times.oldest is None else times.oldest
    if times.oldest is None and (newest[1:] >= newest[:-1]).all():
        lasts = np.zeros(count, np.int64)
        lasts[groups] = np.arange(len(groups))
        return Times(newest[lasts], newest[firsts])
    last, first = newest[firsts], oldest[firsts]
    np.maximum.at(last, groups, newest)
    np.minimum.at(first, groups, oldest)
    return Times(last, first)
