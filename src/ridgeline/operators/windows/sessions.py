"""Sessions, and the one window of all records. In state: by key the open ones, the oldest first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress, groupby
from operator import itemgetter
from typing import Any

import numpy as np

from ridgeline.api.times import LATEST
from ridgeline.operators._exact import Index
from ridgeline.operators._sessions import Parts, Span, joined
from ridgeline.operators._window_parts import runs
from ridgeline.operators._windows import Global, Session
from ridgeline.operators.aggregates.value import Rows
from ridgeline.operators.windows.columns import Columns, Result
from ridgeline.operators.windows.kind import NEVER, Holder, Key, Records, WindowKind, new_records

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

    def last_end(self, name: Any, value: Sequence[Span]) -> int:
        """The last session's."""
        return max(span[1] for span in value) + self.gap

    def early(
        self, name: Any, value: Sequence[Span], least: int, left: Callable[[Parts], Parts]
    ) -> tuple[list[Result], tuple[Span, ...]]:
        """Those with so many new records."""
        due = [new_records(span[2]) >= least for span in value]
        after = (
            (*span[:2], left(span[2])) if is_due else span for span, is_due in zip(value, due, strict=True)
        )
        return [self._result(name, span) for span in compress(value, due)], tuple(after)
