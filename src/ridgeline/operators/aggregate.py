"""Aggregates that `Windowed` computes of the records of a window: `values={"clicks": aggregate.count()}`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from ridgeline.operators._exact import added, divided, rounded
from ridgeline.operators.key_value import beyond

Kind = Literal[
    "count", "sum", "mean", "min", "max", "first", "last", "window_start", "window_end", "is_final"
]
OF_WINDOW = frozenset({"window_start", "window_end", "is_final"})
"""Those that say something of the window, not of its records."""
Part = Any
"""An aggregate of some records of a window; None of no value. Two parts merge into one."""


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of a column; None for all records, or for the window itself.

    Example:
        >>> from ridgeline.operators import aggregate
        >>> aggregate.max("price")
        Aggregate(kind='max', column='price')
    """

    kind: Kind
    column: str | None = None

    def type_of(self, columns: pa.Schema) -> pa.Field:
        """The field of the results, without its name; for records with these columns.

        Raises ValueError that says what is wrong.
        """
        if self.kind == "is_final":
            return pa.field("", pa.bool_(), nullable=False)
        if self.kind in OF_WINDOW:
            return pa.field("", pa.timestamp("us", "UTC"), nullable=False)
        if self.column is None:
            return pa.field("", pa.int64(), nullable=False)
        if self.column not in columns.names:
            msg = f"there is no column `{self.column}`; the stream has {', '.join(columns.names)}"
            raise ValueError(msg)
        field = columns.field(self.column)
        kind = field.type
        if self.kind == "count":
            return pa.field("", pa.int64(), nullable=False)
        if self.kind in ("sum", "mean"):
            decimal = pa.types.is_decimal(kind)
            known = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
            if not known and not decimal:
                msg = f"column `{self.column}` is {kind}, which has no {self.kind}; give one of numbers"
                raise ValueError(msg)
            if self.kind == "sum" and decimal:
                wide = pa.types.is_decimal256(kind)
                kind = pa.decimal256(76, kind.scale) if wide else pa.decimal128(38, kind.scale)
            else:
                whole = self.kind == "sum" and not pa.types.is_floating(kind)
                kind = pa.int64() if whole else pa.float64()
        if self.kind in ("min", "max") and pa.types.is_nested(kind):
            msg = f"column `{self.column}` is {kind}, which has no {self.kind}; give one with an order"
            raise ValueError(msg)
        return pa.field("", kind, nullable=field.nullable)


def count(column: str | None = None) -> Aggregate:
    """How many records there are; of a column, how many are not null."""
    return Aggregate("count", column)


def sum(column: str) -> Aggregate:  # noqa: A001  read as `aggregate.sum`
    """The sum of a column of numbers; of integers and Decimals exact, of floats rounded once.

    Sums of numbers have 64 bits, those of Decimals 38 digits, as many of them after the point as the column.
    As soon as one does not fit the window that brings it there fails, before it is committed.
    """
    return Aggregate("sum", column)


def mean(column: str) -> Aggregate:
    """The mean of a column of numbers, a float that is rounded once."""
    return Aggregate("mean", column)


def min(column: str) -> Aggregate:  # noqa: A001  read as `aggregate.min`
    """The least value of a column; NaN only if there is no number."""
    return Aggregate("min", column)


def max(column: str) -> Aggregate:  # noqa: A001  read as `aggregate.max`
    """The greatest value of a column; NaN only if there is no number."""
    return Aggregate("max", column)


def first(column: str) -> Aggregate:
    """The value of the oldest record; of records of one time, that which came first."""
    return Aggregate("first", column)


def last(column: str) -> Aggregate:
    """The value of the newest record; of records of one time, that which came last."""
    return Aggregate("last", column)


def window_start() -> Aggregate:
    """When the window begins; of a session, the time of its oldest record."""
    return Aggregate("window_start")


def window_end() -> Aggregate:
    """When the window ends, exclusively; of a session, the time of its newest record and the gap."""
    return Aggregate("window_end")


def is_final() -> Aggregate:
    """True of the result when the window's time is over, False of an early one."""
    return Aggregate("is_final")


def _earlier(one: tuple[int, Any], other: tuple[int, Any]) -> tuple[int, Any]:
    return one if one[0] <= other[0] else other


def _later(one: tuple[int, Any], other: tuple[int, Any]) -> tuple[int, Any]:
    return other if other[0] >= one[0] else one


def _less(one: Any, other: Any) -> Any:
    return beyond(one, other, highest=False)


def _more(one: Any, other: Any) -> Any:
    return beyond(one, other, highest=True)


def _both_added(one: tuple[Any, int], other: tuple[Any, int]) -> tuple[Any, int]:
    return added(one[0], other[0]), one[1] + other[1]


_MERGES: Mapping[str, Callable[[Any, Any], Any]] = {
    "count": added,
    "sum": added,
    "mean": _both_added,
    "min": _less,
    "max": _more,
    "first": _earlier,
    "last": _later,
}


def merge(kind: str, one: Part, other: Part) -> Part:
    """The part of the records of both; those of `one` came before."""
    if one is None or other is None:
        return other if one is None else one
    return _MERGES[kind](one, other)


def result(kind: str, part: Part) -> Any:
    """The aggregate of a part that is whole."""
    if part is None:
        return None
    if kind == "mean":
        return float(divided(*part))
    if kind == "sum":
        return rounded(part)
    return part[1] if kind in ("first", "last") else part
