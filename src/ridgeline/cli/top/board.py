"""The figures that the screen shows: the newest overview, and how operators did over the last windows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from ridgeline.cli.views.operators import bar
from ridgeline.measure.answers.application import OverviewAnswer
from ridgeline.measure.wording.times import logical_name
from ridgeline.measure.wording.units import about, count, milliseconds, percentile, rate

ACCENT = "bold #ff8f40"
"""The one colour that stands for the critical path."""
KEPT = 60
"""Windows of which the latency of each operator is kept."""
_MOST_WINDOWS = 1_000
_BLOCKS = "▁▂▃▄▅▆▇█"
_TREND = 12


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """A row of the table: a physical operator, or the partitions of a logical one together."""

    title: str
    ids: tuple[int, ...]
    on_path: bool
    status: str
    latency_ms: float | None
    p99_ms: float | None
    parts_ms: tuple[float, float, float]
    """Compute, wait and transfer."""
    estimated: bool
    """Whether they are in part shares of the time of a common query."""
    tuples_in: float
    tuples_out: float
    errors: int
    behind: int
    trend: Sequence[float]

    @property
    def logical(self) -> str:
        """The name of the logical operator."""
        return logical_name(self.title)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table: its width, how a cell is drawn, and by what rows are sorted."""

    name: str
    width: int
    draw: Callable[[OperatorRow, float], Text]
    key: Callable[[OperatorRow], Any]
    left: bool = False


def _latency(row: OperatorRow) -> str:
    """The latency of a row; in so narrow a column `~` stands for `about`."""
    return about(milliseconds(row.latency_ms), row.estimated).replace("about ", "~")


def spark(values: Sequence[float], width: int) -> str:
    """The last values as a line of blocks, from 0 to the greatest; shorter if there are fewer.

    >>> spark([0.0, 1.0, 2.0, 4.0], 3)
    '▃▅█'
    >>> spark([], 3)
    ''
    """
    shown = list(values)[-width:]
    top = max(shown, default=0.0)
    last = len(_BLOCKS) - 1
    return "".join(_BLOCKS[round(last * max(0.0, value) / top)] if top > 0 else _BLOCKS[0] for value in shown)


COLUMNS: tuple[Column, ...] = (
    Column("operator", 0, lambda row, _: Text(row.title), lambda row: row.title, left=True),
    Column("n", 3, lambda row, _: Text(count(len(row.ids))), lambda row: -len(row.ids)),
    Column("latency", 8, lambda row, _: Text(_latency(row)), lambda row: -(row.latency_ms or 0)),
    Column("p99", 8, lambda row, _: Text(percentile(row.p99_ms)), lambda row: -(row.p99_ms or 0)),
    Column(
        "where it goes",
        20,
        lambda row, longest: bar(row.parts_ms, longest),
        lambda row: -row.parts_ms[0],
        left=True,
    ),
    Column(
        "trend",
        _TREND,
        lambda row, _: Text(spark(row.trend, _TREND), "cyan"),
        lambda row: -_rise(row.trend),
        left=True,
    ),
    Column("in/s", 8, lambda row, _: Text(rate(row.tuples_in)), lambda row: -row.tuples_in),
    Column("out/s", 8, lambda row, _: Text(rate(row.tuples_out)), lambda row: -row.tuples_out),
    Column("behind", 6, lambda row, _: _warned(row.behind), lambda row: -row.behind),
    Column("errors", 7, lambda row, _: _warned(row.errors), lambda row: -row.errors),
    Column("status", 8, lambda row, _: Text(row.status.lower(), "dim"), lambda row: row.status, left=True),
)


def _warned(number: int) -> Text:
    return Text(count(number), "bold yellow" if number else "dim")


def _rise(trend: Sequence[float]) -> float:
    """By how much the newest latency is above the mean of those kept."""
    return trend[-1] - sum(trend) / len(trend) if trend else 0.0


class Board:
    """Takes overviews, and gives rows; of one thread at a time.

    Example:
        >>> board = Board()
        >>> board.rows(together=True, pattern="", column=0, reverse=False)
        []
    """

    def __init__(self) -> None:
        self.overview: OverviewAnswer | None = None
        self.windows: deque[tuple[int, float]] = deque(maxlen=_MOST_WINDOWS)
        self._trends: dict[str, deque[float]] = {}

    def known(self, windows: Sequence[Mapping[str, Any]]) -> None:
        """Take the windows from before the first overview: `/windows`; those that are given later are not."""
        if self.overview is None:
            self.windows.clear()
            self.windows.extend((row["windowId"], row["latencyMs"]) for row in windows)

    def take(self, overview: OverviewAnswer) -> None:
        """Take the next overview; one of the same window replaces the last one."""
        before, self.overview = self.overview, overview
        window = overview["windowId"]
        if window is None or (before is not None and before["windowId"] == window):
            return
        latency = overview["criticalPath"]["windowLatencyMs"]
        if latency is not None and (
            not self.windows or self.windows[-1][0] < window or "windows" in overview["criticalPath"]
        ):
            self.windows.append((window, latency))
        greatest: dict[str, float] = {}
        for row in overview["operators"]:
            value = float(_figures(row)["latencyMs"] or 0.0)
            name = logical_name(row["operator"])
            greatest[name] = max(value, greatest.get(name, 0.0))
            if name != row["operator"]:
                self._trend(row["operator"]).append(value)
        for name, value in greatest.items():
            self._trend(name).append(value)

    def _trend(self, title: str) -> deque[float]:
        return self._trends.setdefault(title, deque(maxlen=KEPT))

    def rows(self, *, together: bool, pattern: str, column: int, reverse: bool) -> list[OperatorRow]:
        """The rows of the table.

        Args:
            together: Partitions of an operator as one row: times of the slowest, sums of tuples.
            pattern: Only operators whose title has this text, in whatever case.
            column: The index of the column to sort by; equal rows stay in the plan's order.
            reverse: The other way round.
        """
        if self.overview is None:
            return []
        on_path = {step["operator"] for step in self.overview["criticalPath"]["path"]}
        groups: dict[str, list[Mapping[str, Any]]] = {}
        for operator in self.overview["operators"]:
            title = operator["operator"]
            if pattern.lower() in title.lower():
                groups.setdefault(logical_name(title) if together else title, []).append(_figures(operator))
        rows = [self._row(title, group, on_path) for title, group in groups.items()]
        return sorted(rows, key=COLUMNS[column].key, reverse=reverse)

    def _row(self, title: str, group: Sequence[Mapping[str, Any]], on_path: set[str]) -> OperatorRow:
        """One row of these physical operators; changes nothing."""
        slowest = max(group, key=lambda row: row["latencyMs"] or 0.0)
        compute, wait, transfer = (slowest[name] or 0.0 for name in ("computeMs", "waitMs", "transferMs"))
        return OperatorRow(
            title=title,
            ids=tuple(row["id"] for row in group),
            on_path=any(row["operator"] in on_path for row in group),
            status=slowest["status"],
            latency_ms=slowest["latencyMs"],
            p99_ms=max((row["p99Ms"] for row in group if row["p99Ms"] is not None), default=None),
            parts_ms=(compute, wait, transfer),
            estimated=bool(slowest.get("estimated")),
            tuples_in=sum(row["tuplesProcessedPSMA"] or 0.0 for row in group),
            tuples_out=sum(row["tuplesEmittedPSMA"] or 0.0 for row in group),
            errors=sum(row["errors"] or 0 for row in group),
            behind=max(row["windowsBehind"] or 0 for row in group),
            trend=self._trends.get(title, ()),
        )


def _figures(operator: Any) -> Mapping[str, Any]:
    """A row of an overview with all metrics, which its type names in part."""
    found: Mapping[str, Any] = operator
    return found


def strip(windows: Sequence[tuple[int, float]], width: int, window_ms: float) -> Text:
    """The last windows as blocks as high as they took.

    Green within the width of a window, yellow within twice that, else red.
    """
    shown = list(windows)[-width:]
    text = Text()
    blocks = spark([latency for _, latency in shown], width)
    for block, (_, latency) in zip(blocks, shown, strict=True):
        style = "green" if latency <= window_ms else "yellow" if latency <= 2 * window_ms else "red"
        text.append(block, style)
    return text
