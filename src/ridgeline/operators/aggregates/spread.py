"""Means and variances: of exact sums and sums of squares, rounded once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import localcontext
from typing import Any

import numpy as np
import pyarrow as pa

from ridgeline.api.support.results import names_call
from ridgeline.operators._exact import EXACT, Sum, added, divided, exact, float_square_sums, rolling_sums
from ridgeline.operators.aggregates.rules import Bounds, Rules
from ridgeline.operators.aggregates.value import Aggregate, Part, Rows
from ridgeline.operators.key_value import sums, to_values, value_sums

_LARGE = 2**31
"""The squares of smaller integers have 64 bits."""


class _Mean(Rules, kinds=("mean",)):
    """The part is (number of values, their sum)."""

    ordered = False
    combines = True
    takes = "numbers"
    kind = pa.float64()

    def parts(self, rows: Rows) -> list[Part]:
        parts = zip(rows.counts(self.column), *self.sums(rows), strict=True)
        return [part if part[0] else None for part in parts]

    def sums(self, rows: Rows) -> list[list[Sum]]:
        """The sums of each group, one list for each power; the first ones are those that `sum` has."""
        found = rows.of(self.column)
        return [rows.once((self.column, "sums"), lambda: sums(found.column, found.groups, rows.count))]

    def merge(self, one: Part, other: Part) -> Part:
        return one[0] + other[0], *map(added, one[1:], other[1:])

    def rolled(self, parts: Sequence[Part], bounds: Bounds) -> list[Part] | None:
        width = next((len(part) for part in parts if part is not None), 1)
        columns = zip(*[(0,) * width if part is None else part for part in parts], strict=True)
        totals = [rolling_sums(values, bounds) for values in columns]
        if any(values is None for values in totals):
            return None
        return [part if part[0] else None for part in zip(*[values or [] for values in totals], strict=True)]

    def result(self, part: Part) -> Any:
        return float(divided(part[1], part[0]))


class _Variance(_Mean, kinds=("variance", "stddev")):
    """The part is (number of values, their sum, the sum of their squares)."""

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self.ddof = self.option("ddof")

    def field(self, columns: pa.Schema) -> pa.Field:
        return super().field(columns).with_nullable(nullable=True)

    def sums(self, rows: Rows) -> list[list[Sum]]:
        found = rows.of(self.column)
        values = to_values(found.column)
        if values.dtype == np.float64:
            squares = float_square_sums(values, found.groups, rows.count)
        else:
            if values.dtype == np.int64 and ((values <= -_LARGE) | (values >= _LARGE)).any():
                values = values.astype(object)  # Python's integers do not overflow
            with localcontext(EXACT):
                squares = value_sums(values * values, found.groups, rows.count)
        return [*super().sums(rows), squares]

    def result(self, part: Part) -> Any:
        if part[0] <= self.ddof:
            return None
        try:
            count, total, squares = part[0], exact(part[1]), exact(part[2])
            found = float((count * squares - total * total) / (count * (count - self.ddof)))
        except (ValueError, OverflowError):
            return math.nan
        return math.sqrt(found) if self.aggregate.kind == "stddev" else found


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


def _checked(ddof: object) -> int:
    if ddof not in (0, 1) or isinstance(ddof, bool):
        raise ValueError(f"`ddof` is 1 for a sample and 0 for all there is; got {ddof!r}")
    return int(ddof)
