"""The fold behind "where the time goes, by line": the samples of the last minute, by logical operator."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping

from ridgeline.measure.answers.operators import LineAnswer, LinesAnswer, OperatorLinesAnswer
from ridgeline.measure.events import LineTime
from ridgeline.measure.topology import Topology

KEPT_SECONDS = 60.0
_SLICE_SECONDS = 1.0
_MOST_LINES = 50
_NO_LINE = ("", 0, "", "")

_Line = tuple[str, int, str, str]


class LineTimes:
    """Takes in what heartbeats say of lines, in slices of a second. One thread at a time."""

    def __init__(self) -> None:
        self._slices: deque[tuple[float, dict[str, Counter[_Line]]]] = deque()
        """When each began, and the seconds by operator and line."""

    def add(self, at: float, lines: Iterable[LineTime], topology: Topology) -> None:
        """Take in the lines of a message received `at`. Operators that the plan has not are left out."""
        for one in lines:
            node = topology.by_id.get(one.operator)
            if node is not None and one.seconds > 0:
                line = (one.file, one.line, one.function, one.text) if one.line else _NO_LINE
                self._slice(at).setdefault(node.name, Counter())[line] += one.seconds  # type: ignore[assignment]

    def _slice(self, at: float) -> dict[str, Counter[_Line]]:
        """The newest slice, a new one if that is over; those before the last minute are forgotten."""
        if not self._slices or at - self._slices[-1][0] >= _SLICE_SECONDS:
            self._slices.append((at, {}))
            while self._slices[0][0] < at - KEPT_SECONDS:
                self._slices.popleft()
        return self._slices[-1][1]

    def answer(self, now: float, of_path: Mapping[str, float], operator: str | None = None) -> LinesAnswer:
        """The lines of the last minute. `of_path`: the part of the critical path that is an operator's."""
        sums: dict[str, Counter[_Line]] = {}
        for at, found in self._slices:
            if at >= now - KEPT_SECONDS:
                for name, lines in found.items():
                    if operator in {None, name}:
                        sums.setdefault(name, Counter()).update(lines)
        operators = [_operator(name, lines, of_path.get(name, 0.0)) for name, lines in sums.items()]
        return {"seconds": KEPT_SECONDS, "operators": sorted(operators, key=lambda one: -one["seconds"])}


def _operator(name: str, lines: Counter[_Line], of_path: float) -> OperatorLinesAnswer:
    """The lines of one operator, the one with the most time first."""
    total = float(sum(lines.values()))
    rows: list[LineAnswer] = [
        {
            "file": file,
            "line": line,
            "function": function,
            "text": text,
            "seconds": float(seconds),
            "share": seconds / total,
            "ofPath": of_path * seconds / total,
        }
        for (file, line, function, text), seconds in lines.most_common(_MOST_LINES)
    ]
    return {"operator": name, "seconds": total, "lines": rows}
