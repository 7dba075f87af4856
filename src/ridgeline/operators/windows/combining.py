"""Partial results of tumbling and sliding windows, made of each batch before it is sent by key.

A row is of one key and of one slide: all its records are in the same windows, and late or not together. So
the operator that merges rows decides all that depends on watermark, clock and state, as for records.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ridgeline.api.columns.combined import Combination, Combined, Combiner
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.times import Times
from ridgeline.operators import _window_parts as vectors
from ridgeline.operators._exact import Index
from ridgeline.operators._windows import Sliding
from ridgeline.operators.aggregates.rules import Rules, rules_of
from ridgeline.operators.aggregates.value import Aggregate, Rows
from ridgeline.operators.key_value import first_rows
from ridgeline.operators.windows.fixed import last_starts

LEAST_RECORDS = 2_048
"""Of fewer records a batch is sent as it is: to combine them would cost more than to send them."""
LEAST_A_ROW = 16
"""The least number of records that become one row, on average; with fewer, rows cost more than they save."""


@dataclass(frozen=True)
class WindowCombiner(Combiner):
    """Combines records by the columns of a key and by windows."""

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
