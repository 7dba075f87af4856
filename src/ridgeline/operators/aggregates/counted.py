"""Aggregates of how often each value comes: distinct values, the most frequent ones."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from ridgeline.api.support.results import names_call
from ridgeline.operators.aggregates.rules import Rules, list_field
from ridgeline.operators.aggregates.value import Aggregate, Part, Rows
from ridgeline.operators.key_value import distinct

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


class _CountUnique(_Counted, kinds=("count_unique",)):
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


class _Top(_Counted, kinds=("top",)):
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


class _CollectSet(_Counted, kinds=("collect_set",)):
    nothing = ()

    def field(self, columns: pa.Schema) -> pa.Field:
        return list_field(self.fitting(columns).type)

    def result(self, part: Part) -> Any:
        return sorted((value for value, _ in part), key=lambda one: (one != one, _ordered(one)))  # noqa: PLR0124  a NaN


class _Mode(_Counted, kinds=("mode",)):
    def result(self, part: Part) -> Any:
        return highest(part, 1)[0]["value"]


def count_unique(column: str, *, exact: bool = True) -> Aggregate:
    """How many distinct values of a column there are; null is none.

    `exact=False`: an estimate by a HyperLogLog sketch of 4 KiB, whose error is 1.6 % as a rule.
    """
    from ridgeline.operators.aggregates.sketches import approximate

    return _CountUnique.of("count_unique", column) if exact else approximate("count_unique", column)


@names_call
def top(column: str, n: int = 10, *, exact: bool = True) -> Aggregate:
    """The `n` most frequent values of a column, as a list of `{value, count}`, the most frequent first.

    Values of one number are in their order. `exact=False`: by a sketch of bounded size, of texts: whose
    counts may be too large by a small part of all records.
    """
    from ridgeline.operators.aggregates.sketches import approximate

    if type(n) is not int or n < 1:
        raise ValueError(f"`top` takes a number of values, at least 1; got {n!r}")
    return _Top.of("top", column, n=n) if exact else approximate("top", column, n=n)


def collect_set(column: str) -> Aggregate:
    """The distinct values of a column in their order, as a list; null is none."""
    return _CollectSet.of("collect_set", column)


def mode(column: str) -> Aggregate:
    """The most frequent value of a column, of several the least."""
    return _Mode.of("mode", column)
