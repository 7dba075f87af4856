"""Latency, critical path and blame of a run: `/latency`, `/criticalPath` and `/windows`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ridgeline.api.support.duration import as_ms
from ridgeline.measure.answers.windows import (
    AveragePathAnswer,
    BlameStepAnswer,
    CriticalPathAnswer,
    LatencyAnswer,
    LogicalLatencyAnswer,
    OperatorLatencyAnswer,
    PathStepAnswer,
    WindowAnswer,
    WindowSummaryAnswer,
)
from ridgeline.measure.latency.blame import BlameStep, blame_chain
from ridgeline.measure.latency.critical_path import (
    CriticalPath,
    Held,
    critical_path_of,
    held_results,
    slack_of_figures,
)
from ridgeline.measure.latency.operator_latency import (
    ROWS,
    SHOWN,
    Figures,
    LatencyColumns,
    latency_columns,
)
from ridgeline.measure.latency.since_start import LatencyTotal, LatencyTotals, Spreads, WindowTotals
from ridgeline.measure.latency.window import WindowTimes, counts_of, entered_and_left
from ridgeline.measure.topology import OperatorNode, Topology

SHARE_WINDOWS = 100
_QUANTILES = (0.5, 0.99)


@dataclass(frozen=True, slots=True)
class KeptWindow:
    """One window as it is kept. `figures`: as in `LatencyColumns`; `tuples`: entered, and left.

    `times`: those of the driver.
    """

    times: WindowTimes
    topology: Topology
    tuples: tuple[int, int]
    figures: Figures
    estimated: bytes
    path: tuple[int, ...]
    path_names: tuple[str, ...]
    path_seconds: float
    blame: tuple[BlameStep, ...]
    phases: tuple[tuple[str, float], ...]
    held: tuple[Held, ...]

    @property
    def path_titles(self) -> list[str]:
        """The titles of the path's operators."""
        return [self.topology.by_id[operator].title for operator in self.path]


class LatencyFold:
    """A fold over committed windows, in order, that answers in plain data for JSON.

    Averages are over the last `average_windows` windows, percentiles over all; what a single window was is
    kept for the last `history` windows. Memory is bounded: about 50 bytes per operator and window kept, 100
    for each step of its blame chain, and 8 KiB per operator. Of operators that a new plan has not, what they
    add up to is kept for 1,000. One thread at a time.
    """

    def __init__(self, average_windows: int = 10, history: int = 1000) -> None:
        self.clamps = 0
        """How often an operator ended before its upstream, by clocks that disagree."""
        self.window_totals = WindowTotals()
        """All windows but the last: Spark's own account of it may come yet."""
        self._average_windows = average_windows
        self._history = history
        self._records: dict[int, KeptWindow] = {}
        self._totals = LatencyTotals()
        """By label and partition: what takes the place of an operator continues its counters."""
        self._physical, self._logical = Spreads(kept=0), Spreads()
        """Of physical operators, by `_key`, and of logical ones, by name."""
        self._last: Topology | None = None
        self._mean: tuple[KeptWindow, Figures] | None = None
        """The averages that were asked for last, of the windows up to this one."""
        self._mean_path: tuple[KeptWindow, CriticalPath] | None = None
        """The critical path of these."""

    # Windows in ---------------------------------------------------------------------------------------------

    def add(
        self,
        topology: Topology,
        times: WindowTimes,
        *,
        window_seconds: float = 0.0,
        behind: Mapping[int, int] | None = None,
    ) -> KeptWindow:
        """Take a window in; returns what is kept of it.

        A window that is kept already is replaced and not counted again: Spark's own account of it comes late.
        `window_seconds` and `behind` are for operators whose upstreams have not reported, as in
        `latency_columns`.
        """
        known = self._records.get(times.commit.window_id)
        # Spark's account may come when the plan has changed
        topology = self.planned(topology) if known is None else known.topology
        [latencies] = self.latencies(topology, [times], [behind or {}], window_seconds)
        return self.add_measured(times, latencies, counts_of(topology, times))

    def latencies(
        self,
        topology: Topology,
        windows: Sequence[WindowTimes],
        behind: Sequence[Mapping[int, int]],
        window_seconds: float,
    ) -> list[LatencyColumns]:
        """The latencies of windows that are to be taken in, as `latency_columns`."""
        return latency_columns(
            topology, windows, window_seconds=window_seconds, behind=behind, lag=self._history
        )

    def add_measured(self, times: WindowTimes, latencies: LatencyColumns, counts: Figures) -> KeptWindow:
        """Take a window in whose latencies are known. `counts`: as `counts_of`."""
        topology, known = latencies.topology, times.commit.window_id in self._records
        record = self._record(topology, times, latencies, counts)
        last = next(reversed(self._records.values()), None)
        self._records[times.commit.window_id] = record
        self._mean = self._mean_path = None
        if not known:
            self.clamps += int(latencies.clamped.sum())
            if last is not None:
                steps = (((step.what, step.operator), step.seconds) for step in last.blame)
                self.window_totals.add(last.times.latency_seconds, steps)
            self._totals.add(record.figures[SHOWN])
            self._physical.add(record.figures[0])
            self._logical.add(topology.logical.latencies(record.figures[None, :1])[0, 0])
            if len(self._records) > self._history:
                del self._records[next(iter(self._records))]
        return record

    def planned(self, topology: Topology) -> Topology:
        """Replace the plan; one that is equal to the last changes nothing, and the last one is returned.

        Percentiles of logical operators stay, and those of physical operators that the plan keeps.
        """
        if self._last is not None and (topology is self._last or topology == self._last):
            return self._last
        self._last = topology
        self._totals.planned(node.series for node in topology.operators)
        self._physical.planned(_key(topology, node.id) for node in topology.operators)
        self._logical.planned(topology.logical.names)
        return topology

    def _record(
        self, topology: Topology, times: WindowTimes, latencies: LatencyColumns, counts: Figures
    ) -> KeptWindow:
        """The record that is kept of a window."""
        critical = critical_path_of(topology, latencies.own.tolist())
        chain = blame_chain(topology, times)
        phases: dict[str, float] = {}
        for step in chain:
            phases[step.what] = phases.get(step.what, 0.0) + step.seconds
        return KeptWindow(
            times=replace(times, containers={}, operators={}),
            topology=topology,
            tuples=entered_and_left(topology, counts),
            figures=latencies.figures,
            estimated=latencies.estimated.tobytes(),
            path=critical.path,
            path_names=tuple(dict.fromkeys(topology.by_id[operator].name for operator in critical.path)),
            path_seconds=critical.latency_seconds,
            blame=chain,
            phases=tuple(phases.items()),
            held=held_results(topology, times),
        )

    # Answers out --------------------------------------------------------------------------------------------

    def totals(self) -> list[tuple[OperatorNode, LatencyTotal]]:
        """All windows since the start by operator of the last plan, in its order."""
        nodes = () if self._last is None else self._last.operators
        return list(zip(nodes, self._totals.totals(), strict=True))

    def latency(self, window_id: int | None = None, behind: Mapping[int, int] | None = None) -> LatencyAnswer:
        """Latencies of all operators in a window (default: the last), with averages and percentiles.

        `behind`: windows that operators are behind now. Raises KeyError if the window is not kept.
        """
        record = self._find(window_id)
        if record is None:
            return {"windowId": None, "operators": [], "logical": [], "clamps": self.clamps}
        averages = self._averages(record)
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
        topology = record.topology
        share, logical_share = self._shares(record)
        return {
            "windowId": record.times.commit.window_id,
            "latencyMs": as_ms(record.path_seconds),
            "path": [
                _path_step(record, title, operator)
                for operator, title in zip(record.path, record.path_titles, strict=True)
            ],
            "slack": _slack(record),
            "blame": _blame(record),
            "held": [{"output": one.output, "by": one.by, "ms": as_ms(one.seconds)} for one in record.held],
            "average": self.average_path(window_id),
            "share": {
                topology.by_id[operator].title: fraction
                for operator, fraction in share.items()
                if operator in topology.by_id
            },
            "logicalShare": {
                name: fraction for name, fraction in logical_share.items() if name in topology.names
            },
            "windowLatencyMs": as_ms(record.times.latency_seconds),
        }

    def average_path(self, window_id: int | None = None) -> AveragePathAnswer:
        """The critical path of the averages over the windows up to one (default: the last).

        Raises KeyError for a window that is not kept.
        """
        record = self._find(window_id)
        if record is None:
            return _nothing_yet()["average"]
        found = self._path_of_averages(record)
        titles = [record.topology.by_id[operator].title for operator in found.path]
        return {"latencyMs": as_ms(found.latency_seconds), "path": titles}

    def _path_of_averages(self, record: KeptWindow) -> CriticalPath:
        known = self._mean_path
        if known is None or known[0] is not record:
            found = critical_path_of(record.topology, _own(self._averages(record)))
            self._mean_path = known = record, found
        return known[1]

    def windows(self, limit: int | None = None) -> list[WindowSummaryAnswer]:
        """Summaries of the last `limit` windows that are kept (default: all), the newest last."""
        records = list(self._records.values())
        return [
            _summary(record)
            for record in (records if limit is None else records[max(0, len(records) - limit) :])
        ]

    def window(self, window_id: int) -> WindowAnswer:
        """All of one window: its summary, blame chain and operators.

        Raises KeyError if it is not kept.
        """
        record = self._kept(window_id)
        operators = self._operators(record, self._averages(record), {})
        return {
            **_summary(record),
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
        own = _own(self._averages(record))
        path = self._path_of_averages(record)
        parts: dict[str, float] = {}
        for operator in path.path if path.latency_seconds > 0 else ():
            name = record.topology.by_id[operator].name
            seconds = own[record.topology.places[operator]]
            parts[name] = parts.get(name, 0.0) + seconds / path.latency_seconds
        return parts

    def _averages(self, record: KeptWindow) -> Figures:
        """The mean over the windows up to a record's, of each operator over those in which it reported."""
        if self._mean is not None and self._mean[0] is record:
            return self._mean[1]
        records = self._until(record, self._average_windows)
        rows = [
            other.figures if other.topology is record.topology else _aligned(other, record.topology)
            for other in records
        ]
        figures = np.array(rows)
        known = ~np.isnan(figures)
        counts = known.sum(axis=0)
        mean = np.where(counts > 0, np.where(known, figures, 0.0).sum(axis=0) / np.maximum(counts, 1), np.nan)
        self._mean = record, mean
        return mean

    def _until(self, record: KeptWindow, windows: int) -> list[KeptWindow]:
        """The last windows up to a record, itself the first."""
        found: list[KeptWindow] = []
        for other in reversed(self._records.values()):
            if other is record or found:
                found.append(other)
            if len(found) == windows:
                break
        return found

    def _shares(self, record: KeptWindow) -> tuple[dict[int, float], dict[str, float]]:
        """In which part of the last windows each operator was on the path: by id, and by name.

        By name of any partition or unifier.
        """
        records = self._until(record, SHARE_WINDOWS)
        by_id, by_name = Counter[int](), Counter[str]()
        # Most paths are alike, and those of large plans are long.
        for (path, names), times in Counter((one.path, one.path_names) for one in records).items():
            by_id.update(dict.fromkeys(path, times))
            by_name.update(dict.fromkeys(names, times))
        return (
            {operator: times / len(records) for operator, times in by_id.items()},
            {name: times / len(records) for name, times in by_name.items()},
        )

    def _operators(
        self, record: KeptWindow, averages: Figures, behind: Mapping[int, int]
    ) -> list[OperatorLatencyAnswer]:
        """The rows of `latency`, operator by operator."""
        columns = zip(
            record.topology.operators,
            record.figures[SHOWN].T.tolist(),
            averages[0].tolist(),
            record.estimated,
            strict=True,
        )
        rows: list[OperatorLatencyAnswer] = []
        for node, (latency, compute, wait, transfer, cpu), average, estimated in columns:
            p50, p99 = self._physical.quantiles(_key(record.topology, node.id), _QUANTILES)
            rows.append(
                {
                    "operator": node.title,
                    "id": node.id,
                    "name": node.name,
                    "latencyMs": _ms(latency),
                    "computeMs": _ms(compute),
                    "cpuMs": _ms(cpu),
                    "waitMs": _ms(wait),
                    "transferMs": _ms(transfer),
                    "averageMs": _ms(average),
                    "p50Ms": _ms(p50),
                    "p99Ms": _ms(p99),
                    "windowsBehind": behind.get(node.id, 0),
                    "estimated": bool(estimated),
                }
            )
        return rows

    def _logical_operators(self, record: KeptWindow, averages: Figures) -> list[LogicalLatencyAnswer]:
        """The latencies of logical operators: in the window, of the averages, and of all windows."""
        topology, logical = record.topology, record.topology.logical
        found = logical.latencies(np.array([record.figures[SHOWN], averages[SHOWN]]))
        unknown = [math.nan] * len(SHOWN)
        rows: list[LogicalLatencyAnswer] = []
        for name in topology.names:
            place = logical.index.get(name)
            p50, p99 = self._logical.quantiles(name, _QUANTILES)
            own, mean = (unknown, unknown) if place is None else found[:, :, place].tolist()
            latency, compute, wait, transfer, cpu = map(_ms, own)
            rows.append(
                {
                    "operator": name,
                    "latencyMs": latency,
                    "averageMs": _ms(mean[0]),
                    "p50Ms": _ms(p50),
                    "p99Ms": _ms(p99),
                    "computeMs": compute,
                    "cpuMs": cpu,
                    "waitMs": wait,
                    "transferMs": transfer,
                    "estimated": any(record.estimated[row] for row in topology.rows_of.get(name, ())),
                }
            )
        return rows


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
        "held": [],
        "average": {"latencyMs": None, "path": []},
        "share": {},
        "logicalShare": {},
        "windowLatencyMs": None,
    }


def _summary(record: KeptWindow) -> WindowSummaryAnswer:
    """A window in short."""
    times = record.times
    return {
        "windowId": times.commit.window_id,
        "planVersion": times.plan_version,
        "attempts": times.commit.attempts,
        "triggeredAt": times.triggered,
        "committedAt": times.commit.committed,
        "latencyMs": as_ms(times.latency_seconds),
        "lateMs": as_ms(times.late_seconds),
        "criticalPathMs": as_ms(record.path_seconds),
        "path": record.path_titles,
        "tuplesIn": record.tuples[0],
        "tuplesOut": record.tuples[1],
        "phases": {what: as_ms(seconds) for what, seconds in record.phases},
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


def _key(topology: Topology, operator: int) -> tuple[int, str]:
    """Who an operator is across plans: a plan may give an id to another operator."""
    return operator, topology.by_id[operator].title


def _ms(seconds: float | None) -> float | None:
    """Milliseconds for JSON; None for what is not known."""
    return None if seconds is None or math.isnan(seconds) else as_ms(seconds)


def _slack(record: KeptWindow) -> dict[str, float]:
    """Milliseconds by which operators off the path may get slower, by title."""
    topology, on_path = record.topology, set(record.path)
    found = slack_of_figures(topology, record.figures)
    of = {container: as_ms(seconds) for container, seconds in found.items()}
    return {node.title: of[node.container] for node in topology.operators if node.id not in on_path}


def _own(figures: Figures) -> list[float]:
    """Own latencies of all operators, 0 of those that did not report."""
    own: list[float] = np.fmax(0.0, figures[1] + figures[3]).tolist()
    return own


def _aligned(record: KeptWindow, topology: Topology) -> Figures:
    """A record's figures in the columns of another plan."""
    columns = {
        _key(record.topology, node.id): column for column, node in enumerate(record.topology.operators)
    }
    aligned = np.full((ROWS, len(topology.operators)), np.nan)
    for column, node in enumerate(topology.operators):
        if (key := _key(topology, node.id)) in columns:
            aligned[:, column] = record.figures[:, columns[key]]
    return aligned
