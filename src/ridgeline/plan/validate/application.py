"""The application itself: its name, window and attributes, its policies, listeners and promises."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ridgeline.api import application
from ridgeline.api.application import Application
from ridgeline.api.errors import StructureError, shorten
from ridgeline.api.operator import Operator
from ridgeline.api.policy import Promise, StatsListener
from ridgeline.api.support.attribute import MOST_SECONDS, Scope
from ridgeline.api.support.duration import FORMS, parse_duration
from ridgeline.plan.draft import Draft, Faults
from ridgeline.plan.overrides import WINDOW
from ridgeline.plan.validate.attributes import check_attributes


def check_name(faults: Faults, noun: str, name: object) -> None:
    """Add a fault for a name that a `noun` of an application cannot have."""
    try:
        application.check_name(noun, name)
    except StructureError as error:
        faults.add(name if isinstance(name, str) and name.strip() else noun, error.what, error.remedy)


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
        faults.add(draft.application or "application", "the application has no operators", remedy)


def check_deciders(faults: Faults, app: Application) -> None:
    """Refuse policies and promises that are none, and promises that are given twice."""
    for position, policy in enumerate(app.policies, 1):
        if isinstance(policy, type) or not callable(getattr(policy, "decide", None)):
            what = f"policy {position} is {_shown(policy)}, which has no method `decide`"
            faults.add(app.name, what, "give an instance of a subclass of `ridgeline.policies.Policy`")
    names: set[str] = set()
    for promise in app.promises:
        if not isinstance(promise, Promise):
            what = f"a promise is {_shown(promise)}"
            remedy = 'make it with a function of `ridgeline.sla`, such as `latency("sink", p99="2s")`'
            faults.add(app.name, what, remedy)
        elif promise.name in names:
            what = f"the promise `{promise.name}` is given twice"
            faults.add(app.name, what, "leave one of them out")
        else:
            names.add(promise.name)


def read_listeners(draft: Draft, faults: Faults, written: Collection[str]) -> None:
    """Take the listeners of operators, and check which operators promises are of; once all are known.

    `written`: the operators before changes of the run. One that is removed may still have a promise.
    """
    found: dict[str, tuple[StatsListener | Operator, ...]] = {}
    for node in draft.graph.nodes.values():
        for listener in node.listeners:
            if isinstance(listener, type) or not callable(getattr(listener, "observe", None)):
                what = f"a listener of its figures is {_shown(listener)}, which has no method `observe`"
                remedy = "give an instance of a subclass of `ridgeline.policies.StatsListener`"
                faults.add(node.name, what, remedy)
        own = (node.operator,) if callable(getattr(node.operator, "observe", None)) else ()
        if listeners := (*node.listeners, *own):
            found[node.name] = listeners
    known = {*draft.owners, *written}
    promises: tuple[Any, ...] = draft.graph.promises
    for promise in promises:
        if isinstance(promise, Promise) and promise.operator and promise.operator not in known:
            what = f"the promise `{promise.name}` is of an operator that there is not"
            faults.add(promise.operator, what, f"give one of {', '.join(sorted(known))}")
    draft.listeners = found


def _shown(thing: object) -> str:
    return f"the class `{thing.__name__}`" if isinstance(thing, type) else shorten(thing)
