"""Answers about one source: its partitions, and where it reads on."""

from __future__ import annotations

from typing import Annotated, Any

from typing_extensions import TypedDict

from ridgeline.measure.answers.progress import InfiniteAnswer
from ridgeline.measure.answers.regions import InRegionAnswer


class SourcePartitionAnswer(InfiniteAnswer, InRegionAnswer, TypedDict):
    """How far a partition of an input operator is; `infinite` is about `remaining`."""

    id: Annotated[int, "Id of the physical operator."]
    operator: Annotated[str, "Its title."]
    consumed: Annotated[float | None, "Units consumed since the start; null if unknown."]
    remaining: Annotated[float | None, "Units that wait; null if unknown or without an end."]
    remainingBytes: Annotated[float | None, "Bytes that wait; null if unknown."]
    windowId: Annotated[int, "The last committed window of which it has said so."]


class SourceDetailAnswer(TypedDict):
    """One source, with its partitions."""

    operator: Annotated[str, "Name of the input operator."]
    unit: Annotated[str | None, "The unit that it counts in: `records`, `bytes` or its own."]
    partitions: Annotated[
        list[SourcePartitionAnswer], "Those that have reported; one row if it reports as a whole."
    ]
    position: Annotated[Any, "Its position after the last commit, as its class writes it; null if unknown."]
