"""A stream read as a table: the latest row of each key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ridgeline.api import InputPort, KeyedState, OutputPort, metric
from ridgeline.operators._divided import Columns, DividedOperator
from ridgeline.operators._joined import rows_of
from ridgeline.operators._window_parts import filtered


class LatestByKey(DividedOperator):
    """Read a stream as a table with one row a key, and pass on the rows that change it.

    Input: any stream with columns. Output: the rows that differ from the row of their key before, in their
    order. So the output has every change of the table, and no repetition; `TableJoin` and outputs that write
    by key read it.

    `key`: a column, or several. The latest row is the one that came last. `deleted`: a column of booleans. A
    row in which it is true deletes its key, and is passed on. It is so also if the table does not have the
    key: by its time it may come before a row that is there already.

    State: the latest row of each key that is not deleted. The metric `held_rows` says how many.

    Partitions: by key. Round robin is refused with RidgelineError: rows of a key would not meet.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import LatestByKey
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class User(NamedTuple):
        ...     name: str
        ...     country: str
        ...     gone: bool
        >>> rows = [("ann", "CH", False), ("ann", "CH", False), ("ann", "NO", False), ("bob", "", True)]
        >>> app = Application("users")
        >>> source = app.add_operator("source", ListInput(User, rows))
        >>> users = app.add_operator("users", LatestByKey(key="name", deleted="gone"))
        >>> sink = app.add_operator("sink", CollectorSink(User))
        >>> app.add_stream("rows", source.output, users.input)
        >>> app.add_stream("changes", users.output, sink.input)
        >>> [(user.name, user.country) for user in run_local(app).collected("sink")]
        [('ann', 'CH'), ('ann', 'NO'), ('bob', '')]
    """

    state_depends_on = ("input", "key")

    input = InputPort(Any)
    output = OutputPort(Any)

    key: Columns
    deleted: str | None = None

    latest = KeyedState(tuple)
    """By key, the values of the other columns."""

    @metric(help="Rows of the table.")
    def held_rows(self) -> int:
        """The number of rows of the table."""
        return len(self.latest)

    @input.process_batch
    def note(self, batch: pa.RecordBatch) -> None:
        """Take the rows of a batch into the table; pass on those that change it."""
        codes, keys = self.own_keys(batch)
        rows = rows_of(batch, [name for name in batch.schema.names if name not in self.key_names])
        gone = deletions(batch, self.deleted)
        changes = np.zeros(len(batch), np.bool_)
        latest, before = self.latest, [self.latest.get(key) for key in keys]
        now = list(before)
        for place, (code, row, over) in enumerate(zip(codes.tolist(), rows, gone, strict=True)):
            new = None if over else row
            if over or now[code] != new:
                now[code], changes[place] = new, True
        for key, old, new in zip(keys, before, now, strict=True):
            if new is None:
                latest.pop(key, None)
            elif old != new:
                latest[key] = new
        self.output.emit_batch(filtered(batch, changes), rows=changes)


def deletions(batch: pa.RecordBatch, deleted: str | None) -> list[bool]:
    """For each row whether it deletes its key; null does not."""
    if deleted is None:
        return [False] * len(batch)
    return [value is True for value in batch.column(deleted).to_pylist()]
