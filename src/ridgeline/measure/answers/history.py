"""Answers about the last minutes of an operator, second by second."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict


class OperatorSecondAnswer(TypedDict):
    """The windows of about a second at an operator, over all of its partitions."""

    at: Annotated[float, "When the last of them was committed, seconds since 1970."]
    seconds: Annotated[float, "The time that they are over."]
    windows: Annotated[int, "How many they are."]
    latencyMs: Annotated[float | None, "Their median latency; null if it reported in none."]
    greatestMs: Annotated[float | None, "Their greatest latency."]
    computeMs: Annotated[float | None, "The mean of the part of the latency in callbacks."]
    waitMs: Annotated[float | None, "The mean of the part spent waiting."]
    transferMs: Annotated[float | None, "The mean of the part in which tuples or state moved."]
    tuplesIn: Annotated[float, "Tuples in per second; of unifiers none."]
    tuplesOut: Annotated[float, "Tuples out per second; of unifiers none."]
    queue: Annotated[float, "Tuples that waited when its turn came, in sum over partitions, on average."]
    errors: Annotated[int, "Tuples that it emitted at error ports or left out."]
    late: Annotated[int, "Records that came too late."]
    stateBytes: Annotated[int, "Bytes of state that the last of them changed."]
    onPath: Annotated[float, "Of its partitions and unifiers the greatest share of windows on the path."]


class OperatorHistoryAnswer(TypedDict):
    """The last minutes of an operator; the first question begins to keep them."""

    operator: Annotated[str, "Name of the logical operator."]
    seconds: Annotated[list[OperatorSecondAnswer], "The newest last, at most 15 minutes."]
