"""The rules of exact aggregates, and `rules_of`, which finds those of any."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import localcontext
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.operators._exact import (
    EXACT,
    Sum,
    added,
    divided,
    exact,
    float_square_sums,
    rolling_sums,
    rounded,
)
from ridgeline.operators._kinds import plain
from ridgeline.operators._vectors import best_rows, beyond, distinct, extremes, sums, to_values, value_sums
from ridgeline.operators.aggregate.rules import (
    Aggregate,
    Bounds,
    Part,
    Rows,
    Rules,
    list_field,
    placed,
)


class _OfWindow(Rules):
    of_window = True
    ordered = False
    combines = True

    def field(self, columns: pa.Schema) -> pa.Field:
        kind = pa.bool_() if self.aggregate.kind == "is_final" else pa.timestamp("us", "UTC")
        return pa.field("", kind, nullable=False)

    def parts(self, rows: Rows) -> list[Part]:
        return [None] * rows.count

    def merge(self, one: Part, other: Part) -> Part:
        return None


class _Count(Rules):
    ordered = False
    combines = True
    kind = pa.int64()
    nothing = 0

    def fitting(self, columns: pa.Schema) -> pa.Field:
        return super().fitting(columns) if self.column else pa.field("", self.kind)

    def parts(self, rows: Rows) -> list[Part]:
        return rows.counts(self.column) if self.column else rows.sizes()

    def merge(self, one: Part, other: Part) -> Part:
        return one + other

    def retract(self, whole: Part, oldest: Part) -> Part:
        return whole - oldest


class _Sum(Rules):
    ordered = False
    combines = True

    def field(self, columns: pa.Schema) -> pa.Field:
        field = self.number_of(columns)
        kind = field.type
        if pa.types.is_decimal(kind):
            wide = pa.types.is_decimal256(kind)
            kind = pa.decimal256(76, kind.scale) if wide else pa.decimal128(38, kind.scale)
        else:
            kind = pa.float64() if pa.types.is_floating(kind) else pa.int64()
        return pa.field("", kind, nullable=field.nullable)

    def parts(self, rows: Rows) -> list[Part]:
        found, counts = rows.of(self.column), rows.counts(self.column)
        totals = rows.once((self.column, "sums"), lambda: sums(found.column, found.groups, rows.count))
        return [total if number else None for total, number in zip(totals, counts, strict=True)]

    def merge(self, one: Part, other: Part) -> Part:
        return added(one, other)

    def rolled(self, parts: Sequence[Part], bounds: Bounds) -> list[Part] | None:
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return rolling_sums(known, bounds)

    def result(self, part: Part) -> Any:
        return rounded(part)


class _Extreme(Rules):
    ordered = False
    combines = True
    takes = "ordered"

    def parts(self, rows: Rows) -> list[Part]:
        found, counts = rows.of(self.column), rows.counts(self.column)
        return extremes(found.column, found.groups, rows.count, highest=self.highest, counts=counts)

    def merge(self, one: Part, other: Part) -> Part:
        return beyond(one, other, highest=self.highest)


class _End(Rules):
    """The part is (time, value)."""

    combines = True

    def parts(self, rows: Rows) -> list[Part]:
        """Later rows overwrite earlier ones; of the first value they are taken backwards."""
        column, times, groups = rows.of(self.column)
        places, order = np.full(rows.count, -1, np.int64), np.arange(len(groups))
        if self.newest:
            places[groups] = order
        else:
            places[groups[::-1]] = order[::-1]
        there = np.flatnonzero(places >= 0)
        values = column.take(pa.array(places[there])).to_pylist()
        ends = zip(times[places[there]].tolist(), values, strict=True)
        return placed(rows.count, zip(there.tolist(), ends, strict=True))

    def merge(self, one: Part, other: Part) -> Part:
        if self.newest:
            return other if other[0] >= one[0] else one
        return one if one[0] <= other[0] else other

    def result(self, part: Part) -> Any:
        return part[1]


class _By(Rules):
    """The part is (value by which it was chosen, time, value)."""

    combines = True

    def field(self, columns: pa.Schema) -> pa.Field:
        field, by = self.field_of(columns), self.field_of(columns, self.option("by"))
        if pa.types.is_nested(by.type):
            raise self.refused(by, "give one with an order")
        return pa.field("", plain(field.type), nullable=field.nullable or by.nullable)

    def parts(self, rows: Rows) -> list[Part]:
        """Rows are in the order of their times, so the first of equal ones is the oldest."""
        found, ordered = rows.of_both(self.column, self.option("by"))
        firsts = best_rows(found.groups, ordered.column, 1, highest=self.highest)
        chosen = pa.array(firsts)
        by, values = ordered.column.take(chosen).to_pylist(), found.column.take(chosen).to_pylist()
        columns = by, found.times[firsts].tolist(), values
        return placed(rows.count, zip(found.groups[firsts].tolist(), zip(*columns, strict=True), strict=True))

    def merge(self, one: Part, other: Part) -> Part:
        first, second = one[0], other[0]
        if first != first or second != second:  # noqa: PLR0124  a NaN
            equal = first != first and second != second  # noqa: PLR0124
            better = first != first  # noqa: PLR0124
        else:
            equal, better = first == second, (second > first) == self.highest
        if equal:
            return one if one[1] <= other[1] else other
        return other if better else one

    def result(self, part: Part) -> Any:
        return part[2]


Timed = tuple[tuple[int, Any], ...]
"""Values with their times, the oldest first; of one time as they came."""


def timed(column: str, rows: Rows) -> list[Part]:
    """The values of each group with their times."""
    found = rows.of(column)
    order, spans = rows.slices(found)
    values = found.column.take(pa.array(order)).to_pylist()
    pairs = list(zip(found.times[order].tolist(), values, strict=True))
    return placed(rows.count, ((group, tuple(pairs[begin:end])) for group, begin, end in spans))


def in_order(one: Timed, other: Timed) -> Timed:
    """The values of both, those of `one` first where times are equal."""
    if one[-1][0] <= other[0][0]:
        return one + other
    return tuple(sorted(one + other, key=itemgetter(0)))


class _CollectList(Rules):
    """The part is `Timed`."""

    nothing = ()

    def field(self, columns: pa.Schema) -> pa.Field:
        field = self.field_of(columns)
        return list_field(plain(field.type))

    def parts(self, rows: Rows) -> list[Part]:
        return timed(self.column, rows)

    def merge(self, one: Part, other: Part) -> Part:
        return in_order(one, other)

    def retract(self, whole: Part, oldest: Part) -> Part:
        return whole[len(oldest) :]

    def result(self, part: Part) -> Any:
        return [value for _, value in part]


class _Reduce(Rules):
    """The part is (values that wait for the function, whether it was called, its last result).

    Values of one batch wait: the function continues from the result of the batch before.
    """

    sequential = True

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self.function = self.option("function")
        self.initial = self.nothing = self.option("initial")
        self.combine = self.option("merge") or self.function

    def field(self, columns: pa.Schema) -> pa.Field:
        field = self.field_of(columns)
        kind = plain(field.type) if self.initial is None else pa.scalar(self.initial).type
        return pa.field("", kind, nullable=self.initial is None and field.nullable)

    def parts(self, rows: Rows) -> list[Part]:
        return [
            None if part is None else (tuple(value for _, value in part), False, None)
            for part in timed(self.column, rows)
        ]

    def merge(self, one: Part, other: Part) -> Part:
        begun = self.result(one)
        waiting, called, value = other
        if called:
            return (), True, self.combine(begun, value)
        for new in waiting:
            begun = self.function(begun, new)
        return (), True, begun

    def result(self, part: Part) -> Any:
        """The result of the function, called for the values that wait."""
        waiting, called, value = part
        if called:
            return value
        if self.initial is None:
            value, waiting = waiting[0], waiting[1:]
        else:
            value = self.initial
        for new in waiting:
            value = self.function(value, new)
        return value


Counts = tuple[tuple[Any, int], ...]
"""Values with their numbers, as they came."""


class _Counted(Rules):
    """The part is `Counts`. All NaN are one value, and -0.0 equals 0.0."""

    takes = "plain"

    def parts(self, rows: Rows) -> list[Part]:
        return rows.once((self.column, "values"), lambda: _counts(self.column, rows))

    def merge(self, one: Part, other: Part) -> Part:
        known = {_one(value): count for value, count in one}
        for value, count in other:
            own = _one(value)
            known[own] = known.get(own, 0) + count
        return tuple(known.items())

    def retract(self, whole: Part, oldest: Part) -> Part:
        known = {_one(value): count for value, count in whole}
        for value, count in oldest:
            own = _one(value)
            known[own] -= count
            if not known[own]:
                del known[own]
        return tuple(known.items())


def _counts(column: str, rows: Rows) -> list[Part]:
    """The values of each group with their numbers, in the order of times."""
    found = rows.of(column)
    values, codes = distinct(found.column)
    listed = [_one(value) for value in values.to_pylist()]
    pairs, firsts, counts = np.unique(
        found.groups * max(1, len(listed)) + codes, return_index=True, return_counts=True
    )
    parts: list[list[tuple[Any, int]]] = [[] for _ in range(rows.count)]
    order = np.argsort(firsts)
    for pair, count in zip(pairs[order].tolist(), counts[order].tolist(), strict=True):
        group, code = divmod(pair, len(listed))
        parts[group].append((listed[code], count))
    return [tuple(part) or None for part in parts]


def _one(value: Any) -> Any:
    return math.nan if value != value else value  # noqa: PLR0124  a NaN


class _CountUnique(_Counted):
    """The part of numbers and times is the bytes of 64 bits each, sorted; that of others is `Counts`."""

    retract = None  # type: ignore[assignment]  # two sets of bits do not say how often a value came
    kind = pa.int64()
    nothing = 0

    def parts(self, rows: Rows) -> list[Part]:
        """By the type of the column, which does not change."""
        found = rows.of(self.column)
        kind = found.column.type
        if not (pa.types.is_signed_integer(kind) or pa.types.is_float64(kind) or pa.types.is_timestamp(kind)):
            return super().parts(rows)
        values, codes = distinct(found.column)
        bits = values.cast(pa.int64()) if pa.types.is_signed_integer(kind) else values.view(pa.int64())
        pairs = np.unique(found.groups * max(1, len(bits)) + codes)
        groups, chosen = np.divmod(pairs, max(1, len(bits)))
        numbers = bits.to_numpy(zero_copy_only=False)[chosen]
        order = np.lexsort((numbers, groups))
        ends = np.cumsum(np.bincount(groups, minlength=rows.count))
        parts = np.split(numbers[order], ends[:-1])
        return [part.tobytes() or None for part in parts]

    def merge(self, one: Part, other: Part) -> Part:
        if isinstance(one, tuple):
            return super().merge(one, other)
        return np.union1d(np.frombuffer(one, np.int64), np.frombuffer(other, np.int64)).tobytes()

    def result(self, part: Part) -> Any:
        return len(part) if isinstance(part, tuple) else len(part) // 8


class _Top(_Counted):
    nothing = ()

    def field(self, columns: pa.Schema) -> pa.Field:
        return top_field(self.fitting(columns).type)

    def result(self, part: Part) -> Any:
        return highest(part, self.option("n"))


def top_field(kind: pa.DataType) -> pa.Field:
    """The field of a list of values with their numbers."""
    entry = pa.struct(
        [pa.field("value", kind, nullable=False), pa.field("count", pa.int64(), nullable=False)]
    )
    return list_field(entry)


def highest(counts: Iterable[tuple[Any, int]], number: int) -> list[dict[str, Any]]:
    """The most frequent values, those of one number in the order of values."""
    ordered = sorted(counts, key=lambda one: (-one[1], one[0] != one[0], _ordered(one[0])))
    return [{"value": value, "count": count} for value, count in ordered[:number]]


def _ordered(value: Any) -> Any:
    return 0.0 if value != value else value  # noqa: PLR0124  a NaN


class _CollectSet(_Counted):
    nothing = ()

    def field(self, columns: pa.Schema) -> pa.Field:
        return list_field(self.fitting(columns).type)

    def result(self, part: Part) -> Any:
        return sorted((value for value, _ in part), key=lambda one: (one != one, _ordered(one)))  # noqa: PLR0124  a NaN


class _Mode(_Counted):
    def result(self, part: Part) -> Any:
        return highest(part, 1)[0]["value"]


class _Quantile(Rules):
    """The part is all values, as the bytes of floats in the order in which they came."""

    def field(self, columns: pa.Schema) -> pa.Field:
        return quantile_field(self.number_of(columns), one=self.aggregate.kind == "quantile")

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
        values, shares = np.frombuffer(part), self.option("q")
        values = values[~np.isnan(values)]
        if not len(values):
            return np.full(np.shape(shares), np.nan).tolist()
        with np.errstate(invalid="ignore"):  # of infinities
            found = np.quantile(values, shares)
            if np.isnan(found).any():  # between two infinities of one sign
                lower = np.quantile(values, shares, method="lower")
                higher = np.quantile(values, shares, method="higher")
                found = np.where(lower == higher, lower, found)
        return found.tolist()


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


_LARGE = 2**31
"""The squares of smaller integers have 64 bits."""


class _Mean(Rules):
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


class _Variance(_Mean):
    """The part is (number of values, their sum, the sum of their squares)."""

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
        ddof = self.option("ddof")
        if part[0] <= ddof:
            return None
        try:
            count, total, squares = part[0], exact(part[1]), exact(part[2])
            found = float((count * squares - total * total) / (count * (count - ddof)))
        except (ValueError, OverflowError):
            return math.nan
        return math.sqrt(found) if self.aggregate.kind == "stddev" else found


TABLE: Mapping[str, type[Rules]] = {
    "window_start": _OfWindow,
    "window_end": _OfWindow,
    "is_final": _OfWindow,
    "count": _Count,
    "sum": _Sum,
    "min": _Extreme,
    "max": _Extreme,
    "first": _End,
    "last": _End,
    "max_by": _By,
    "min_by": _By,
    "collect_list": _CollectList,
    "reduce": _Reduce,
    "count_unique": _CountUnique,
    "top": _Top,
    "collect_set": _CollectSet,
    "mode": _Mode,
    "quantile": _Quantile,
    "quantiles": _Quantile,
    "mean": _Mean,
    "variance": _Variance,
    "stddev": _Variance,
}
"""The rules by the kinds of aggregates."""


def rules_of(aggregate: Aggregate) -> Rules:
    """The rules of an aggregate. Raises ValueError for a kind that does not exist."""
    known = TABLE.get(aggregate.kind)
    if aggregate.kind.startswith("approximate"):
        from ridgeline.operators.aggregate.sketches import APPROXIMATE

        known = APPROXIMATE.get(aggregate.kind)
    if known is None:
        raise ValueError(f"there is no aggregate `{aggregate.kind}`; there are {', '.join(sorted(TABLE))}")
    return known(aggregate)
