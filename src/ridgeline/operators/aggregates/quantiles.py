"""Quantiles of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api.support.results import names_call
from ridgeline.operators.aggregates.rules import Rules, list_field, placed
from ridgeline.operators.aggregates.value import Aggregate, Part, Rows

METHODS = ("linear", "lower", "higher", "nearest", "midpoint")


class _Quantile(Rules, kinds=("quantile", "quantiles")):
    """The part is all values, as the bytes of floats in the order in which they came."""

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self.one = aggregate.kind == "quantile"
        self.shares = self.option("q")
        self.method = self.option("interpolation")

    def field(self, columns: pa.Schema) -> pa.Field:
        return quantile_field(self.number_of(columns), one=self.one)

    def parts(self, rows: Rows) -> list[Part]:
        found = rows.of(self.column)
        order, spans = rows.slices(found)
        values = floats_of(found.column)[order]
        return placed(rows.count, ((group, values[begin:end].tobytes()) for group, begin, end in spans))

    def merge(self, one: Part, other: Part) -> Part:
        return one + other

    def retract(self, whole: Part, oldest: Part) -> Part:
        return whole[len(oldest) :]

    def result(self, part: Part) -> Any:
        """Of numbers; NaN only if there is none."""
        values = np.frombuffer(part)
        values = values[~np.isnan(values)]
        if not len(values):
            return np.nan if self.one else [np.nan] * len(self.shares)
        with np.errstate(invalid="ignore"):  # of infinities
            found = np.quantile(values, self.shares, method=self.method)
            if np.isnan(found).any():  # between two infinities of one sign
                lower = np.quantile(values, self.shares, method="lower")
                higher = np.quantile(values, self.shares, method="higher")
                found = np.where(lower == higher, lower, found)
        return float(found) if self.one else found.tolist()


def quantile_field(field: pa.Field, *, one: bool) -> pa.Field:
    """The field of one quantile, or of several, of a column."""
    if one:
        return pa.field("", pa.float64(), nullable=field.nullable)
    return list_field(pa.float64(), nullable=field.nullable)


def floats_of(column: pa.Array) -> npt.NDArray[np.float64]:
    """A column of numbers without nulls as floats."""
    if pa.types.is_boolean(column.type):
        column = pc.cast(column, pa.int8())
    found: npt.NDArray[np.float64] = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return found


@names_call
def quantile(column: str, q: float, *, interpolation: str = "linear", exact: bool = True) -> Aggregate:
    """The quantile `q`, from 0 to 1, of a column of numbers, as a float; NaN is left out.

    `interpolation`: between two values "linear", "lower", "higher", "nearest" or "midpoint". `exact=False`:
    by a KLL sketch of a few KiB, whose rank is off by less than 1.7 % as a rule; it interpolates nothing.
    Exact ones hold all values of a window. Raises ValueError for what is no share or way.
    """
    return _made("quantile", column, _share(q), interpolation, exact=exact)


@names_call
def quantiles(
    column: str, q: Sequence[float], *, interpolation: str = "linear", exact: bool = True
) -> Aggregate:
    """Several quantiles as a list; else as `quantile`."""
    if not q:
        raise ValueError("`quantiles` takes one share at least, such as `[0.5, 0.95]`")
    return _made("quantiles", column, tuple(map(_share, q)), interpolation, exact=exact)


@names_call
def median(column: str, *, exact: bool = True) -> Aggregate:
    """The median of a column of numbers, as a float: the quantile 0.5."""
    return quantile(column, 0.5, exact=exact)


def _share(q: float) -> float:
    if type(q) not in (int, float) or not 0 <= q <= 1:
        raise ValueError(f"a quantile is a share from 0 to 1, such as 0.95; got {q!r}")
    return float(q)


def _made(kind: str, column: str, q: object, interpolation: str, *, exact: bool) -> Aggregate:
    from ridgeline.operators.aggregates.sketches import approximate

    if interpolation not in METHODS:
        raise ValueError(
            f"the `interpolation` of a quantile is one of {', '.join(METHODS)}; got {interpolation!r}"
        )
    if not exact:
        return approximate(kind, column, q=q)
    return _Quantile.of(kind, column, q=q, interpolation=interpolation)
