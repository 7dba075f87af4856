"""The application itself: its name, window and attributes, its policies, listeners and promises."""

from __future__ import annotations

from collections.abc import Collection

from ridgeline.api import application
from ridgeline.api.errors import Faults, shorten
from ridgeline.api.operator import Operator
from ridgeline.api.policy import StatsListener
from ridgeline.api.support.attribute import MOST_SECONDS, Scope
from ridgeline.api.support.duration import FORMS, parse_duration
from ridgeline.plan.draft import Draft
from ridgeline.plan.overrides import WINDOW
from ridgeline.plan.validate.attributes import check_attributes


def check_name(faults: Faults, noun: str, name: object) -> None:
    """Add a fault for a name that a `noun` of an application cannot have."""
    with faults.noting(name if isinstance(name, str) and name.strip() else noun):
        application.check_name(noun, name)


def read_application(draft: Draft, faults: Faults) -> None:
    """Check window and attributes of the application, and put them into the draft."""
    given = dict(draft.graph.attributes)
    window = given.pop(WINDOW, draft.graph.window)
    try:
        draft.window_seconds = parse_duration(window)
    except ValueError as error:
        what = f"the window of the application: {str(error).partition('; ')[0]}"
        faults.add(WINDOW, what, f"give {FORMS}; 0 runs windows as fast as they get")
    if draft.window_seconds > MOST_SECONDS:
        what = f"the window of the application: {shorten(window)} is more than a year"
        faults.add(WINDOW, what, "give less")
    draft.attributes, doubtful = check_attributes(faults, "", Scope.APPLICATION, given, {})
    interval, timeout = draft.attributes["heartbeat_interval"], draft.attributes["heartbeat_timeout"]
    if timeout <= interval and not doubtful.intersection(("heartbeat_interval", "heartbeat_timeout")):
        what = f"attribute `heartbeat_timeout` is {timeout:g} s, but heartbeats come only every"
        remedy = "give more: every container would count as silent between two of them"
        faults.add("heartbeat_timeout", f"{what} {interval:g} s (`heartbeat_interval`)", remedy)
    if not draft.graph.nodes:
        remedy = "add one with `app.add_operator(name, operator)`"
        faults.add(draft.graph.name or "application", "the application has no operators", remedy)


def read_listeners(draft: Draft, faults: Faults, written: Collection[str]) -> None:
    """Take the listeners of operators, and check which operators promises are of; once all are known.

    `written`: the operators before changes of the run. One that is removed may still have a promise.
    """
    found: dict[str, tuple[StatsListener | Operator, ...]] = {}
    for node in draft.graph.nodes.values():
        own = (node.operator,) if callable(getattr(node.operator, "observe", None)) else ()
        if listeners := (*node.listeners, *own):
            found[node.name] = listeners
    known = {*draft.owners, *written}
    for promise in draft.graph.promises:
        if promise.operator and promise.operator not in known:
            what = f"the promise `{promise.name}` is of an operator that there is not"
            faults.add(promise.operator, what, f"give one of {', '.join(sorted(known))}")
    draft.listeners = found
