"""Run an application on the shared Spark session and look at what came out."""

import contextlib

from ridgeline.engine.driver.checkpoint.planning import Planner
from ridgeline.engine.driver.run.launch import Options, launch
from ridgeline.measure.events import WindowCommitted, WindowRetried
from ridgeline.measure.slot_events import SlotEvent
from ridgeline.plan.planner import plan_application
from support.measure.reports import operator_windows


class SparkRun:
    """What a run reported: its events, and what collecting sinks got, window by window."""

    def __init__(self, plan):
        self.plan = plan
        self.events = []
        self.asked = []  # by those that change the plan
        self.outcome = None
        self.run = None

    def started(self, run):
        self.run = run

    def of_type(self, kind):
        """The events of a type."""
        return [event for event in self.events if isinstance(event, kind)]

    def of_slots(self, *kinds):
        """The events of slots of these kinds."""
        return [event for event in self.of_type(SlotEvent) if event.kind in kinds]

    @property
    def most_in_flight(self):
        """How many windows may be under way."""
        return self.plan.logical.attributes["windows_in_flight"]

    @property
    def retries(self):
        """The attempts that failed."""
        return [event for event in self.of_type(WindowRetried) if not event.final]

    @property
    def ids(self):
        """The ids of the windows committed in this run."""
        return [event.window_id for event in self.of_type(WindowCommitted)]

    def collected(self, operator, window=None):
        """As `LocalRun.collected`."""
        return self.run.publishers[operator].tuples(window)

    def reports(self, operator, window):
        """What a logical operator's partitions did in a window."""
        ids = {
            physical.id
            for physical in self.plan.physical.operators
            if physical.name == operator and not physical.unifier
        }
        return [
            event
            for event in operator_windows(self.events)
            if event.window_id == window and event.operator in ids
        ]


def run_on_spark(
    app,
    context,
    checkpoint,
    *,
    windows=None,
    each=None,
    seen=None,
    stop=None,
    properties=None,
    attributes=None,
    expect=None,
    heartbeats=None,
    planner=None,
):
    """Run an application; `each(run, committed)` follows each commit; `expect`: the error that must end it.

    `seen(run, event)` follows each event. `heartbeats`: what takes those of workers. `planner`: makes
    the plan.

    Windows hold the same however slow the machine is, unless the application bounds their work.

    Returns the run; with `expect`, the run and the error.
    """
    app.attributes.setdefault("window_work", "1h")
    if planner is None:
        plan = plan_application(app, properties or {}, attributes or {})
    else:
        plan = planner.first(str(checkpoint), app.name)
    run = SparkRun(plan)

    def observe(event):
        run.events.append(event)
        if seen:
            seen(run, event)
        if each and isinstance(event, WindowCommitted):
            each(run, event)

    options = Options(master="local[2]", checkpoint=str(checkpoint), windows=windows)
    with raises(expect) as caught:
        run.outcome = launch(
            plan,
            options,
            context=context,
            observe=observe,
            stop=stop,
            started=run.started,
            heartbeats=heartbeats,
            planner=planner,
        )
    return (run, caught.value) if expect else run


def planner_of(app, attributes=None, properties=None, **options):
    """What plans an application whose plan may change while it runs. `options`: more of a planner."""
    given = properties or {}

    def make(values, kept, edits):
        return plan_application(app, {**values, **given}, attributes or {}, kept=kept, edits=edits)

    return Planner(make, given, **options)


@contextlib.contextmanager
def raises(expect):
    import pytest

    if expect is None:
        yield
    else:
        with pytest.raises(expect) as caught:
            yield caught
