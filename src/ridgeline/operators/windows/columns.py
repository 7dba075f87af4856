"""What all kinds of windows have: their interface, the parts of aggregates, the columns of results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from operator import itemgetter
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from ridgeline.api import Operator, RidgelineError, Schema, SchemaError
from ridgeline.api.cells.keyed_state import KeyedCell
from ridgeline.api.errors import shorten
from ridgeline.operators import _vectors as vectors
from ridgeline.operators._divided import DividedOperator
from ridgeline.operators._exact import Index
from ridgeline.operators.aggregate.exact import rules_of
from ridgeline.operators.aggregate.rules import Aggregate, Rows

Parts = tuple[Any, ...]
Span = tuple[int, int, Parts]
"""An open session: the times of its oldest and its newest record, and the part of each aggregate."""
RECORDS = Aggregate("count")


class Result(NamedTuple):
    """A window of a key whose result is due: when it begins and ends, and the part of each aggregate."""

    start: int
    end: int
    key: tuple[Any, ...]
    parts: Parts


class AggregatingOperator(DividedOperator):
    """The base of operators whose results have the key's columns, and those of the property `values`."""

    if TYPE_CHECKING:  # subclasses declare it among others, in an order of their own

        @property
        def values(self) -> dict[str, Aggregate]:
            """The aggregates by the names of their columns."""

    beside_key = ("values",)

    def derived(self, given: Schema) -> object:
        """The key's columns, then the aggregates. Raises SchemaError for columns that the stream lacks."""
        if given.pickled:
            return None
        columns = given.arrow
        fields = [columns.field(name) for name in self.key_names if name in columns.names]
        for name, one in self.values.items():
            if name in self.key_names:
                continue  # a fault of the properties
            try:
                fields.append(rules_of(one).field(columns).with_name(name))
            except ValueError as error:
                raise SchemaError(f"`values` has `{name}`, but {error}") from None
        return pa.schema(fields)


class Columns:
    """The aggregates of an operator by the names of their columns.

    `counted`: there is one part more at the end, the records since the last result. `ordered`: parts depend
    on the order of the records.
    """

    def __init__(self, operator: Operator, values: dict[str, Aggregate], *, counted: bool) -> None:
        self.operator = operator
        self.output: Any = getattr(operator, "output")  # noqa: B009  no declaration of the base
        self.values = values
        self.counted = counted
        self.rules = [rules_of(one) for one in (*values.values(), *[RECORDS] * counted)]
        self.ordered = any(one.ordered for one in self.rules)

    def parts(self, rows: Rows) -> list[Parts]:
        """The parts of each group, one for each aggregate."""
        return list(zip(*[one.parts(rows) for one in self.rules], strict=True))

    def merged(self, one: Parts, other: Parts) -> Parts:
        """The parts of the records of both; those of `one` came before."""
        return tuple([rules.merged(*both) for rules, *both in zip(self.rules, one, other, strict=True)])

    def merged_all(self, ones: Sequence[Parts], others: Sequence[Parts]) -> list[Parts]:
        """As `merged`, of many."""
        columns = zip(self.rules, zip(*ones, strict=True), zip(*others, strict=True), strict=True)
        return list(zip(*[rules.merged_all(first, second) for rules, first, second in columns], strict=True))

    def check(self, parts: Sequence[Parts], key_of: Callable[[int], tuple[Any, ...]]) -> None:
        """Raise RidgelineError for a sum that could not be emitted now, before its records are committed.

        `key_of`: the key of the parts at a place.
        """
        for number, field in self._summed:
            sums = [one[number] for one in parts]
            if self._fits(number, field, sums):
                continue
            wrong = next(place for place, one in enumerate(sums) if not self._fits(number, field, [one]))
            key = key_of(wrong)
            what = f"the sum `{field.name}` of key {shorten(key[0] if len(key) == 1 else key)}"
            raise RidgelineError(
                f"{what} in `{self.operator.context.name}` does not fit its type {field.type}; "
                f"got values of column `{self.values[field.name].column}` that are too large; "
                "leave them out before, scale them, or use `mean`"
            )

    @cached_property
    def _summed(self) -> list[tuple[int, pa.Field]]:
        """The places of sums, and their columns."""
        schema: pa.Schema = self.output.schema.arrow
        kinds = enumerate(self.values.items())
        return [(number, schema.field(name)) for number, (name, one) in kinds if one.kind == "sum"]

    def _fits(self, number: int, field: pa.Field, sums: list[Any]) -> bool:
        if set(map(type, sums)) <= {float, NoneType}:
            return True
        try:
            pa.array(self.rules[number].results(sums), field.type)
        except (OverflowError, pa.ArrowInvalid):
            return False
        return True

    def emit(self, results: Sequence[Result], *, final: bool) -> None:
        """Emit the columns of results, if there are any: those of keys, then those of aggregates."""
        if not results:
            return
        of_window = {
            "window_start": [one.start for one in results],
            "window_end": [one.end for one in results],
        }
        columns: list[Sequence[Any]] = [
            list(values) for values in zip(*[one.key for one in results], strict=True)
        ]
        parts = [one.parts for one in results]
        for number, aggregate in enumerate(self.values.values()):
            if aggregate.kind == "is_final":
                columns.append([final] * len(results))
            elif aggregate.kind in of_window:
                columns.append(of_window[aggregate.kind])
            else:
                columns.append(self.rules[number].results(list(map(itemgetter(number), parts))))
        schema = self.output.schema.arrow
        arrays = [
            vectors.as_column(values, field.type) for values, field in zip(columns, schema, strict=True)
        ]
        self.output.emit_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))


NEVER = int(np.iinfo(np.int64).max)
Key = tuple[Any, ...]


class Records(NamedTuple):
    """Records of a batch. `starts`: as `WindowKind.bounds` has them.

    `codes`: of each record the number of its key in `keys`. `closed`: windows that end by then are over.
    `parts`: of partial results in place of records, of each one for each aggregate.
    """

    batch: pa.RecordBatch
    times: Index
    starts: Index
    codes: Index
    keys: Sequence[Key]
    closed: int
    parts: Sequence[Parts] | None = None


class Holder(Protocol):
    """The operator that holds the state of its windows."""

    open: KeyedCell[Any, Any]
    waiting: KeyedCell[Any, Any]
    due: int

    def emit_final(self, over: list[Result]) -> None:
        """Emit windows whose time is over."""


class WindowKind:
    """The windows of one kind of one operator; their state is the operator's.

    `columns`: the aggregates. `windows`: the property of the operator. Times are microseconds since 1970.
    """

    def __init__(self, operator: Holder, columns: Columns, windows: Any) -> None:
        self.operator = operator
        self.columns = columns
        self.windows = windows

    def bounds(self, times: Index) -> tuple[Index, Index]:
        """For each time where its last window begins, and from when on a record of this time is late."""
        raise NotImplementedError

    def add(self, records: Records) -> None:
        """Add records that are not late."""
        raise NotImplementedError

    def close(self, closed: int) -> list[Result]:
        """Forget the windows that end by then; returns them."""
        raise NotImplementedError

    def last_end(self) -> int:
        """When the last open window ends; beyond all times if records are never late."""
        raise NotImplementedError

    def early(
        self, name: Any, value: Any, least: int, left: Callable[[Parts], Parts]
    ) -> tuple[list[Result], Any]:
        """The open windows in a state that have at least so many new records, and the state after them.

        `left`: what is left of the parts of such a window.
        """
        raise NotImplementedError


def new_records(parts: Parts) -> int:
    """How many records came since the last result."""
    return parts[-1] or 0
