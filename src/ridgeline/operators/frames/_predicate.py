"""Predicates over batches: expressions that must be true or false."""

from __future__ import annotations

from typing import Any, Generic

import pyarrow as pa

from ridgeline.api import Schema, SchemaError
from ridgeline.api.columns.combined import PendingTuples
from ridgeline.api.errors import shorten
from ridgeline.api.support.results import deferred
from ridgeline.operators._shaped import T
from ridgeline.operators.frames._columns import Plan
from ridgeline.operators.frames._expressions import Given, imported, resolved, tree
from ridgeline.operators.frames._held import Held
from ridgeline.operators.frames._nulls import sure_after
from ridgeline.operators.frames._step import ExpressionStep


class Predicate:
    """A predicate over batches of some tuples. Raises SchemaError if it does not fit them.

    `given`: SQL text, an `Expression`, or a function that takes a tuple.
    """

    def __init__(self, given: Any, tuples: Schema) -> None:
        self.tuples = tuples
        self.function = given if callable(given) else None
        self.whole = True
        if self.function is not None:
            rule = deferred(self.function)
            if rule:
                raise SchemaError(f"the predicate {rule}; got {shorten(self.function)}")
            return
        plan = Plan(tuples)
        self.expression = resolved(given, plan.columns.names)
        found = plan.types_of(self.expression)
        if list(found.values()) != [imported().Boolean]:
            kinds = ", ".join(map(str, found.values()))
            remedy = "compare it with something: `cents > 0`"
            raise SchemaError(
                f"the predicate `{self.expression}` gives {kinds or 'nothing'}, not true or false; {remedy}"
            )
        self.needed = plan.roots_of(self.expression)
        self.whole = self.expression.meta.has_multiple_outputs()

    def mask(self, given: pa.RecordBatch | PendingTuples) -> pa.Array:
        """For each row whether the predicate is true; null where it is not known."""
        held = Held.of(given, whole=self.whole)
        if self.function is not None:
            return pa.array([bool(self.function(row)) for row in self.tuples.decode(held.batch)], pa.bool_())
        return held.computed(self.needed, self.expression)

    def narrowed(self) -> pa.Schema | None:
        """The columns of rows for which the predicate is true; None: those of a class of their own."""
        if not isinstance(self.tuples.type, pa.Schema):
            return None
        sure = sure_after(tree(self.expression)) if self.function is None else ()
        return pa.schema(
            [field.with_nullable(field.nullable and field.name not in sure) for field in self.tuples.arrow]
        )


class PredicateStep(ExpressionStep, Generic[T]):
    """The base of steps with one predicate over the batches of the port `input`.

    The port `output` has rows for which it is true.
    """

    predicate: Given

    given = ("predicate",)

    def derived(self, given: Schema) -> object:
        """The columns of the stream. Raises SchemaError if the predicate does not fit them."""
        return Predicate(self.predicate, given).narrowed()

    def mask(self, given: pa.RecordBatch | PendingTuples, tuples: Schema) -> pa.Array:
        """For each row of some of `tuples` whether the predicate is true; null where it is not known."""
        columns = tuples.arrow if isinstance(given, PendingTuples) else given.schema
        predicate: Predicate = self.memory.of(
            self.predicate, columns, lambda: Predicate(self.predicate, tuples)
        )
        return predicate.mask(given)
