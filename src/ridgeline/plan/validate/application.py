"""The application itself: its name, window and attributes."""

from __future__ import annotations

import re

from ridgeline.api.application import Application
from ridgeline.api.errors import shorten
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
    """Check name, window and attributes of the application, and put them into the draft."""
    check_name(faults, "application", app.name)
    given = {**app.attributes, **overrides.application}
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
