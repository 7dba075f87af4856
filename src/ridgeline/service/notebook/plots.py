"""Plots of an application's figures, for notebooks: SVG, without a library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ridgeline.measure.answers.windows import WindowSummaryAnswer
from ridgeline.measure.drawing.charts import COLOURS, Picture, line_chart, named_bars, stacked_bars
from ridgeline.measure.wording.times import STEPS, place_order
from ridgeline.observe.answers import Answers

_SHOWN = 7


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
        """The latency of the slowest operators over the last windows, and that of the windows.

        Of several regions the windows are in the order of their commits. A line keeps its height until the
        next window of its region.
        """
        rows = self._watch.windows(windows)
        lines: dict[str, _Line] = {}
        for row in rows:
            region = row.get("region", "")
            title = f"window of {region}" if region else "window"
            lines.setdefault(title, _Line(region)).values[row["windowId"]] = row["latencyMs"]
        operators: dict[str, _Line] = {}
        for answer in self._watch.latencies(windows):
            for one in answer["logical"]:
                line = operators.setdefault(one["operator"], _Line(one.get("region", "")))
                line.values[answer["windowId"]] = one["latencyMs"]
        slowest = sorted(operators, key=lambda name: -operators[name].sum)
        lines |= {name: operators[name] for name in slowest[: max(1, len(COLOURS) - len(lines))]}
        chart = {name: line.over(rows) for name, line in lines.items()}
        return Picture(line_chart("latency", [row["windowId"] for row in rows], chart))

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
        rows.sort(key=lambda row: place_order(row["at"]))
        found = {f"{row['operator']}, {row['at']}": row["p99Ms"] or 0.0 for row in rows}
        return Picture(named_bars("record age, 99th percentile of the last minute", found))


@dataclass(frozen=True, slots=True)
class _Line:
    """A latency in milliseconds by window, of one region."""

    region: str
    values: dict[int | None, float | None] = field(default_factory=dict)

    @property
    def sum(self) -> float:
        return sum(value or 0.0 for value in self.values.values())

    def over(self, rows: Sequence[WindowSummaryAnswer]) -> list[float | None]:
        """A value for each window; at those of other regions that of the last window of its own."""
        found: list[float | None] = []
        for row in rows:
            own = row.get("region", "") == self.region
            found.append(self.values.get(row["windowId"]) if own else found[-1] if found else None)
        return found
