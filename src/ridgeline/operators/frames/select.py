"""Choose and compute columns."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ridgeline.api import Schema
from ridgeline.operators.frames._columns import Plan
from ridgeline.operators.frames._expressions import Given, data_where_possible
from ridgeline.operators.frames._step import FrameStep


class Select(FrameStep):
    """Make a row of the chosen and computed columns of each row.

    `expressions`: names of columns, SQL text such as `"cents / 100 as euros"`, or polars expressions.
    `named`: further ones, by the name of their column. They are checked against the stream's columns when
    the application is validated. Columns that are passed on keep their type, and may be null as before. A
    computed one may be null, unless it is known that it cannot. Rows keep their times. Partitions: round
    robin.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Select
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Order(NamedTuple):
        ...     id: str
        ...     cents: int
        >>> app = Application("euros")
        >>> orders = app.add_operator("orders", ListInput(Order, [("a", 150), ("b", 5)]))
        >>> euros = app.add_operator("euros", Select(["id"], {"euros": "cents / 100"}))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("orders", orders.output, euros.input)
        >>> app.add_stream("euros", euros.output, sink.input)
        >>> run_local(app).collected("sink")
        [{'id': 'a', 'euros': 1.5}, {'id': 'b', 'euros': 0.05}]
    """

    expressions: list[Given] = Field(default_factory=list)
    named: dict[str, Given] = Field(default_factory=dict)

    def __post_init__(self) -> None:
        """Keep the expressions as data."""
        keep_as_data(self)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a result without columns."""
        empty = not self.expressions and not self.named
        return [("expressions", [], "must have at least one, or `named` must")] if empty else []

    def plan(self, tuples: Schema) -> Plan:
        """The chosen columns."""
        plan = Plan(tuples)
        add_all(plan, self.expressions, self.named)
        return plan

    def watched(self) -> tuple[str, ...]:
        """Both."""
        return ("expressions", "named")


def keep_as_data(step: Any) -> None:
    """Keep the expressions of a step as data."""
    own = vars(step)
    if isinstance(own.get("expressions"), (list, tuple)):
        own["expressions"] = [data_where_possible(one) for one in own["expressions"]]
    if isinstance(own.get("named"), dict):
        own["named"] = {name: data_where_possible(one) for name, one in own["named"].items()}


def add_all(plan: Plan, expressions: list[Any], named: dict[str, Any]) -> None:
    """Add the columns of expressions to a plan, which notes faults."""
    for name, given in [*((None, one) for one in expressions), *named.items()]:
        plan.add_given(given, name)


__all__ = ["Select"]
