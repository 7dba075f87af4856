"""Aggregates of values in their order: lists, and functions of one's own."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import pyarrow as pa

from ridgeline.operators._kinds import plain
from ridgeline.operators.aggregates.rules import Rules, list_field, placed
from ridgeline.operators.aggregates.value import Aggregate, Part, Rows

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


class _CollectList(Rules, kinds=("collect_list",)):
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


class _Reduce(Rules, kinds=("reduce",)):
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
        begun = self._called(one)
        waiting, called, value = other
        if called:
            return (), True, self.combine(begun, value)
        for new in waiting:
            begun = self.function(begun, new)
        return (), True, begun

    def _called(self, part: Part) -> Any:
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

    def result(self, part: Part) -> Any:
        return self._called(part)


def collect_list(column: str) -> Aggregate:
    """The values of a column in the order of record times, as a list; null is none."""
    return _CollectList.of("collect_list", column)


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
    return _Reduce.of("reduce", column, function=function, initial=initial, merge=merge)
