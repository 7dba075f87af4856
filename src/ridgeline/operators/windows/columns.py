"""The aggregates of one operator: their parts of a batch, how parts merge, and the columns of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from ridgeline.api import Operator, RidgelineError, Schema, SchemaError
from ridgeline.api.errors import shorten
from ridgeline.operators import _window_parts as vectors
from ridgeline.operators._divided import DividedOperator, check_keys
from ridgeline.operators._exact import rounded
from ridgeline.operators._sessions import Parts
from ridgeline.operators.aggregates.rules import rules_of
from ridgeline.operators.aggregates.value import Aggregate, Rows

_LEAST_SUM = -(2**63)
_LARGE = 1 << 62
_LARGE_EXPONENT = 1_000
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

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The key's columns, then the aggregates. Raises SchemaError for columns that the stream lacks."""
        if port != "output" or "input" not in inputs or inputs["input"].pickled:
            return None
        columns = inputs["input"].arrow
        check_keys(inputs["input"], self.key_names)
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
        self.sums = [number for number, one in enumerate(values.values()) if one.kind == "sum"]

    def parts(self, rows: Rows) -> list[Parts]:
        """The parts of each group, one for each aggregate."""
        return list(zip(*[one.parts(rows) for one in self.rules], strict=True))

    def merged(self, one: Parts, other: Parts) -> Parts:
        """The parts of the records of both; those of `one` came before."""
        return tuple(
            [
                rules.merge(before, after)
                if before is not None and after is not None
                else after
                if before is None
                else before
                for rules, before, after in zip(self.rules, one, other, strict=True)
            ]
        )

    def merged_all(self, ones: Sequence[Parts], others: Sequence[Parts]) -> list[Parts]:
        """As `merged`, of many."""
        columns = zip(self.rules, zip(*ones, strict=True), zip(*others, strict=True), strict=True)
        return list(zip(*[rules.merged_all(first, second) for rules, first, second in columns], strict=True))

    def check_all(self, parts: Sequence[Parts], names: Sequence[tuple[Any, ...]]) -> None:
        """As `checked`, of many; only sums that are large are looked at one by one.

        `names`: those of windows, a start and a key each.
        """
        if not all(_is_small([one[number] for one in parts]) for number in self.sums):
            for one, name in zip(parts, names, strict=True):
                self.checked(one, name[1:])

    def checked(self, parts: Parts, key: tuple[Any, ...]) -> Parts:
        """Parts whose sums could be emitted now; else raises, before their records are committed."""
        for number in self.sums:
            part = parts[number]
            try:
                fits = not isinstance(part, int) or _LEAST_SUM <= part < -_LEAST_SUM
                if isinstance(part, Decimal):
                    kind = self._field(number).type
                    fits = not part or part.adjusted() < kind.precision - kind.scale
                rounded(part)
            except OverflowError:
                fits = False
            if not fits:
                name = list(self.values)[number]
                what = f"the sum `{name}` of key {shorten(key[0] if len(key) == 1 else key)}"
                raise RidgelineError(
                    f"{what} in `{self.operator.context.name}` does not fit its type "
                    f"{self._field(number).type}; got values of column "
                    f"`{self.values[name].column}` that are too large; "
                    "leave them out before, scale them, or use `mean`"
                )
        return parts

    def _field(self, number: int) -> pa.Field:
        field: pa.Field = self.output.schema.arrow.field(list(self.values)[number])
        return field

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


def _is_small(sums: list[Any]) -> bool:
    """True if all sums of numbers fit their types, as is seen at a glance."""
    for kind in set(map(type, sums)):
        if kind is int:
            own = [one for one in sums if type(one) is int]
            if min(own) < -_LARGE or max(own) > _LARGE:
                return False
        elif kind is tuple:
            if not all(one[0].bit_length() + one[1] < _LARGE_EXPONENT for one in sums if type(one) is tuple):
                return False
        elif kind not in (float, type(None)):
            return False
    return True
