"""Answers about changes of a running application."""

from __future__ import annotations

from typing import Annotated, Any

from typing_extensions import TypedDict

from ridgeline.measure.answers.regions import InRegionAnswer


class RequestedChange(InRegionAnswer, TypedDict):
    """A change that was requested while the application runs, in all answers about it."""

    id: Annotated[int, "Its number, in this run."]
    what: Annotated[str, "What was asked for, in a line."]
    edits: Annotated[
        list[dict[str, Any]], "The edits of the plan, secrets masked; empty if the plan stays as it is."
    ]
    state: Annotated[str, "`QUEUED`, then `APPLIED`, `REFUSED` or `WITHDRAWN`."]
    window: Annotated[int | None, "The first window with it, or the one that it waits for; null if unknown."]
    who: Annotated[str, "Who asked for it, as they said."]
    note: Annotated[str, "Why, in their words."]
    reason: Annotated[str, "Why it was refused or withdrawn, or what it waits for."]
    at: Annotated[float, "When it was asked for (seconds since 1970)."]


class ChangeFiguresAnswer(RequestedChange):
    """A change that was requested, and what has become of it."""

    planVersion: Annotated[int | None, "Version of the plan with it; null if it has changed no plan."]
    heldSeconds: Annotated[
        float, "From the last window before it to the first one with it, as they were published."
    ]
    since: Annotated[float, "When it came into its state (seconds since 1970)."]
