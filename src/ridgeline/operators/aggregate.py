"""Aggregates of the records of a window: `values={"clicks": aggregate.count()}`."""

from typing import TYPE_CHECKING, Any

from ridgeline.api.errors import did_you_mean
from ridgeline.operators.aggregates.basic import (
    count,
    first,
    is_final,
    last,
    max,  # noqa: A004  read as `aggregate.max`
    max_by,
    min,  # noqa: A004  read as `aggregate.min`
    min_by,
    sum,  # noqa: A004  read as `aggregate.sum`
    window_end,
    window_start,
)
from ridgeline.operators.aggregates.collected import collect_list, reduce
from ridgeline.operators.aggregates.counted import collect_set, count_unique, mode, top
from ridgeline.operators.aggregates.quantiles import median, quantile, quantiles
from ridgeline.operators.aggregates.spread import mean, stddev, variance
from ridgeline.operators.aggregates.value import Aggregate

__all__ = [
    "Aggregate",
    "collect_list",
    "collect_set",
    "count",
    "count_unique",
    "first",
    "is_final",
    "last",
    "max",
    "max_by",
    "mean",
    "median",
    "min",
    "min_by",
    "mode",
    "quantile",
    "quantiles",
    "reduce",
    "stddev",
    "sum",
    "top",
    "variance",
    "window_end",
    "window_start",
]
_ELSEWHERE = {
    "arg_max": "max_by",
    "arg_min": "min_by",
    "avg": "mean",
    "average": "mean",
    "std": "stddev",
    "var": "variance",
    "n_unique": "count_unique",
    "nunique": "count_unique",
    "percentile": "quantile",
    "list": "collect_list",
    "set": "collect_set",
}
"""The names of aggregates in other libraries, and ours."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        other = _ELSEWHERE.get(name)
        remedy = f"did you mean `{other}`?" if other else did_you_mean(name, __all__)
        raise AttributeError(f"there is no aggregate `{name}`; {remedy}")
