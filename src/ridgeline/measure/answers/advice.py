"""Answers with advice: what would lower latency or raise throughput."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict


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
    needed: Annotated[int, "How many windows are enough."]
    unknown: Annotated[list[str], "What cannot be said, and why."]
    latencySeconds: Annotated[float | None, "Median from trigger to commit."]
    blame: Annotated[dict[str, float], "Seconds of the mean window by what they were spent on."]
    advice: Annotated[list[AdviceItemAnswer], "What helps most comes first."]
