"""Latency, critical path and blame of a run: `/latency`, `/criticalPath` and `/windows`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from ridgeline.api.support.duration import as_ms
from ridgeline.measure.answers.windows import (
    AveragePathAnswer,
    BlameStepAnswer,
    CriticalPathAnswer,
    LatencyAnswer,
    LatencyTimesAnswer,
    LogicalLatencyAnswer,
    OperatorLatencyAnswer,
    PathStepAnswer,
    WindowAnswer,
    WindowSummaryAnswer,
)
from ridgeline.measure.events import SparkTrigger
from ridgeline.measure.history.fold import Aged, HistoryFold
from ridgeline.measure.latency.critical_path import CriticalPath, critical_paths, slack_of_figures
from ridgeline.measure.latency.folded import FoldedWindows, KeptWindow, blame_of
from ridgeline.measure.latency.operator_latency import ROWS, SHOWN, own_seconds
from ridgeline.measure.latency.since_start import (
    LatencyTotal,
    LatencyTotals,
    Spreads,
    WindowTotal,
    WindowTotals,
)
from ridgeline.measure.latency.window import Figures, Windows
from ridgeline.measure.topology import OperatorNode, Topology

SHARE_WINDOWS = 100
_QUANTILES = (0.5, 0.99)


class LatencyFold:
    """A fold over committed windows, in order, that answers in plain data for JSON.

    Averages are over the last `average_windows` windows, percentiles over all; what a single window was is
    kept for the last `history` windows. Memory is bounded: about 50 bytes per operator and window kept, 12
    for each step of a blame chain, and 8 KiB per operator. Of operators that a new plan has not, what they
    add up to is kept for 1,000. One thread at a time.
    """

    def __init__(self, average_windows: int = 10, history: int = 1000) -> None:
        self.clamps = 0
        """How often an operator ended before its upstream, by clocks that disagree."""
        self._window_totals = WindowTotals()
        """All windows but the last: Spark's own account of it may come yet."""
        self._average_windows = average_windows
        self._history_windows = history
        self._width = 0.0
        self._records: dict[int, KeptWindow] = {}
        self.history = HistoryFold()
        """Metrics over periods, and of the last hours."""
        self._totals = LatencyTotals()
        """By label and partition: what takes the place of an operator continues its counters."""
        self._physical, self._logical = Spreads(kept=0), Spreads()
        """Of physical operators, by id, and of logical ones, by name."""
        self._last: Topology | None = None
        self._mean: tuple[KeptWindow, Figures, CriticalPath] | None = None
        """The averages that were asked for last, of the windows up to this one."""

    # Windows in ---------------------------------------------------------------------------------------------

    def planned(self, topology: Topology, window_seconds: float = 0.0) -> None:
        """Replace the plan.

        Percentiles of logical operators stay, and those of physical operators that the plan keeps.
        """
        self._width = window_seconds
        self._last = topology
        self._totals.planned(node.series for node in topology.operators)
        self._physical.planned(topology.places)
        self._logical.planned(topology.logical.names)

    def add(
        self,
        windows: Windows,
        behind: Sequence[int],
        ages: Sequence[Sequence[Aged]],
        triggers: Mapping[int, SparkTrigger] = MappingProxyType({}),
    ) -> None:
        """Take windows of the last plan in, in order. `behind`: as in `latencies`.

        `ages`: those that came after each of the windows. `triggers`: by window, Spark's reports that came
        after it and before the next one.
        """
        folded = FoldedWindows(windows, self._width, behind, self._history_windows)
        self.clamps += folded.clamps
        self._totals.add(folded.figures[:, SHOWN])
        self._physical.add(folded.figures[:, 0])
        self._logical.add(folded.logical[:, 0])
        self.history.add(folded, ages, self._width)
        before = self._find(None)
        for one in folded.windows:
            self._records[one.times.commit.window_id] = one
        for window in triggers:
            self.add_trigger(triggers[window])
        counted = [self._records[one.times.commit.window_id] for one in folded.windows[:-1]]
        for several in ([] if before is None else [before], counted):
            if several:
                latencies = [one.times.latency_seconds for one in several]
                self._window_totals.add(latencies, blame_of(several))
        for number in list(self._records)[: max(0, len(self._records) - self._history_windows)]:
            del self._records[number]

    def add_trigger(self, event: SparkTrigger) -> bool:
        """Note Spark's report of a window, which comes after its commit. False for an unknown window.

        It is not counted again.
        """
        record = self._records.get(event.window_id)
        if record is None:
            return False
        times = replace(record.times, trigger=event)
        self._records[event.window_id] = replace(record, times=times)
        return True

    # Answers out --------------------------------------------------------------------------------------------

    def window_totals(self) -> WindowTotal:
        """The latencies of all windows since the start."""
        return self._window_totals.total()

    def totals(self) -> list[tuple[OperatorNode, LatencyTotal]]:
        """All windows since the start by operator of the last plan, in its order."""
        nodes = () if self._last is None else self._last.operators
        return list(zip(nodes, self._totals.totals(), strict=True))

    @property
    def no_latency(self) -> LatencyAnswer:
        """`latency` without any operator."""
        return {"windowId": None, "operators": [], "logical": [], "clamps": self.clamps}

    def latency(self, window_id: int | None = None, behind: Mapping[int, int] | None = None) -> LatencyAnswer:
        """Latencies of all operators in a window (default: the last), with averages and percentiles.

        `behind`: windows that operators are behind now. Raises KeyError if the window is not kept.
        """
        record = self._find(window_id)
        if record is None:
            return self.no_latency
        averages, _ = self._averages(record)
        return {
            "windowId": record.times.commit.window_id,
            "operators": self._operators(record, averages, behind or {}),
            "logical": self._logical_operators(record, averages),
            "clamps": self.clamps,
        }

    def by_name(self, window_id: int) -> dict[str, float]:
        """Seconds by logical operator in a window. Raises KeyError for a window that is not kept."""
        record = self._kept(window_id)
        logical = record.topology.logical
        found = logical.latencies(record.figures[None, :1])[0, 0].tolist()
        pairs = zip(logical.names, found, strict=True)
        return {name: seconds for name, seconds in pairs if not math.isnan(seconds)}

    def critical_path(self, window_id: int | None = None) -> CriticalPathAnswer:
        """Critical path, slack and blame chain of a window (default: the last).

        The path of the averages is over the windows up to it.

        `latencyMs` of a step is its own latency, compute and transfer, so that the steps add up to the
        path's. `share` is over the last 100 windows. Raises KeyError for a window that is not kept.
        """
        record = self._find(window_id)
        if record is None:
            return _nothing_yet()
        share, logical_share = self._shares(record)
        return {
            "windowId": record.times.commit.window_id,
            "latencyMs": as_ms(record.path.latency_seconds),
            "path": [
                _path_step(record, title, operator)
                for operator, title in zip(record.path.path, record.path_titles, strict=True)
            ],
            "slack": _slack(record),
            "blame": _blame(record),
            "average": self.average_path(window_id),
            "share": share,
            "logicalShare": logical_share,
            "windowLatencyMs": as_ms(record.times.latency_seconds),
        }

    def average_path(self, window_id: int | None = None) -> AveragePathAnswer:
        """The critical path of the averages over the windows up to one (default: the last).

        Raises KeyError for a window that is not kept.
        """
        record = self._find(window_id)
        if record is None:
            return _nothing_yet()["average"]
        _, path = self._averages(record)
        titles = [record.topology.by_id[operator].title for operator in path.path]
        return {"latencyMs": as_ms(path.latency_seconds), "path": titles}

    def windows(self, limit: int | None = None) -> list[WindowSummaryAnswer]:
        """Summaries of the last `limit` windows that are kept (default: all), the newest last."""
        records = list(self._records.values())
        shown = records if limit is None else records[max(0, len(records) - limit) :]
        return [record.summary.copy() for record in shown]

    def window(self, window_id: int) -> WindowAnswer:
        """All of one window: its summary, blame chain and operators.

        Raises KeyError if it is not kept.
        """
        record = self._kept(window_id)
        operators = self._operators(record, self._averages(record)[0], {})
        return {
            **record.summary,
            "blame": _blame(record),
            "operators": operators,
        }

    def _find(self, window_id: int | None) -> KeptWindow | None:
        """The record of a window, of the last one, or None before the first."""
        return next(reversed(self._records.values()), None) if window_id is None else self._kept(window_id)

    def _kept(self, window_id: int) -> KeptWindow:
        """The record of a window. Raises KeyError."""
        if window_id not in self._records:
            kept = (
                f"kept are {next(iter(self._records))} to {next(reversed(self._records))}"
                if self._records
                else "none is committed yet"
            )
            raise KeyError(f"window {window_id} is not known; {kept}")
        return self._records[window_id]

    def parts_of_path(self) -> dict[str, float]:
        """By logical operator, its part of the critical path of the averages: they add up to 1.

        Empty before the first window, and where the path takes no time.
        """
        record = self._find(None)
        if record is None:
            return {}
        averages, path = self._averages(record)
        own = own_seconds(averages)
        parts: dict[str, float] = {}
        for operator in path.path if path.latency_seconds > 0 else ():
            name = record.topology.by_id[operator].name
            seconds = float(own[record.topology.places[operator]])
            parts[name] = parts.get(name, 0.0) + seconds / path.latency_seconds
        return parts

    def _averages(self, record: KeptWindow) -> tuple[Figures, CriticalPath]:
        """The mean over the windows up to a record's, of each operator over those in which it reported.

        And the critical path of these means.
        """
        if self._mean is not None and self._mean[0] is record:
            return self._mean[1:]
        records = self._until(record, self._average_windows)
        rows = [
            other.figures if other.topology is record.topology else _aligned(other, record.topology)
            for other in records
        ]
        figures = np.array(rows)
        known = ~np.isnan(figures)
        counts = known.sum(axis=0)
        sums = np.where(known, figures, 0.0).sum(axis=0)
        mean = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        own = own_seconds(mean)
        path = CriticalPath.of(record.topology, own, critical_paths(record.topology, own[None])[0])
        self._mean = record, mean, path
        return mean, path

    def _until(self, record: KeptWindow, windows: int) -> list[KeptWindow]:
        """The last windows up to a record, itself the first."""
        found: list[KeptWindow] = []
        for other in reversed(self._records.values()):
            if other is record or found:
                found.append(other)
            if len(found) == windows:
                break
        return found

    def _shares(self, record: KeptWindow) -> tuple[dict[str, float], dict[str, float]]:
        """In which part of the last windows each operator of the plan was on the path.

        By title, and by the name of any partition or unifier.
        """
        records, plan = self._until(record, SHARE_WINDOWS), record.topology.by_id
        by_id, by_name = Counter[int](), Counter[str]()
        plans = {id(one.topology): one.topology.by_id for one in records}
        # Most paths are alike, and those of large plans are long.
        for (path, number), times in Counter((one.path.path, id(one.topology)) for one in records).items():
            by_id.update(dict.fromkeys(path, times))
            by_name.update(dict.fromkeys((plans[number][operator].name for operator in path), times))
        names = record.topology.names
        return (
            {plan[one].title: times / len(records) for one, times in by_id.items() if one in plan},
            {name: times / len(records) for name, times in by_name.items() if name in names},
        )

    def _operators(
        self, record: KeptWindow, averages: Figures, behind: Mapping[int, int]
    ) -> list[OperatorLatencyAnswer]:
        """The rows of `latency`, operator by operator."""
        topology, times = record.topology, record.figures[SHOWN].T.tolist()
        columns = zip(topology.operators, times, averages[0].tolist(), record.estimated, strict=True)
        return [
            {
                "operator": node.title,
                "id": node.id,
                "name": node.name,
                **_times(own, average, self._physical.quantiles(node.id, _QUANTILES)),
                "windowsBehind": behind.get(node.id, 0),
                "estimated": bool(estimated),
            }
            for node, own, average, estimated in columns
        ]

    def _logical_operators(self, record: KeptWindow, averages: Figures) -> list[LogicalLatencyAnswer]:
        """The latencies of logical operators: in the window, of the averages, and of all windows."""
        topology, logical = record.topology, record.topology.logical
        found = logical.latencies(np.array([record.figures[SHOWN], averages[SHOWN]]))
        unknown = [math.nan] * len(SHOWN)
        rows: list[LogicalLatencyAnswer] = []
        for name in topology.names:
            place = logical.index.get(name)
            own, mean = (unknown, unknown) if place is None else found[:, :, place].tolist()
            times = _times(own, mean[0], self._logical.quantiles(name, _QUANTILES))
            estimated = any(record.estimated[row] for row in topology.rows_of.get(name, ()))
            rows.append({"operator": name, **times, "estimated": estimated})
        return rows


def _times(own: Sequence[float], average: float, quantiles: Sequence[float | None]) -> LatencyTimesAnswer:
    """The latency of an operator as answers have it. `own`: as `SHOWN`."""
    latency, compute, wait, transfer, cpu = map(_ms, own)
    p50, p99 = map(_ms, quantiles)
    return {
        "latencyMs": latency,
        "computeMs": compute,
        "cpuMs": cpu,
        "waitMs": wait,
        "transferMs": transfer,
        "averageMs": _ms(average),
        "p50Ms": p50,
        "p99Ms": p99,
    }


def _blame(record: KeptWindow) -> list[BlameStepAnswer]:
    return [
        {"what": step.what, "operator": step.operator, "ms": as_ms(step.seconds)} for step in record.blame
    ]


def _nothing_yet() -> CriticalPathAnswer:
    """The critical path before the first window."""
    return {
        "windowId": None,
        "latencyMs": None,
        "path": [],
        "slack": {},
        "blame": [],
        "average": {"latencyMs": None, "path": []},
        "share": {},
        "logicalShare": {},
        "windowLatencyMs": None,
    }


def _path_step(record: KeptWindow, title: str, operator: int) -> PathStepAnswer:
    """A step of a window's critical path."""
    place = record.topology.places[operator]
    _, compute, _, transfer, _, cpu = record.figures[:, place].tolist()
    step: PathStepAnswer = {
        "operator": title,
        "id": operator,
        "latencyMs": _ms(compute + transfer),
        "computeMs": _ms(compute),
        "cpuMs": _ms(cpu),
        "transferMs": _ms(transfer),
    }
    if record.estimated[place]:
        step["estimated"] = True
    return step


def _ms(seconds: float | None) -> float | None:
    """Milliseconds for JSON; None for what is not known."""
    return None if seconds is None or math.isnan(seconds) else as_ms(seconds)


def _slack(record: KeptWindow) -> dict[str, float]:
    """Milliseconds by which operators off the path may get slower, by title."""
    topology, on_path = record.topology, set(record.path.path)
    found = slack_of_figures(topology, record.figures)
    of = {container: as_ms(seconds) for container, seconds in found.items()}
    return {node.title: of[node.container] for node in topology.operators if node.id not in on_path}


def _aligned(record: KeptWindow, topology: Topology) -> Figures:
    """A record's figures in the columns of another plan; NaN for operators that its own had not."""
    columns = [record.topology.places.get(operator, -1) for operator in topology.places]
    return np.concatenate([record.figures, np.full((ROWS, 1), np.nan)], axis=1)[:, columns]
