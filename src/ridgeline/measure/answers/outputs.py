"""Answers about what readers of output operators may see."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from ridgeline.measure.answers.regions import InRegionAnswer


class OutputAnswer(InRegionAnswer, TypedDict):
    """The results of an output operator that readers may see."""

    operator: Annotated[str, "Name of the output operator."]
    visibleWindow: Annotated[int | None, "Readers see results up to this window; null before the first."]
    visibleAt: Annotated[float | None, "Since when."]
    timesPublished: Annotated[int, "How often results became visible in this run."]
    problem: Annotated[str, "Why committed results do not get through; empty if they do."]
