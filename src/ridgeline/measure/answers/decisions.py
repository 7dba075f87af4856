"""Answers about decisions of policies and listeners."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from ridgeline.measure.answers.regions import InRegionAnswer


class DecisionAnswer(InRegionAnswer, TypedDict):
    """A decision, and what has become of it."""

    id: Annotated[int, "Its number, in this run."]
    by: Annotated[str, "Who decided: `policy NAME`, or `listener NAME of OPERATOR`."]
    state: Annotated[str, "`ASKED`, then `APPLIED` or `REFUSED`, then `HELPED` or `MISSED`."]
    note: Annotated[str, "Why."]
    what: Annotated[str, "The change that was asked for."]
    expected: Annotated[str, "What it was to bring."]
    found: Annotated[str, "What came of it, or why it was refused."]
    change: Annotated[int | None, "Number of the change."]
    undoes: Annotated[int | None, "The decision that this one takes back."]
    at: Annotated[float, "When it was made, seconds since 1970."]
    since: Annotated[float, "When it came into its state, seconds since 1970."]


class DecisionsAnswer(TypedDict):
    """The last decisions."""

    decisions: Annotated[list[DecisionAnswer], "The last 1,000, by their numbers."]
