"""The partitions of an operator that holds a total for each key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ridgeline import Application, InputPort, KeyedState, Operator
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.planner import plan_application
from ridgeline.testing import ListInput


class Event(NamedTuple):
    key: int
    value: int


class Totals(Operator):
    input = InputPort(Event, key="key")
    totals = KeyedState(int)

    @input.process
    def add(self, event: Event) -> None:
        self.totals[event.key] = self.totals.get(event.key, 0) + event.value


def partitions(number: int) -> Sequence[PhysicalOperator]:
    """The partitions of the operator, if there are so many."""
    app = Application("repartition")
    events = app.add_operator("events", ListInput(Event, []))
    totals = app.add_operator("totals", Totals(), partitions=number)
    app.add_stream("events", events.output, totals.input)
    plan = plan_application(app)
    return [one for one in plan.physical.operators if one.name == "totals"]
