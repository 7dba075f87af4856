"""Imports of tables into the states of an application."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ridgeline import Application, SystemClock
from ridgeline.engine.driver.checkpoint.planning import Planner
from ridgeline.engine.driver.checkpoint.upkeep.importing import Imported, import_states
from ridgeline.plan.planner import plan_application
from ridgeline.testing import CollectorSink
from support.rewound import Count, Numbers, Totals


def imported(made: Application, state: Path, source: Path, **more: Any) -> Imported:
    """Replace states of a checkpoint by what is in a folder."""

    def plan(kept: Any = (), kept_edits: Any = (), edits: Any = ()) -> Any:
        return plan_application(made, edits=edits, kept=kept_edits)

    return import_states(str(state), source, plan(), Planner(plan, {}), SystemClock(), **more)


def partitioned(partitions: int) -> Application:
    """The application of `support.rewound` with so many partitions of its totals."""
    app = Application("rewound")
    numbers = app.add_operator("numbers", Numbers())
    totals = app.add_operator("totals", Totals(), partitions=partitions)
    app.add_stream("numbers", numbers.numbers, totals.numbers)
    app.add_stream("totals", totals.totals, app.add_operator("sink", CollectorSink(Count)).input)
    return app
