"""The application itself: its name, window and attributes, its policies, listeners and promises."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from ridgeline.api.application import Application
from ridgeline.api.errors import shorten
from ridgeline.api.operator import Operator
from ridgeline.api.policy import Promise, StatsListener
from ridgeline.api.support.attribute import MOST_SECONDS, Scope
from ridgeline.api.support.duration import FORMS, parse_duration
from ridgeline.plan.draft import Draft, Faults
from ridgeline.plan.overrides import WINDOW, Overrides
from ridgeline.plan.validate.attributes import check_attributes

_LONGEST = 150
_NAME = re.compile(r"[A-Za-z0-9_-]+")


def check_name(faults: Faults, noun: str, name: object, position: int | None = None, module: str = "") -> str:
    """Return the name as errors show it; add a fault if it is invalid.

    `position` counts the things of this kind from 1. `module`: what the name is in; it is put before it.
    """
    shown = name if isinstance(name, str) and name.strip() else shorten(name)
    where = f"{noun} {position}" if position is not None and shown != name else str(shown)
    where = f"{module}.{where}" if module else where
    if name == "" or (isinstance(name, str) and not name.strip()):
        faults.add(noun if position is None else where, f"the name of the {noun} is empty", "give it a name")
    elif not isinstance(name, str):
        faults.add(
            where,
            f"the name of the {noun} is {shown}, which is no text",
            "give a text of letters, digits, `_` and `-`",
        )
    elif not _NAME.fullmatch(name):
        wrong = sorted({character for character in name if not _NAME.fullmatch(character)})
        what = f"the name of the {noun} has {', '.join(map(repr, wrong))} in it"
        faults.add(
            where, what, "use letters, digits, `_` and `-` only: names go into files, metrics and addresses"
        )
    elif len(name) > _LONGEST:
        what = f"the name of the {noun} has {len(name)} characters"
        faults.add(where, what, f"use at most {_LONGEST}: names go into those of files")
    return where


def read_application(draft: Draft, faults: Faults, app: Application, overrides: Overrides) -> None:
    """Check window and attributes of the application, and put them into the draft."""
    given: dict[str, Any] = {**app.attributes, **overrides.of("attribute")}
    window = given.pop(WINDOW, app.window)
    try:
        draft.window_seconds = parse_duration(window)
    except ValueError as error:
        what, _, _ = str(error).partition("; ")
        faults.add(
            WINDOW,
            f"the window of the application: {what}",
            f"give {FORMS}; 0 runs windows as fast as they get",
        )
    if draft.window_seconds > MOST_SECONDS:
        faults.add(
            WINDOW, f"the window of the application: {shorten(window)} is more than a year", "give less"
        )
    draft.attributes, doubtful = check_attributes(faults, "", Scope.APPLICATION, given, {})
    interval, timeout = draft.attributes["heartbeat_interval"], draft.attributes["heartbeat_timeout"]
    if timeout <= interval and not doubtful.intersection(("heartbeat_interval", "heartbeat_timeout")):
        what = (
            f"attribute `heartbeat_timeout` is {timeout:g} s, "
            f"but heartbeats come only every {interval:g} s (`heartbeat_interval`)"
        )
        faults.add(
            "heartbeat_timeout", what, "give more: every container would count as silent between two of them"
        )
    if not app.operators:
        where = draft.application or "application"
        faults.add(
            where, "the application has no operators", "add one with `app.add_operator(name, operator)`"
        )


def read_deciders(draft: Draft, faults: Faults, app: Application) -> None:
    """Take policies and promises of the application; faults for what is neither."""
    for position, policy in enumerate(app.policies, 1):
        if isinstance(policy, type) or not callable(getattr(policy, "decide", None)):
            what = f"policy {position} is {_shown(policy)}, which has no method `decide`"
            faults.add(
                draft.application, what, "give an instance of a subclass of `ridgeline.policies.Policy`"
            )
    promises: dict[str, Promise] = {}
    for promise in app.promises:
        if not isinstance(promise, Promise):
            what = f"a promise is {_shown(promise)}"
            remedy = 'make it with a function of `ridgeline.sla`, such as `latency("sink", p99="2s")`'
            faults.add(draft.application, what, remedy)
        elif promise.name in promises:
            what = f"the promise `{promise.name}` is given twice"
            faults.add(draft.application, what, "leave one of them out")
        else:
            promises[promise.name] = promise
    draft.policies, draft.promises = tuple(app.policies), tuple(promises.values())


def read_listeners(draft: Draft, faults: Faults, app: Application, written: Collection[str]) -> None:
    """Take the listeners of operators, and check which operators promises are of; once all are known.

    `written`: the operators before changes of the run. One that is removed may still have a promise.
    """
    found: dict[str, tuple[StatsListener | Operator, ...]] = {}
    for added in app.operators:
        for listener in added.listeners:
            if isinstance(listener, type) or not callable(getattr(listener, "observe", None)):
                what = f"a listener of its figures is {_shown(listener)}, which has no method `observe`"
                remedy = "give an instance of a subclass of `ridgeline.policies.StatsListener`"
                faults.add(str(added.name), what, remedy)
        own = (added.operator,) if callable(getattr(added.operator, "observe", None)) else ()
        if listeners := (*added.listeners, *own):
            found[str(added.name)] = listeners
    known = {operator.name for operator in draft.operators} | set(written)
    for promise in draft.promises:
        if promise.operator and promise.operator not in known:
            what = f"the promise `{promise.name}` is of an operator that there is not"
            faults.add(promise.operator, what, f"give one of {', '.join(sorted(known))}")
    draft.listeners = found


def _shown(thing: object) -> str:
    return f"the class `{thing.__name__}`" if isinstance(thing, type) else shorten(thing)
