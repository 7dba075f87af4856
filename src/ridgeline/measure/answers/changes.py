"""Answers about changes of a running application."""

from __future__ import annotations

from typing import Annotated, Any

from typing_extensions import TypedDict


class ChangeFiguresAnswer(TypedDict):
    """A change that somebody asked for, and what has become of it."""

    id: Annotated[int, "Its number, in this run."]
    who: Annotated[str, "Who asked for it."]
    note: Annotated[str, "Why, in their words."]
    what: Annotated[str, "What was asked for."]
    edits: Annotated[list[dict[str, Any]], "The edits of the plan; empty if the plan stays as it is."]
    state: Annotated[str, "`QUEUED`, then `APPLIED`, `REFUSED` or `WITHDRAWN`."]
    window: Annotated[int | None, "The first window with it; null if there is none yet."]
    reason: Annotated[str, "Why it was refused or withdrawn, or what it waits for."]
    planVersion: Annotated[int | None, "Version of the plan with it; null if it has changed no plan."]
    heldSeconds: Annotated[
        float, "From the last window before it to the first one with it, as they were published."
    ]
    at: Annotated[float, "When it was asked for, seconds since 1970."]
    since: Annotated[float, "When it came into its state, seconds since 1970."]
