"""An aggregate as a value, and the records of a batch that aggregates are computed of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ridgeline.operators._exact import Index

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
        Aggregate(kind='quantile', column='price', q=0.95, interpolation='linear')
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
