"""Predicates over batches: expressions that must be true or false."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ridgeline.api import Schema, SchemaError
from ridgeline.operators.frames._columns import Plan, compute
from ridgeline.operators.frames._expressions import imported, resolved, tree
from ridgeline.operators.frames._nulls import sure_after


class Predicate:
    """A predicate over batches of some tuples. Raises SchemaError if it does not fit them.

    `given`: SQL text, an `Expression`, or a function that takes a tuple.
    """

    def __init__(self, given: Any, tuples: Schema) -> None:
        self.tuples = tuples
        self.function = given if callable(given) else None
        if self.function is not None:
            return
        plan = Plan(tuples)
        self.expression = resolved(given, plan.columns.names)
        found = plan.types_of(self.expression)
        if list(found.values()) != [imported().Boolean]:
            kinds = ", ".join(map(str, found.values()))
            remedy = "compare it with something: `cents > 0`"
            msg = f"the predicate `{self.expression}` gives {kinds or 'nothing'}, not true or false; {remedy}"
            raise SchemaError(msg)
        self.needed = plan.roots_of(self.expression)

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """For each row whether the predicate is true; null where it is not known."""
        if self.function is not None:
            return pa.array([bool(self.function(row)) for row in self.tuples.decode(batch)], pa.bool_())
        (found,) = compute(batch, self.needed, [self.expression]).values()
        return found

    def narrowed(self) -> pa.Schema:
        """The columns of rows for which the predicate is true."""
        sure = sure_after(tree(self.expression)) if self.function is None else ()
        return pa.schema(
            [field.with_nullable(field.nullable and field.name not in sure) for field in self.tuples.arrow]
        )
