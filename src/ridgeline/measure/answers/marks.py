"""Answers about things that happened to an application, for marks on its charts."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from ridgeline.measure.answers.regions import InRegionAnswer


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
