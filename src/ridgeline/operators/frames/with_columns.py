"""Add columns to those of a stream, or compute some of them again."""

from __future__ import annotations

from pydantic import Field

from ridgeline.api import Schema
from ridgeline.operators.frames._columns import Plan
from ridgeline.operators.frames._expressions import Given
from ridgeline.operators.frames._step import FrameStep
from ridgeline.operators.frames.select import add_all, keep_as_data


class WithColumns(FrameStep):
    """Make a row of all columns of each row and of computed ones; those of an equal name are replaced.

    `expressions` and `named` are as of `Select`. All of them read the columns that come in. Rows keep their
    times. Partitions: round robin.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import WithColumns
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Order(NamedTuple):
        ...     id: str
        ...     cents: int
        >>> app = Application("euros")
        >>> orders = app.add_operator("orders", ListInput(Order, [("a", 150)]))
        >>> euros = app.add_operator("euros", WithColumns(named={"euros": "cents / 100"}))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("orders", orders.output, euros.input)
        >>> app.add_stream("euros", euros.output, sink.input)
        >>> run_local(app).collected("sink")
        [{'id': 'a', 'cents': 150, 'euros': 1.5}]
    """

    expressions: list[Given] = Field(default_factory=list)
    named: dict[str, Given] = Field(default_factory=dict)

    def __post_init__(self) -> None:
        """Keep the expressions as data."""
        keep_as_data(self)

    def plan(self, tuples: Schema) -> Plan:
        """The columns of the stream, then those that are new."""
        plan = Plan(tuples)
        add_all(plan, self.expressions, self.named)
        plan.keep_others()
        return plan

    def watched(self) -> tuple[str, ...]:
        """Both."""
        return ("expressions", "named")
