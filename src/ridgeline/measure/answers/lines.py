"""Answers about where the Python time of operators goes: by line, and by stack."""

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


class StackFunctionAnswer(TypedDict):
    """A function in the stacks of an operator, at one place of its tree. All figures are estimates."""

    caller: Annotated[int, "The place in this list of the function that calls it; -1: the operator's turn."]
    function: Annotated[str, "Its qualified name."]
    file: Annotated[str, "The file that it is in; empty where it is not known."]
    line: Annotated[int, "The line at which it begins."]
    kind: Annotated[
        str, "Whose it is: `user`, `operators` (Ridgeline's library), `package`, `python` or `engine`."
    ]
    seconds: Annotated[float, "Time spent there, with what it calls, over all partitions."]
    ownSeconds: Annotated[float, "Time spent there, without the calls that are in this list."]
    share: Annotated[float, "The part of `seconds` of the operator's time."]


class OperatorStacksAnswer(InRegionAnswer, TypedDict):
    """The stacks of a logical operator, as a tree of functions."""

    operator: Annotated[str, "Name of the logical operator."]
    seconds: Annotated[float, "Time of its samples, over all partitions; the engine's for it included."]
    ofPath: Annotated[float, "The operator's part of the critical path of the averages; 0 beside the path."]
    functions: Annotated[
        list[StackFunctionAnswer], "Callers before what they call; of one caller the longest first."
    ]


class StacksAnswer(TypedDict):
    """Where the Python time of operators goes, by stack: a flame graph."""

    seconds: Annotated[float, "Of how many last seconds the figures are, at most."]
    operators: Annotated[list[OperatorStacksAnswer], "Those with the most time first."]
