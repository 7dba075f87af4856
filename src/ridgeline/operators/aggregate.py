"""Aggregates that `Windowed` computes of the records of a window: `values={"clicks": aggregate.count()}`."""

from ridgeline.operators.aggregates.basic import (
    count,
    first,
    is_final,
    last,
    max,  # noqa: A004  read as `aggregate.max`
    mean,
    min,  # noqa: A004  read as `aggregate.min`
    sum,  # noqa: A004  read as `aggregate.sum`
    window_end,
    window_start,
)
from ridgeline.operators.aggregates.value import Aggregate

__all__ = [
    "Aggregate",
    "count",
    "first",
    "is_final",
    "last",
    "max",
    "mean",
    "min",
    "sum",
    "window_end",
    "window_start",
]
