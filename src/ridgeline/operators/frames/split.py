"""Divide a stream by predicates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ridgeline.api import InputPort, OutputPort, Schema
from ridgeline.operators._shaped import ShapedOperator, T, unshaped
from ridgeline.operators.frames._expressions import Given
from ridgeline.operators.frames._predicate import Predicate
from ridgeline.operators.frames._step import ExpressionStep


class Branch(ShapedOperator, ExpressionStep, Generic[T]):
    """Divide rows by several predicates: each goes to the port of the first that is true, else to `rest`.

    `predicates`: by the name of the port, SQL text, a polars expression, or a function that takes a tuple. A
    null is not true. Rows keep their order and times. Partitions: round robin.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Branch
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Order(NamedTuple):
        ...     cents: int
        >>> app = Application("orders")
        >>> orders = app.add_operator("orders", ListInput(Order, [(5,), (50_000,), (0,)]))
        >>> branch = app.add_operator("branch", Branch({"large": "cents > 1000", "small": "cents > 0"}))
        >>> app.add_stream("orders", orders.output, branch.input)
        >>> for name in ("large", "small", "rest"):
        ...     sink = app.add_operator(f"{name}_orders", CollectorSink(Order))
        ...     app.add_stream(name, getattr(branch, name), sink.input)
        >>> run = run_local(app)
        >>> [run.collected(f"{name}_orders") for name in ("large", "small", "rest")]
        [[Order(cents=50000)], [Order(cents=5)], [Order(cents=0)]]
    """

    input = InputPort[T](Any)
    rest = OutputPort[T](Any)

    predicates: dict[str, Given] = Field(min_length=1)

    shaped_by = "predicates"
    given = ("predicates",)
    fixed = "cannot get other names from outside; give them in the application"

    @classmethod
    def shape_of(cls, given: Mapping[str, Any]) -> tuple[str, ...] | None:
        """The names that a port can have."""
        names = given.get("predicates")
        return tuple(name for name in names if cls._is_port(name)) if isinstance(names, Mapping) else None

    @classmethod
    def members_of(cls, shape: tuple[str, ...]) -> dict[str, Any]:
        """A port for each predicate."""
        return {name: OutputPort[Any](Any) for name in shape}

    @classmethod
    def _is_port(cls, name: object) -> bool:
        named = isinstance(name, str) and name.isidentifier() and not name.startswith("_")
        return named and not hasattr(unshaped(cls), str(name))

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse names that no port can have, and other ports than those of the application."""
        odd = [name for name in self.predicates if not self._is_port(name)]
        if not odd:
            return super().property_faults()
        rule = "must be a name such as `large`, and not one that the operator has itself"
        return [("predicates", odd[0], rule)]

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The columns of the stream. Raises SchemaError if a predicate does not fit them."""
        if port not in self.predicates or "input" not in inputs:
            return None
        return Predicate(self.predicates[port], inputs["input"]).narrowed()

    @input.process_batch
    def divide(self, batch: pa.RecordBatch) -> None:
        """Divide a batch."""
        schema = self.input.schema
        predicates: dict[str, Predicate] = self.memory.of(
            self.predicates,
            batch.schema,
            lambda: {name: Predicate(one, schema) for name, one in self.predicates.items()},
        )
        left = pa.repeat(pa.scalar(True), len(batch))  # noqa: FBT003
        for name, predicate in predicates.items():
            mask = pc.and_(left, pc.fill_null(predicate.mask(batch), False))  # noqa: FBT003
            port: Any = getattr(self, name)
            port.emit_batch(batch.filter(mask), rows=mask)
            left = pc.and_not(left, mask)
        self.rest.emit_batch(batch.filter(left), rows=left)
