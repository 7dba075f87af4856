"""Answers about changes of a running application."""

from __future__ import annotations

from typing import Annotated, Any

from typing_extensions import TypedDict

from ridgeline.measure.answers.regions import InRegionAnswer


class RequestedChange(InRegionAnswer, TypedDict):
    """A change that was requested while the application runs, in all answers about it."""

    id: Annotated[int, "Its number, in this run."]
    what: Annotated[str, "What was asked for, in a line."]
    edits: Annotated[list[dict[str, Any]], "The edits of the plan, secrets masked; empty if there are none."]
    state: Annotated[str, "`QUEUED`, then `APPLIED`, `REFUSED` or `WITHDRAWN`."]
    window: Annotated[int | None, "The first window with it, or the one that it waits for; null if unknown."]
    who: Annotated[str, "Who asked for it, as they said."]
    note: Annotated[str, "Why, in their words."]
    reason: Annotated[str, "Why it was refused or withdrawn, or what it waits for."]
    at: Annotated[float, "When it was asked for (seconds since 1970)."]


class ChangeFiguresAnswer(RequestedChange):
    """A change that was requested, and what has become of it."""

    planVersion: Annotated[int | None, "Version of the plan with it; null if it has changed no plan."]
    heldSeconds: Annotated[float, "From the last window before it to the first one with it, as published."]
    since: Annotated[float, "When it came into its state (seconds since 1970)."]


class AdviceItemAnswer(TypedDict):
    """One piece of advice."""

    what: Annotated[str, "What to do."]
    why: Annotated[str, "What speaks for it."]
    operator: Annotated[str, "Name of the operator; empty: of the application."]
    figure: Annotated[str, "The figure that it changes, such as `latency_p50_seconds`."]
    before: Annotated[float | None, "The figure now."]
    after: Annotated[float | None, "The figure as it is predicted; null if it cannot be."]
    command: Annotated[str, "The command that does it; empty if no command does."]


class AdviceAnswer(TypedDict):
    """Advice by the figures of the last minute, or of a longer time if windows take long."""

    seconds: Annotated[float, "How much of the run the figures are of."]
    windows: Annotated[int, "How many windows they are of."]
    enough: Annotated[bool, "False if these are too few to say anything."]
    needed: Annotated[int, "How many windows are enough; fewer are if an operator is full for 10 s."]
    unknown: Annotated[list[str], "What cannot be said, and why."]
    latencySeconds: Annotated[float | None, "Median from trigger to commit."]
    blame: Annotated[dict[str, float], "Seconds of the mean window by what they were spent on."]
    followed: Annotated[list[str], "What came of the advice that was given last, if it was followed."]
    advice: Annotated[list[AdviceItemAnswer], "What helps most comes first."]


class DecisionAnswer(InRegionAnswer, TypedDict):
    """A decision, and what has become of it."""

    id: Annotated[int, "Its number, in this run."]
    by: Annotated[str, "Who decided: `policy NAME`, or `listener NAME of OPERATOR`."]
    state: Annotated[str, "`ASKED`, then `APPLIED` or `REFUSED`, then `HELPED` or `MISSED`; or `FAILED`."]
    note: Annotated[str, "Why."]
    what: Annotated[str, "The change that was asked for."]
    expected: Annotated[str, "What it was to bring."]
    found: Annotated[str, "What came of it, why it was refused, or the traceback."]
    change: Annotated[int | None, "Number of the change."]
    undoes: Annotated[int | None, "The decision that this one takes back."]
    at: Annotated[float, "When it was made, seconds since 1970."]
    since: Annotated[float, "When it came into its state, seconds since 1970."]


class DecisionsAnswer(TypedDict):
    """The last decisions."""

    decisions: Annotated[list[DecisionAnswer], "The last 1,000, by their numbers."]


class MarkAnswer(InRegionAnswer, TypedDict):
    """One thing that happened."""

    at: Annotated[float, "When, seconds since 1970."]
    kind: Annotated[
        str,
        "`failure`, `slot`, `store`, `source`, `output`, `promise`, `change`, `decision`, or `end` (of it).",
    ]
    level: Annotated[str, "`bad`, `good`, or `note` for neither."]
    text: Annotated[str, "It in a line."]
    windowId: Annotated[int | None, "The window that it happened in, or with which it begins; null if none."]
    operator: Annotated[str, "The operator that it is about; empty: none, or not known."]
    number: Annotated[int | None, "Of changes and decisions their number; else null."]


class MarksAnswer(TypedDict):
    """The things that happened to the application."""

    marks: Annotated[list[MarkAnswer], "The last 1,000, the newest last."]


class PromiseAnswer(TypedDict):
    """A promise, and whether it is kept."""

    promise: Annotated[str, "Its name, such as `latency_p99:store`."]
    kind: Annotated[str, "What it is about, such as `latency`: the function of `ridgeline.sla` that made it."]
    operator: Annotated[str, "The operator that it is of; empty: the application."]
    kept: Annotated[bool | None, "True while the promise is kept; null if nothing can be said of it."]
    since: Annotated[float, "Since when, seconds since 1970."]
    figure: Annotated[float | None, "What was measured when it changed, in `unit`."]
    limit: Annotated[float, "What is promised, in `unit`."]
    unit: Annotated[str, "`s`, `tuples/s` or `share`."]
    brokenSeconds: Annotated[float, "How long the promise was broken in this run, in sum."]
    timesBroken: Annotated[int, "How often it was broken in this run."]
    reason: Annotated[str, "While it is broken: which policies and listeners have failed; else empty."]


class PromisesAnswer(TypedDict):
    """The promises of an application."""

    promises: Annotated[list[PromiseAnswer], "As the application makes them."]
