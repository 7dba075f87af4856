"""Means, variance, correlation and regression: of exact sums and sums of products, rounded once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ridgeline.api.support.results import names_call
from ridgeline.api.times import column_times
from ridgeline.operators._exact import (
    Sum,
    added,
    divided,
    exact,
    product_sums,
    rolling_sums,
)
from ridgeline.operators.aggregates.rules import Bounds, Rules
from ridgeline.operators.aggregates.value import Aggregate, Part, Rows
from ridgeline.operators.key_value import is_number, sums, to_values, value_sums


class _Moments(Rules):
    """The part is (number of records, sum of each of `terms`).

    A term is the numbers of one or two columns, 0 or 1, that are multiplied: `(0, 1)` is x * y.
    """

    combines = True
    terms: ClassVar[tuple[tuple[int, ...], ...]] = ()
    times: ClassVar[bool] = False
    """The second column may have times."""
    most_without = 1
    """Of so many records there is no result."""

    @property
    def names(self) -> tuple[str, ...]:
        other = self.option("other")
        return (self.column,) if other is None else (self.column, other)

    def field(self, columns: pa.Schema) -> pa.Field:
        self.number_of(columns)
        for name in self.names[1:]:
            field = self.field_of(columns, name)
            if not is_number(field.type) and not (self.times and pa.types.is_timestamp(field.type)):
                raise self.refused(field, "give one of numbers")
        return pa.field("", pa.float64(), nullable=True)

    def parts(self, rows: Rows) -> list[Part]:
        """Numbers of two kinds are made one: floats, or else objects."""
        found = rows.of_both(self.column, self.names[-1])
        groups = found[0].groups
        numbers = [_numbers(values.column) for values in found[: len(self.names)]]
        kinds = {one.dtype for one in numbers}
        if np.dtype(np.float64) in kinds and len(kinds) > 1:
            numbers = [one.astype(np.float64) for one in numbers]
        elif len(kinds) > 1:
            numbers = [one.astype(object) for one in numbers]
        counts = np.bincount(groups, minlength=rows.count).tolist()
        columns: list[list[Sum]] = []
        for first, *second in self.terms:
            if second:
                columns.append(product_sums(numbers[first], numbers[second[0]], groups, rows.count))
            else:
                columns.append(value_sums(numbers[first], groups, rows.count))
        return [part if part[0] else None for part in zip(counts, *columns, strict=True)]

    def merge(self, one: Part, other: Part) -> Part:
        return one[0] + other[0], *map(added, one[1:], other[1:])

    def rolled(self, parts: Sequence[Part], bounds: Bounds) -> list[Part] | None:
        nothing = (0,) * (1 + len(self.terms))
        columns = zip(*[nothing if part is None else part for part in parts], strict=True)
        sums = [rolling_sums(values, bounds) for values in columns]
        if any(values is None for values in sums):
            return None
        return [part if part[0] else None for part in zip(*[values or [] for values in sums], strict=True)]

    def result(self, part: Part) -> Any:
        if part[0] <= self.most_without:
            return None
        try:
            return self.computed(part[0], list(map(exact, part[1:])))
        except (ValueError, OverflowError):
            return math.nan

    def computed(self, count: int, sums: Sequence[Fraction]) -> float | None:
        """The aggregate of so many records with these sums. Raises OverflowError if it is no float."""
        raise NotImplementedError


class _Mean(_Moments, kinds=("mean",)):
    ordered = False
    takes = "numbers"
    kind = pa.float64()
    terms = ((0,),)
    field = Rules.field

    def parts(self, rows: Rows) -> list[Part]:
        """The sums are those that `sum` of the column has."""
        found, counts = rows.of(self.column), rows.counts(self.column)
        totals = rows.once((self.column, "sums"), lambda: sums(found.column, found.groups, rows.count))
        return [part if part[0] else None for part in zip(counts, totals, strict=True)]

    def merge(self, one: Part, other: Part) -> Part:
        return one[0] + other[0], added(one[1], other[1])

    def result(self, part: Part) -> Any:
        return float(divided(part[1], part[0]))


class _Variance(_Moments, kinds=("variance", "stddev")):
    terms = ((0,), (0, 0))

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self.most_without = self.option("ddof")
        self.is_root = aggregate.kind == "stddev"

    def computed(self, count: int, sums: Sequence[Fraction]) -> float | None:
        total, squares = sums
        found = float((count * squares - total * total) / (count * (count - self.most_without)))
        return math.sqrt(found) if self.is_root else found


class _Covariance(_Moments, kinds=("covariance",)):
    terms = ((0,), (1,), (0, 1))

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self.most_without = self.option("ddof")

    def computed(self, count: int, sums: Sequence[Fraction]) -> float | None:
        x, y, xy = sums
        return float((count * xy - x * y) / (count * (count - self.most_without)))


class _Line(_Moments, kinds=("slope", "intercept")):
    """The column is y, `other` is x: of times in seconds."""

    terms = ((0,), (1,), (0, 1), (1, 1))
    times = True

    def parts(self, rows: Rows) -> list[Part]:
        """The last term says how many units of x a second has, 1 of other numbers."""
        kind = rows.batch.schema.field(self.names[1]).type
        unit = 1_000_000 if pa.types.is_timestamp(kind) else 1
        return [None if part is None else (*part, unit) for part in super().parts(rows)]

    def merge(self, one: Part, other: Part) -> Part:
        return *super().merge(one[:-1], other[:-1]), one[-1]

    def rolled(self, parts: Sequence[Part], bounds: Bounds) -> list[Part] | None:
        found = super().rolled([None if part is None else part[:-1] for part in parts], bounds)
        unit = next((part[-1] for part in parts if part is not None), 1)
        return None if found is None else [None if part is None else (*part, unit) for part in found]

    def result(self, part: Part) -> Any:
        found = super().result(part[:-1])
        return found * part[-1] if found is not None and self.aggregate.kind == "slope" else found

    def computed(self, count: int, sums: Sequence[Fraction]) -> float | None:
        y, x, xy, xx = sums
        spread = count * xx - x * x
        if not spread:
            return None
        if self.aggregate.kind == "slope":
            return float((count * xy - x * y) / spread)
        return float((y * xx - x * xy) / spread)


class _Correlation(_Moments, kinds=("correlation",)):
    terms = ((0,), (1,), (0, 1), (0, 0), (1, 1))
    times = True

    def computed(self, count: int, sums: Sequence[Fraction]) -> float | None:
        x, y, xy, xx, yy = sums
        spread = (count * xx - x * x) * (count * yy - y * y)
        if not spread:
            return None
        together = count * xy - x * y
        return math.copysign(math.sqrt(together * together / spread), together)


def _numbers(column: pa.Array) -> npt.NDArray[Any]:
    """Values of a column; of times microseconds."""
    return column_times(column) if pa.types.is_timestamp(column.type) else to_values(column)


def mean(column: str) -> Aggregate:
    """The mean of a column of numbers, a float that is rounded once."""
    return _Mean.of("mean", column)


@names_call
def variance(column: str, *, ddof: int = 1) -> Aggregate:
    """The variance of a column of numbers, rounded once; null of `ddof` values or fewer, 1 by default."""
    return _Variance.of("variance", column, ddof=_checked(ddof))


@names_call
def stddev(column: str, *, ddof: int = 1) -> Aggregate:
    """The standard deviation of a column of numbers: the root of `variance`."""
    return _Variance.of("stddev", column, ddof=_checked(ddof))


@names_call
def covariance(column: str, other: str, *, ddof: int = 1) -> Aggregate:
    """The covariance of two columns of numbers; null of `ddof` records or fewer, 1 by default."""
    return _Covariance.of("covariance", column, other=other, ddof=_checked(ddof))


def correlation(column: str, other: str) -> Aggregate:
    """Pearson's correlation of a column of numbers and another, of numbers or times.

    Null if one of them has no two values.
    """
    return _Correlation.of("correlation", column, other=other)


def slope(column: str, by: str) -> Aggregate:
    """By how much a column of numbers rises for each unit of another: the slope of the regression line.

    `by`: a column of numbers, or of times, whose unit is a second. Null if it has no two values.
    """
    return _Line.of("slope", column, other=by)


def intercept(column: str, by: str) -> Aggregate:
    """The value of the regression line of `slope` where `by` is 0."""
    return _Line.of("intercept", column, other=by)


def _checked(ddof: object) -> int:
    if ddof not in (0, 1) or isinstance(ddof, bool):
        raise ValueError(f"`ddof` is 1 for a sample and 0 for all there is; got {ddof!r}")
    return int(ddof)
