"""Windows of so many records of a key, in the order in which they come.

In state: by key one window, as a session has it: (time of the oldest record, of the newest, parts). The last
part is the number of its records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ridgeline.api.times import LATEST
from ridgeline.operators._exact import Index
from ridgeline.operators._sessions import Parts, Span
from ridgeline.operators._windows import Counted
from ridgeline.operators.aggregates.value import Rows
from ridgeline.operators.windows.columns import Result
from ridgeline.operators.windows.kind import NEVER, Key, Records, WindowKind

_END = 2 * LATEST


class CountedWindows(WindowKind):
    """A window is over once it has `every` records, or the input has ended."""

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

    def flush(self, closed: int) -> list[Result]:
        """All of them."""
        return self.close(_END)

    def over_after(self, result: Result) -> int:
        """No record is ever too late."""
        return 0
