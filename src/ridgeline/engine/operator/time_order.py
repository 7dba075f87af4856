"""The tuples of a window in the order of their times, for input ports with `Order.BY_TIME`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples, concatenate
from ridgeline.api.errors import RidgelineError, shorten
from ridgeline.api.times import NO_TIME


def in_time_order(port: str, schema: Schema, parts: Sequence[Tuples]) -> Sequence[Tuples]:
    """All tuples as one run, sorted by time; those of one time stay in the order in which they came.

    Raises RidgelineError for a tuple without a time.
    """
    parts = [part for part in parts if len(part)]
    if not parts:
        return ()
    tuples = concatenate(schema, [part.read_as(schema) for part in parts])
    times = tuples.times
    missing = np.zeros(1, np.int64) if times is None else np.flatnonzero(times.newest == NO_TIME)
    if times is None or len(missing):
        what = f"port `{port}` takes its tuples in the order of their times"
        remedy = "emit it with `timestamp=`, or declare `OutputPort(..., timestamp=...)` upstream"
        msg = f"{what}, but {shorten(tuples.rows[int(missing[0])])} has none; {remedy}"
        raise RidgelineError(msg)
    if bool(np.all(times.newest[1:] >= times.newest[:-1])):
        return (tuples,)
    return (tuples.take(np.argsort(times.newest, kind="stable")),)
