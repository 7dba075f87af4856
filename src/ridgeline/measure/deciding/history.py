"""The last minutes of one operator, from the slices that are kept for those who decide."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ridgeline.api.support.duration import as_ms
from ridgeline.measure.answers.history import OperatorHistoryAnswer, OperatorSecondAnswer
from ridgeline.measure.deciding.fold import Floats, Slice, SliceColumn

_LATENCY, _COMPUTE, _WAIT, _TRANSFER = range(4)
"""The columns of a slice's rows."""


def operator_history(slices: Sequence[Slice], name: str) -> OperatorHistoryAnswer:
    """The slices that have a logical operator, the oldest first."""
    seconds = []
    for one in slices:
        own = [(place, node) for place, node in enumerate(one.topology.operators) if node.name == name]
        if own and one.count:
            partitions = [place for place, node in own if not node.unifier]
            seconds.append(_second(one, name, partitions, [place for place, _ in own]))
    return {"operator": name, "seconds": seconds}


def _second(one: Slice, name: str, partitions: list[int], places: list[int]) -> OperatorSecondAnswer:
    """A slice. `partitions` and `places` (with unifiers): rows of its sums."""
    rows = one.rows.get(name)
    known = rows is not None and len(rows) > 0
    length = max(one.end - one.begin, 1e-3)
    sums = one.sums[partitions].sum(axis=0)
    means = [_mean(rows, column) if known else None for column in (_COMPUTE, _WAIT, _TRANSFER)]
    return {
        "at": one.end,
        "seconds": length,
        "windows": one.count,
        "latencyMs": as_ms(float(np.median(rows[:, _LATENCY]))) if rows is not None and known else None,
        "greatestMs": as_ms(float(one.greatest[name][_LATENCY])) if name in one.greatest and known else None,
        "computeMs": means[0],
        "waitMs": means[1],
        "transferMs": means[2],
        "tuplesIn": float(sums[SliceColumn.TUPLES_IN]) / length,
        "tuplesOut": float(sums[SliceColumn.TUPLES_OUT]) / length,
        "queue": float(sums[SliceColumn.QUEUE]) / one.count,
        "errors": int(sums[SliceColumn.ERRORS]),
        "late": int(sums[SliceColumn.LATE]),
        "stateBytes": int(one.state_bytes[partitions].sum()),
        "onPath": float(one.sums[places, SliceColumn.ON_PATH].max()) / one.count,
    }


def _mean(rows: Floats | None, column: int) -> float | None:
    return None if rows is None else as_ms(float(np.nanmean(rows[:, column])))
