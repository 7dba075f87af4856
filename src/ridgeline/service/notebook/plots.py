"""Plots of an application's figures, for notebooks: SVG, without a library."""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline.measure.answers.windows import LatencyAnswer
from ridgeline.measure.drawing.charts import Picture, line_chart, named_bars, stacked_bars
from ridgeline.measure.wording.times import STEPS
from ridgeline.observe.answers import Answers

_SHOWN = 7
_PLACES = ("source", "state", "emit", "commit", "publish")


class Plots:
    """The plots of a handle: each method returns a picture that a notebook shows.

    Example:
        >>> from ridgeline.observe.watch import Watch
        >>> Plots(Watch(lambda: 0.0)).windows().svg.startswith("<svg")
        True
    """

    def __init__(self, watch: Answers) -> None:
        self._watch = watch

    def latency(self, windows: int = 100) -> Picture:
        """The latency of the slowest operators over the last windows, and that of the windows."""
        rows = self._watch.windows(windows)
        answers = {answer["windowId"]: answer for answer in self._watch.latencies(windows)}
        numbers = [row["windowId"] for row in rows]
        found: dict[str, list[float | None]] = {"window": [row["latencyMs"] for row in rows]}
        for name in _slowest(list(answers.values())):
            found[name] = [_latency(answers.get(number), name) for number in numbers]
        return Picture(line_chart("latency", numbers, found))

    def windows(self, windows: int = 100) -> Picture:
        """The phases of the last windows, a bar each."""
        rows = self._watch.windows(windows)
        sums: dict[str, float] = {}
        for row in rows:
            for what, ms in row["phases"].items():
                sums[what] = sums.get(what, 0.0) + ms
        largest = sorted(sums, key=lambda what: -sums[what])[:_SHOWN]
        found = {STEPS.get(what, what): [row["phases"].get(what, 0.0) for row in rows] for what in largest}
        rest = [sum(ms for what, ms in row["phases"].items() if what not in largest) for row in rows]
        if any(rest):
            found["the rest"] = rest
        return Picture(stacked_bars("time of windows", [row["windowId"] for row in rows], found))

    def ages(self) -> Picture:
        """The 99th percentile of the age of records in the last minute, by operator and place."""
        rows = [row for row in self._watch.record_age()["operators"] if row["p99Ms"] is not None]
        rows.sort(key=lambda row: _PLACES.index(row["at"]) if row["at"] in _PLACES else len(_PLACES))
        found = {f"{row['operator']}, {row['at']}": row["p99Ms"] or 0.0 for row in rows}
        return Picture(named_bars("record age, 99th percentile of the last minute", found))


def _slowest(answers: Sequence[LatencyAnswer]) -> list[str]:
    """The logical operators with the greatest latencies, in sum."""
    sums: dict[str, float] = {}
    for answer in answers:
        for row in answer["logical"]:
            sums[row["operator"]] = sums.get(row["operator"], 0.0) + (row["latencyMs"] or 0.0)
    return sorted(sums, key=lambda name: -sums[name])[:_SHOWN]


def _latency(answer: LatencyAnswer | None, name: str) -> float | None:
    rows = [] if answer is None else answer["logical"]
    return next((row["latencyMs"] for row in rows if row["operator"] == name), None)
