"""The interface of kinds of windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from ridgeline.api.cells.keyed_state import KeyedCell
from ridgeline.operators._exact import Index
from ridgeline.operators._sessions import Parts
from ridgeline.operators.windows.columns import Columns, Result

NEVER = int(np.iinfo(np.int64).max)
Key = tuple[Any, ...]


class Records(NamedTuple):
    """Records of a batch. `starts`: as `WindowKind.bounds` has them.

    `codes`: of each record the number of its key in `keys`. `over`: by when windows of its key are over.
    `parts`: of partial results in place of records, of each one for each aggregate.
    """

    batch: pa.RecordBatch
    times: Index
    starts: Index
    codes: Index
    keys: Sequence[Key]
    over: Index
    parts: Sequence[Parts] | None = None


class Holder(Protocol):
    """The operator that holds the state of its windows."""

    open: KeyedCell[Any, Any]
    waiting: KeyedCell[Any, Any]
    due: int

    def emit_final(self, over: list[Result]) -> None:
        """Emit windows whose time is over."""


class WindowKind:
    """The windows of one kind of one operator; their state is the operator's.

    `columns`: the aggregates. `windows`: the property of the operator. Times are microseconds since 1970.
    """

    def __init__(self, operator: Holder, columns: Columns, windows: Any) -> None:
        self.operator = operator
        self.columns = columns
        self.windows = windows

    def bounds(self, times: Index) -> tuple[Index, Index]:
        """For each time where its last window begins, and from when on a record of this time is late."""
        raise NotImplementedError

    def add(self, records: Records) -> None:
        """Add records that are not late."""
        raise NotImplementedError

    def close(self, closed: int) -> list[Result]:
        """Forget the windows that end by then; returns them."""
        raise NotImplementedError

    def last_end(self, name: Any, value: Any) -> int:
        """When the last window ends that a state has by this name."""
        raise NotImplementedError

    def flush(self, closed: int) -> list[Result]:
        """Forget all open windows; returns them. `closed`: windows that end by then are over anyway."""
        return self.close(max((self.last_end(*one) for one in self.operator.open.items()), default=0))

    def over_after(self, result: Result) -> int:
        """Records whose windows end by then are late once this result was emitted."""
        return result.end

    def early(
        self, name: Any, value: Any, least: int, left: Callable[[Parts], Parts]
    ) -> tuple[list[Result], Any]:
        """The open windows in a state that have at least so many new records, and the state after them.

        `left`: what is left of the parts of such a window.
        """
        raise NotImplementedError


def new_records(parts: Parts) -> int:
    """How many records came since the last result."""
    return parts[-1] or 0
