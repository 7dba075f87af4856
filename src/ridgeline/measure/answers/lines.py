"""Answers about where the Python time of operators goes, by line."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from ridgeline.measure.answers.regions import InRegionAnswer


class LineAnswer(TypedDict):
    """A line at which an operator spent time. All figures are estimates: they come of samples."""

    file: Annotated[str, "The file that it is in; empty for all that is not said by line."]
    line: Annotated[int, "Its number; 0 for all that is not said by line."]
    function: Annotated[str, "The qualified name of the function that it is in."]
    text: Annotated[str, "The line itself; empty where its file is not at hand."]
    seconds: Annotated[float, "Time spent there, with what it calls, over all partitions."]
    share: Annotated[float, "Its part of the operator's time."]
    ofPath: Annotated[float, "Its part of the critical path of the averages; 0 beside the path."]


class OperatorLinesAnswer(InRegionAnswer, TypedDict):
    """Where the time of a logical operator goes."""

    operator: Annotated[str, "Name of the logical operator."]
    seconds: Annotated[float, "Time of its samples, over all partitions; the engine's for it included."]
    lines: Annotated[list[LineAnswer], "Its lines, the one with the most time first."]


class LinesAnswer(TypedDict):
    """Where the Python time of operators goes, by line."""

    seconds: Annotated[float, "Of how many last seconds the figures are, at most."]
    operators: Annotated[list[OperatorLinesAnswer], "Those with the most time first."]
