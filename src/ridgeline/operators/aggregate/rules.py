"""An aggregate, records in groups, and the rules of an aggregate: type, parts, merging, result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from ridgeline.operators._exact import Index
from ridgeline.operators._kinds import plain
from ridgeline.operators._vectors import is_number

Part = Any
"""An aggregate of some records of a window; None of no value. Two parts merge into one."""


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of a column; None for all records, or for the window itself.

    `options`: what else its function was given, by name.

    Example:
        >>> from ridgeline.operators import aggregate
        >>> aggregate.max("price")
        Aggregate(kind='max', column='price')
        >>> aggregate.quantile("price", 0.95)
        Aggregate(kind='quantile', column='price', q=0.95)
    """

    kind: str
    column: str | None = None
    options: tuple[tuple[str, Any], ...] = ()

    def __repr__(self) -> str:
        given = "".join(f", {name}={_shown(value)}" for name, value in self.options)
        return f"Aggregate(kind={self.kind!r}, column={self.column!r}{given})"

    def __post_init__(self) -> None:
        # lists, as documents have them
        object.__setattr__(self, "options", tuple((name, _fixed(value)) for name, value in self.options))

    def option(self, name: str) -> Any:
        """The option of this name; None if its function has none."""
        return dict(self.options).get(name)


def _fixed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _shown(value: Any) -> str:
    """A value as text, the same in all processes."""
    named = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
    return named if callable(value) else repr(value)


_FEW = 1 << 16


class Values(NamedTuple):
    """The values of a column that are not null, with the times and the groups of their rows."""

    column: pa.Array
    times: Index
    groups: Index


@dataclass
class Rows:
    """Records of a batch in groups.

    `rows`: positions in the batch, in the order of their times; None: all, as they came. `times` and
    `groups`: of each of them its time and the number of its group, from 0 to `count` - 1.
    """

    batch: pa.RecordBatch
    rows: Index | None
    times: Index
    groups: Index
    count: int
    _known: dict[Any, Any] = field(default_factory=dict)

    def once(self, name: object, make: Callable[[], Any]) -> Any:
        """The value that `make` returns; computed once for all aggregates that ask for it by this name."""
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = make()
        return found

    def sizes(self) -> list[int]:
        """How many records each group has."""
        return self.once((), lambda: np.bincount(self.groups, minlength=self.count).tolist())

    def of(self, name: str) -> Values:
        """The values of a column; those of a dictionary column decoded."""
        return self.once(name, lambda: self._taken((name,))[0])

    def counts(self, name: str) -> list[int]:
        """How many values of a column each group has."""
        found = self.of(name).groups
        if found is self.groups:
            return self.sizes()
        return self.once((name, "counts"), lambda: np.bincount(found, minlength=self.count).tolist())

    def of_both(self, one: str, other: str) -> tuple[Values, Values]:
        """The values of two columns in the rows where neither is null."""
        first, second = self._taken((one, other))
        return first, second

    def _taken(self, names: tuple[str, ...]) -> list[Values]:
        """The values of columns in the rows where none of them is null."""
        columns, valid = [], np.ones(len(self.groups), np.bool_)
        for name in names:
            column = self.batch.column(self.batch.schema.get_field_index(name))
            if pa.types.is_dictionary(column.type):
                column = column.dictionary_decode()
            if self.rows is not None:
                column = column.take(pa.array(self.rows))
            if column.null_count:
                valid &= column.is_valid().to_numpy(zero_copy_only=False)
            columns.append(column)
        if valid.all():
            return [Values(column, self.times, self.groups) for column in columns]
        mask = pa.array(valid)
        return [Values(column.filter(mask), self.times[valid], self.groups[valid]) for column in columns]

    def slices(self, found: Values) -> tuple[Index, list[tuple[int, int, int]]]:
        """The positions of values, group by group in the order of times; of each group where it lies there.

        Each of the latter is (group, begin, end); groups without a value are left out.
        """
        # a stable sort of 16 bits is a radix sort
        groups = found.groups.astype(np.uint16) if self.count <= _FEW else found.groups
        order = np.argsort(groups, kind="stable")
        ordered = found.groups[order]
        begins = np.flatnonzero(np.diff(ordered, prepend=-1))
        ends = np.append(begins[1:], len(ordered))[: len(begins)]
        spans = zip(ordered[begins].tolist(), begins.tolist(), ends.tolist(), strict=True)
        return order, list(spans)


_REMEDIES = {"ordered": "give one with an order", "plain": "give one of plain values"}
Bounds = Sequence[tuple[int, int]]
"""The places of the records of each window, first and behind the last; neither ever falls."""


class Rules:
    """The rules of one aggregate.

    Parts are immutable values. They are written into state as they are.
    """

    of_window: ClassVar[bool] = False
    """True of what says something of the window, not of its records."""
    retract: ClassVar[Callable[[Any, Part, Part], Part] | None] = None
    """The part of the records of a whole without those of another, which are its oldest ones.

    None if parts cannot be taken away.
    """
    ordered: ClassVar[bool] = True
    """Parts depend on the order of the rows of a batch; False where rows may come in any."""
    sequential: ClassVar[bool] = False
    """Parts are merged from the oldest on; those in the middle must not be merged before."""
    combines: bool = False
    """Parts are small, and may be made before records are sent: then they are sent in their place."""
    takes: ClassVar[Literal["any", "ordered", "plain", "numbers"]] = "any"
    """Which columns it takes: "ordered" and "plain" ones have no lists, maps or structs.

    Of "plain" ones results have the type of their values, not dictionaries.
    """
    kind: Any = None
    """The type of results; None: that of the column."""
    nothing: Any = None
    """The aggregate of no value. Where it is not None results are never null."""

    def __init__(self, aggregate: Aggregate) -> None:
        self.aggregate = aggregate
        self.column = aggregate.column or ""
        self.option = aggregate.option
        self.highest = aggregate.kind.startswith("max")
        self.newest = aggregate.kind == "last"

    def field(self, columns: pa.Schema) -> pa.Field:
        """The field of the results, without its name; for records with these columns.

        Raises ValueError that says what is wrong.
        """
        field = self.fitting(columns)
        return pa.field("", self.kind or field.type, nullable=self.nothing is None and field.nullable)

    def parts(self, rows: Rows) -> list[Part]:
        """The part of each group; None of one without a value."""
        raise NotImplementedError

    def merge(self, one: Part, other: Part) -> Part:
        """The part of the records of both, neither of them None; those of `one` came before."""
        raise NotImplementedError

    def merged(self, one: Part, other: Part) -> Part:
        """As `merge`, of parts that may be None."""
        if one is None or other is None:
            return other if one is None else one
        return self.merge(one, other)

    def merged_all(self, ones: Sequence[Part], others: Sequence[Part]) -> list[Part]:
        """As `merged`, of many."""
        if None in ones or None in others:
            return list(map(self.merged, ones, others))
        return list(map(self.merge, ones, others))

    def result(self, part: Part) -> Any:
        """The aggregate of a part that is whole, and not None."""
        return part

    def rolled(self, parts: Sequence[Part], bounds: Bounds) -> list[Part] | None:
        """The part of each slice of parts, `(begin, end)` each; None if there is no quick way."""
        return None

    def results(self, parts: list[Part]) -> list[Any]:
        """The aggregates of parts, None included."""
        return [self.nothing if part is None else self.result(part) for part in parts]

    def field_of(self, columns: pa.Schema, name: str | None = None) -> pa.Field:
        """The field of the column. Raises ValueError if there is none of this name."""
        name = self.column if name is None else name
        if isinstance(name, Aggregate):
            what = f"its column is the aggregate `{name.kind}`, and an aggregate takes a column"
            raise ValueError(f"{what}; aggregate the results of the first one in a step behind it")  # noqa: TRY004  as for other columns
        if name not in columns.names:
            raise ValueError(f"there is no column `{name}`; the stream has {', '.join(columns.names)}")
        return columns.field(name)

    def fitting(self, columns: pa.Schema) -> pa.Field:
        """The field of the column. Raises ValueError if it is none that the aggregate takes."""
        if self.takes == "numbers":
            return self.number_of(columns)
        field = self.field_of(columns)
        if self.takes != "any" and pa.types.is_nested(field.type):
            raise self.refused(field, _REMEDIES[self.takes])
        return field.with_type(plain(field.type)) if self.takes == "plain" else field

    def refused(self, field: pa.Field, what: str) -> ValueError:
        """The error of a column whose type has no such aggregate."""
        return ValueError(
            f"column `{field.name}` is {field.type}, which has no {self.aggregate.kind}; {what}"
        )

    def number_of(self, columns: pa.Schema, name: str | None = None) -> pa.Field:
        """The field of a column of numbers. Raises ValueError if it is none."""
        field = self.field_of(columns, name)
        if not is_number(field.type):
            raise self.refused(field, "give one of numbers")
        return field


def placed(count: int, found: Iterable[tuple[int, Part]]) -> list[Part]:
    """The parts of groups with their numbers, as `Rules.parts` gives them: of so many groups."""
    parts: list[Part] = [None] * count
    for group, part in found:
        parts[group] = part
    return parts


def list_field(kind: pa.DataType, *, nullable: bool = False) -> pa.Field:
    """The field of lists of values that are not null."""
    return pa.field("", pa.list_(pa.field("item", kind, nullable=False)), nullable=nullable)
