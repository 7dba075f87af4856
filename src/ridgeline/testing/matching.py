"""Match the tuples of two runs: equal ones, also in another order, with numbers that differ a little."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from ridgeline.api.columns.struct_types import field_names
from ridgeline.api.errors import shorten
from ridgeline.api.support.pickling import dumps
from ridgeline.testing.inspection import is_users

_DEEPEST = 50


class Row(NamedTuple):
    """A tuple, as it is compared.

    `shape`: all of it but its finite floats, which `numbers` has. `columns`: names and values, to be shown.
    """

    shape: Hashable
    numbers: tuple[float, ...]
    columns: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return ", ".join(f"{name}={text}" if name else text for name, text in self.columns)

    def beside(self, other: Row, here: str, there: str) -> str:
        """The columns that both rows have, then those that differ, with both values."""
        own, texts = dict(self.columns), dict(other.columns)
        same = [f"{name}={text}" for name, text in own.items() if texts.get(name) == text]
        differ = [
            f"{name} {own.get(name, 'nothing')} {here}, {texts.get(name, 'nothing')} {there}"
            for name in {**own, **texts}
            if own.get(name) != texts.get(name)
        ]
        return f"{', '.join(same)}: {', '.join(differ) or 'another type, or what is not shown'}"


class Unmatched(NamedTuple):
    """Rows without an equal on the other side, in order.

    `moved`: all have one, but elsewhere: rows of A, B.
    """

    only_a: list[Row]
    only_b: list[Row]
    moved: tuple[Row, Row] | None


def row_of(value: object) -> Row:
    """A tuple, or any other value of a stream, as it is compared."""
    numbers: list[float] = []
    fields = _fields(value)
    shape = _shape(value, numbers, 0)
    if fields is None:
        return Row(shape, tuple(numbers), (("", shorten(value)),))
    return Row(shape, tuple(numbers), tuple((name, shorten(part)) for name, part in fields.items()))


def match(a: Sequence[Row], b: Sequence[Row], tolerance: float, *, ordered: bool) -> Unmatched:
    """The rows that two sides do not share. `ordered`: equal tuples must also come in the same order.

    `tolerance`: floats may be apart by so much, or by this part of the larger one.
    """
    if len(a) == len(b) and all(_equal(one, other, tolerance) for one, other in zip(a, b, strict=True)):
        return Unmatched([], [], None)
    left, right = _without_equals(a, b, tolerance)
    if left or right or not ordered:
        return Unmatched(left, right, None)
    places = (pair for pair in zip(a, b, strict=True) if not _equal(*pair, tolerance))
    return Unmatched([], [], next(places, None))


def _equal(one: Row, other: Row, tolerance: float) -> bool:
    pairs = zip(one.numbers, other.numbers, strict=True)
    return one.shape == other.shape and (
        one.numbers == other.numbers
        or all(math.isclose(*pair, rel_tol=tolerance, abs_tol=tolerance) for pair in pairs)
    )


def _without_equals(a: Sequence[Row], b: Sequence[Row], tolerance: float) -> tuple[list[Row], list[Row]]:
    """The rows of each side that have no equal one on the other, each of which is taken once."""
    left, right = _surplus(a, b), _surplus(b, a)
    waiting: dict[Hashable, list[Row]] = defaultdict(list)
    for row in sorted((row for row in right if row.numbers), key=lambda row: row.numbers):
        waiting[row.shape].append(row)
    near_a, near_b = set[int](), set[int]()
    for row in sorted((row for row in left if row.numbers), key=lambda row: row.numbers):
        place = _partner(row, waiting.get(row.shape, []), tolerance)
        if place is not None:
            near_a.add(id(row))
            near_b.add(id(waiting[row.shape].pop(place)))
    return [row for row in left if id(row) not in near_a], [row for row in right if id(row) not in near_b]


def _surplus(rows: Sequence[Row], others: Sequence[Row]) -> list[Row]:
    """The rows of which there are more than of equal ones among the others."""
    there = Counter((row.shape, row.numbers) for row in others)
    found = []
    for row in rows:
        if there[row.shape, row.numbers]:
            there[row.shape, row.numbers] -= 1
        else:
            found.append(row)
    return found


def _partner(row: Row, others: Sequence[Row], tolerance: float) -> int | None:
    """The place of the first of these rows, which are sorted by their numbers, that is near enough."""
    first = row.numbers[0]
    reach = 2 * tolerance * max(1.0, abs(first))
    for place in range(bisect_left(others, first - reach, key=lambda one: one.numbers[0]), len(others)):
        if others[place].numbers[0] > first + reach:
            return None
        if _equal(row, others[place], tolerance):
            return place
    return None


def _fields(value: object) -> Mapping[str, object] | None:
    """The columns of a tuple; None for a value without columns."""
    if isinstance(value, Mapping):
        return {str(name): part for name, part in value.items()}
    names = field_names(type(value))
    return None if names is None else {name: getattr(value, name) for name in names}


def _shape(  # noqa: PLR0911  one return a kind of value
    value: Any, numbers: list[float], depth: int
) -> Hashable:
    """All of a value but its finite floats, which are added to `numbers`; the same in every process."""
    name = type(value).__name__
    if isinstance(value, float):
        if math.isfinite(value):
            numbers.append(float(value))
            return name
        return name, str(value)
    if value is None or isinstance(value, (int, str, bytes)):
        return name, value
    if depth > _DEEPEST:
        return name, dumps(value)
    fields = _fields(value)
    if fields is not None:
        return tuple((key, _shape(part, numbers, depth + 1)) for key, part in fields.items())
    if isinstance(value, (list, tuple)):
        return name, *(_shape(part, numbers, depth + 1) for part in value)
    if isinstance(value, (set, frozenset)):
        return name, *sorted(repr(_shape(part, [], depth + 1)) for part in value)
    if is_users(cast("Hashable", type(value))) and hasattr(value, "__dict__"):
        return name, _shape(vars(value), numbers, depth + 1)
    text = repr(value)
    return name, dumps(value) if " at 0x" in text else text


def changes(a: Sequence[Row], b: Sequence[Row]) -> Iterator[tuple[Row | None, Row | None]]:
    """Pair rows that differ: those of one first column, which is the key of most streams."""
    waiting: dict[object, list[Row]] = defaultdict(list)
    for row in b:
        waiting[row.columns[0]].append(row)
    paired = set[int]()
    for row in a:
        others = waiting[row.columns[0]] if len(row.columns) > 1 else []
        other = others.pop(0) if others else None
        if other is not None:
            paired.add(id(other))
        yield row, other
    for row in b:
        if id(row) not in paired:
            yield None, row
