"""Answers about the last hours, of the application and of an operator, step by step."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from ridgeline.measure.answers.regions import InRegionAnswer


class OperatorStepAnswer(TypedDict):
    """The windows of a step at an operator, over all of its partitions. Null: it reported in none."""

    at: Annotated[float, "When the last of them was committed, seconds since 1970."]
    seconds: Annotated[float, "The time that they are over."]
    windows: Annotated[int, "How many windows the application committed."]
    latencyMs: Annotated[float | None, "Their median latency, of up to 64 of them."]
    greatestMs: Annotated[float | None, "Their greatest latency."]
    computeMs: Annotated[float | None, "The mean of the part of the latency in callbacks."]
    waitMs: Annotated[float | None, "The mean of the part spent waiting."]
    transferMs: Annotated[float | None, "The mean of the part in which tuples or state moved."]
    tuplesIn: Annotated[float | None, "Tuples in per second; of unifiers none."]
    tuplesOut: Annotated[float | None, "Tuples out per second; of unifiers none."]
    queue: Annotated[float | None, "Tuples that waited when its turn came, over all partitions, on average."]
    greatestQueue: Annotated[float | None, "The same, the most."]
    errors: Annotated[int | None, "Tuples that it emitted at error ports or left out."]
    late: Annotated[int | None, "Records that came too late."]
    stateBytes: Annotated[float | None, "Bytes of state that a window changed, on average."]
    onPath: Annotated[float | None, "The share of windows with it on the critical path."]
    ageMs: Annotated[float | None, "The mean age of its records, at the last place at which it has any."]
    greatestAgeMs: Annotated[float | None, "Their greatest age there."]


class OperatorHistoryAnswer(TypedDict):
    """The last hours of an operator. All but tuples, errors and ages are of windows of any partition."""

    operator: Annotated[str, "Name of the logical operator."]
    step: Annotated[int, "Seconds of a step."]
    keptSeconds: Annotated[int, "How far back steps of this length are kept."]
    steps: Annotated[list[OperatorStepAnswer], "The newest last; it still grows."]


class OutputAgesAnswer(TypedDict):
    """The ages of the records of an output in a step."""

    operator: Annotated[str, "Name of the logical operator."]
    ageMs: Annotated[float, "Their mean."]
    greatestAgeMs: Annotated[float, "The greatest."]


class ApplicationStepAnswer(InRegionAnswer, TypedDict):
    """The windows of a step."""

    at: Annotated[float, "When the last of them was committed, seconds since 1970."]
    seconds: Annotated[float, "The time that they are over."]
    windows: Annotated[int, "How many they are."]
    latencyMs: Annotated[float, "The median of their latencies, from trigger to commit."]
    p99Ms: Annotated[float, "The latency that 99 of 100 of them stay within."]
    greatestMs: Annotated[float, "The greatest."]
    lateMs: Annotated[float, "How long after their schedule they began, on average."]
    tuplesIn: Annotated[float, "Tuples per second that entered the application."]
    tuplesOut: Annotated[float, "Tuples per second that reached its last operators."]
    ages: Annotated[list[OutputAgesAnswer], "Of the outputs that had records with an age."]


class ApplicationHistoryAnswer(TypedDict):
    """The last hours of the application."""

    step: Annotated[int, "Seconds of a step."]
    keptSeconds: Annotated[int, "How far back steps of this length are kept."]
    steps: Annotated[list[ApplicationStepAnswer], "The newest last; it still grows."]
