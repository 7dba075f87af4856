"""Aggregates of the records of a window: `values={"clicks": aggregate.count()}`."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ridgeline.api.errors import did_you_mean
from ridgeline.api.support.results import names_call
from ridgeline.operators.aggregate.rules import Aggregate

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


def count(column: str | None = None) -> Aggregate:
    """How many records there are; of a column, how many are not null."""
    return _of("count", column)


def sum(column: str) -> Aggregate:  # noqa: A001  read as `aggregate.sum`
    """The sum of a column of numbers; of integers and Decimals exact, of floats rounded once.

    Sums of numbers have 64 bits, those of Decimals 38 digits, as many of them after the point as the column.
    As soon as one does not fit the window that brings it there fails, before it is committed.
    """
    return _of("sum", column)


def min(column: str) -> Aggregate:  # noqa: A001  read as `aggregate.min`
    """The least value of a column; NaN only if there is no number."""
    return _of("min", column)


def max(column: str) -> Aggregate:  # noqa: A001  read as `aggregate.max`
    """The greatest value of a column; NaN only if there is no number."""
    return _of("max", column)


def max_by(column: str, by: str) -> Aggregate:
    """The value of the record that has the greatest value in another column: `max_by("bidder", "price")`.

    Of several such records it is that of the oldest. Records with a null in one of both are left out. A NaN
    is the greatest only if there is no number.
    """
    return _of("max_by", column, by=by)


def min_by(column: str, by: str) -> Aggregate:
    """The value of the record that has the least value in another column; else as `max_by`."""
    return _of("min_by", column, by=by)


def first(column: str) -> Aggregate:
    """The value of the oldest record; of records of one time, that which came first."""
    return _of("first", column)


def last(column: str) -> Aggregate:
    """The value of the newest record; of records of one time, that which came last."""
    return _of("last", column)


def mean(column: str) -> Aggregate:
    """The mean of a column of numbers, a float that is rounded once."""
    return _of("mean", column)


@names_call
def variance(column: str, *, ddof: int = 1) -> Aggregate:
    """The variance of a column of numbers, rounded once; null of `ddof` values or fewer, 1 by default."""
    return _of("variance", column, ddof=_ddof(ddof))


@names_call
def stddev(column: str, *, ddof: int = 1) -> Aggregate:
    """The standard deviation of a column of numbers: the root of `variance`."""
    return _of("stddev", column, ddof=_ddof(ddof))


@names_call
def quantile(column: str, q: float, *, exact: bool = True) -> Aggregate:
    """The quantile `q`, from 0 to 1, of a column of numbers, as a float; NaN is left out.

    Between two values it is interpolated linearly. `exact=False`: by a KLL sketch of a few KiB, whose rank is
    off by less than 1.7 % as a rule; it interpolates nothing. Exact ones hold all values of a window. Raises
    ValueError for what is no share.
    """
    return _of("quantile", column, exact=exact, q=_share(q))


@names_call
def quantiles(column: str, q: Sequence[float], *, exact: bool = True) -> Aggregate:
    """Several quantiles as a list; else as `quantile`."""
    if not q:
        raise ValueError("`quantiles` takes one share at least, such as `[0.5, 0.95]`")
    return _of("quantiles", column, exact=exact, q=tuple(map(_share, q)))


@names_call
def median(column: str, *, exact: bool = True) -> Aggregate:
    """The median of a column of numbers, as a float: the quantile 0.5."""
    return quantile(column, 0.5, exact=exact)


def mode(column: str) -> Aggregate:
    """The most frequent value of a column, of several the least."""
    return _of("mode", column)


@names_call
def top(column: str, n: int = 10, *, exact: bool = True) -> Aggregate:
    """The `n` most frequent values of a column, as a list of `{value, count}`, the most frequent first.

    Values of one number are in their order. `exact=False`: by a sketch of bounded size, of texts: whose
    counts may be too large by a small part of all records.
    """
    if type(n) is not int or n < 1:
        raise ValueError(f"`top` takes a number of values, at least 1; got {n!r}")
    return _of("top", column, exact=exact, n=n)


def count_unique(column: str, *, exact: bool = True) -> Aggregate:
    """How many distinct values of a column there are; null is none.

    `exact=False`: an estimate by a HyperLogLog sketch of 4 KiB, whose error is 1.6 % as a rule.
    """
    return _of("count_unique", column, exact=exact)


def collect_list(column: str) -> Aggregate:
    """The values of a column in the order of record times, as a list; null is none."""
    return _of("collect_list", column)


def collect_set(column: str) -> Aggregate:
    """The distinct values of a column in their order, as a list; null is none."""
    return _of("collect_set", column)


def reduce(
    column: str,
    function: Callable[[Any, Any], Any],
    initial: Any = None,
    *,
    merge: Callable[[Any, Any], Any] | None = None,
) -> Aggregate:
    """The result of a Python function that is called for value after value: `function(so_far, value)`.

    It begins with `initial`, whose type the results have; by default with the first value. Values come in
    the order in which their batches come, those of a batch in the order of their times. `so_far` must not be
    changed in place. `merge`: makes one result of those of two sessions that become one. Session windows need
    it where `initial` is given; else the default is `function`.
    """
    if not callable(function):
        raise TypeError(f"`reduce` takes a function of what it returned so far and a value; got {function!r}")
    return _of("reduce", column, function=function, initial=initial, merge=merge)


def window_start() -> Aggregate:
    """When the window begins; of a session, the time of its oldest record."""
    return _of("window_start")


def window_end() -> Aggregate:
    """When the window ends, exclusively; of a session, the time of its newest record and the gap."""
    return _of("window_end")


def is_final() -> Aggregate:
    """True of the result when the window's time is over, False of an early one."""
    return _of("is_final")


def _share(q: float) -> float:
    if type(q) not in (int, float) or not 0 <= q <= 1:
        raise ValueError(f"a quantile is a share from 0 to 1, such as 0.95; got {q!r}")
    return float(q)


def _ddof(ddof: object) -> int:
    if ddof not in (0, 1) or isinstance(ddof, bool):
        raise ValueError(f"`ddof` is 1 for a sample and 0 for all there is; got {ddof!r}")
    return int(ddof)


def _of(kind: str, column: str | None = None, *, exact: bool = True, **options: Any) -> Aggregate:
    return Aggregate(kind if exact else f"approximate_{kind}", column, tuple(options.items()))


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        other = _ELSEWHERE.get(name)
        remedy = f"did you mean `{other}`?" if other else did_you_mean(name, __all__)
        raise AttributeError(f"there is no aggregate `{name}`; {remedy}")
