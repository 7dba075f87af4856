"""An aggregate of the records that have one value in a column: what a pivot is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api.support.results import names_call
from ridgeline.operators._kinds import plain
from ridgeline.operators.aggregates.rules import Bounds, Rules, rules_of
from ridgeline.operators.aggregates.value import Aggregate, Part, Rows

_OWN = ("of", "where", "equals")
_NEVER = ("only", "reduce", "window_start", "window_end", "is_final")


class _Only(Rules, kinds=("only",)):
    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self.where, self.equals = self.option("where"), self.option("equals")
        options = tuple(one for one in aggregate.options if one[0] not in _OWN)
        self.inner = rules_of(Aggregate(self.option("of"), aggregate.column, options))
        self.combines, self.nothing = self.inner.combines, self.inner.nothing

    def field(self, columns: pa.Schema) -> pa.Field:
        """That of the inner aggregate; null where no record has the value."""
        kind = plain(self.field_of(columns, self.where).type)
        if pa.types.is_nested(kind):
            raise ValueError(
                f"column `{self.where}` is {kind}, which is compared with nothing; name one of plain values"
            )
        try:
            pa.scalar(self.equals, kind)
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise ValueError(
                f"column `{self.where}` is {kind}, which never equals {self.equals!r}: {error}"
            ) from error
        found = self.inner.field(columns)
        return found if self.nothing is not None else found.with_nullable(nullable=True)

    def parts(self, rows: Rows) -> list[Part]:
        return self.inner.parts(rows.once(("only", self.where, repr(self.equals)), lambda: self._own(rows)))

    def _own(self, rows: Rows) -> Rows:
        """The records that have the value."""
        column = rows.batch.column(rows.batch.schema.get_field_index(self.where))
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if rows.rows is not None:
            column = column.take(pa.array(rows.rows))
        equal = pc.equal(column, pa.scalar(self.equals, column.type))
        mask = np.asarray(equal.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)  # noqa: FBT003
        chosen = np.flatnonzero(mask) if rows.rows is None else rows.rows[mask]
        return Rows(rows.batch, chosen, rows.times[mask], rows.groups[mask], rows.count)

    def merge(self, one: Part, other: Part) -> Part:
        return self.inner.merge(one, other)

    def rolled(self, parts: Sequence[Part], bounds: Bounds) -> list[Part] | None:
        return self.inner.rolled(parts, bounds)

    def result(self, part: Part) -> Any:
        return self.inner.result(part)

    def results(self, parts: list[Part]) -> list[Any]:
        return self.inner.results(parts)


@names_call
def only(aggregate: Aggregate, where: str, equals: Any) -> Aggregate:
    """An aggregate of the records alone that have a value: `only(sum("cents"), where="kind", equals="a")`.

    Raises ValueError for `reduce`, for what says something of the window, and for what is no aggregate.
    """
    if getattr(aggregate, "kind", None) in (None, *_NEVER):
        raise ValueError(
            "it takes an aggregate such as `sum(...)`, but not `reduce`, `only`, or one of the window"
        )
    own = {"of": aggregate.kind, "where": where, "equals": equals}
    return _Only.of("only", aggregate.column, **own, **dict(aggregate.options))
