"""Counts, sums, extremes, and the first and the last value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ridgeline.operators._exact import added, rolling_sums, rounded
from ridgeline.operators._kinds import plain
from ridgeline.operators._window_parts import best_rows
from ridgeline.operators.aggregates.rules import Bounds, Rules, placed
from ridgeline.operators.aggregates.value import Aggregate, Part, Rows
from ridgeline.operators.key_value import beyond, extremes, sums


class _OfWindow(Rules, kinds=("window_start", "window_end", "is_final")):
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

    def merged_all(self, ones: Sequence[Part], others: Sequence[Part]) -> list[Part]:
        return list(ones)


class _Count(Rules, kinds=("count",)):
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

    def results(self, parts: list[Part]) -> list[Any]:
        return [part or 0 for part in parts]


class _Sum(Rules, kinds=("sum",)):
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

    def results(self, parts: list[Part]) -> list[Any]:
        return list(map(self.result, parts)) if None not in parts else super().results(parts)


class _Extreme(Rules, kinds=("min", "max")):
    ordered = False
    combines = True
    takes = "ordered"

    def parts(self, rows: Rows) -> list[Part]:
        found, counts = rows.of(self.column), rows.counts(self.column)
        return extremes(found.column, found.groups, rows.count, highest=self.highest, counts=counts)

    def merge(self, one: Part, other: Part) -> Part:
        return beyond(one, other, highest=self.highest)

    def results(self, parts: list[Part]) -> list[Any]:
        return parts


class _End(Rules, kinds=("first", "last")):
    """The part is (time, value)."""

    combines = True

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self.newest = aggregate.kind == "last"

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


class _By(Rules, kinds=("max_by", "min_by")):
    """The part is (value by which it was chosen, time, value)."""

    combines = True

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self.by = aggregate.option("by")

    def field(self, columns: pa.Schema) -> pa.Field:
        field, by = self.field_of(columns), self.field_of(columns, self.by)
        if pa.types.is_nested(by.type):
            raise self.refused(by, "give one with an order")
        return pa.field("", plain(field.type), nullable=field.nullable or by.nullable)

    def parts(self, rows: Rows) -> list[Part]:
        """Rows are in the order of their times, so the first of equal ones is the oldest."""
        found, ordered = rows.of_both(self.column, self.by)
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


def count(column: str | None = None) -> Aggregate:
    """How many records there are; of a column, how many are not null."""
    return _Count.of("count", column)


def sum(column: str) -> Aggregate:  # noqa: A001  read as `aggregate.sum`
    """The sum of a column of numbers; of integers and Decimals exact, of floats rounded once.

    Sums of numbers have 64 bits, those of Decimals 38 digits, as many of them after the point as the column.
    As soon as one does not fit the window that brings it there fails, before it is committed.
    """
    return _Sum.of("sum", column)


def min(column: str) -> Aggregate:  # noqa: A001  read as `aggregate.min`
    """The least value of a column; NaN only if there is no number."""
    return _Extreme.of("min", column)


def max(column: str) -> Aggregate:  # noqa: A001  read as `aggregate.max`
    """The greatest value of a column; NaN only if there is no number."""
    return _Extreme.of("max", column)


def max_by(column: str, by: str) -> Aggregate:
    """The value of the record that has the greatest value in another column: `max_by("bidder", "price")`.

    Of several such records it is that of the oldest. Records with a null in one of both are left out. A NaN
    is the greatest only if there is no number.
    """
    return _By.of("max_by", column, by=by)


def min_by(column: str, by: str) -> Aggregate:
    """The value of the record that has the least value in another column; else as `max_by`."""
    return _By.of("min_by", column, by=by)


def first(column: str) -> Aggregate:
    """The value of the oldest record; of records of one time, that which came first."""
    return _End.of("first", column)


def last(column: str) -> Aggregate:
    """The value of the newest record; of records of one time, that which came last."""
    return _End.of("last", column)


def window_start() -> Aggregate:
    """When the window begins; of a session, the time of its oldest record."""
    return _OfWindow.of("window_start")


def window_end() -> Aggregate:
    """When the window ends, exclusively; of a session, the time of its newest record and the gap."""
    return _OfWindow.of("window_end")


def is_final() -> Aggregate:
    """True of the result when the window's time is over, False of an early one."""
    return _OfWindow.of("is_final")
