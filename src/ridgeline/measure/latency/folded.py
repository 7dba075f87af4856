"""Windows that are folded together: what is found of each, as arrays, and one of them as it is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ridgeline.api.support.duration import as_ms
from ridgeline.measure.answers.windows import WindowSummaryAnswer
from ridgeline.measure.latency.blame import BlameChains, BlameStep, blame_chains, since_trigger, spark_phases
from ridgeline.measure.latency.critical_path import (
    CriticalPath,
    critical_paths,
    slot_paths,
)
from ridgeline.measure.latency.operator_latency import SHOWN, latencies, own_seconds
from ridgeline.measure.latency.window import NOTHING, Figures, Places, Windows, WindowTimes
from ridgeline.measure.topology import Topology


class FoldedWindows:
    """Windows of one plan with all that is found of them, by window.

    `figures`: as in `Latencies`; `logical`: the rows `SHOWN` by logical operator. `counts`: as in `Windows`.
    `paths`: as `critical_paths`. Of each of `windows` only what is asked for later is kept.
    """

    def __init__(self, windows: Windows, window_seconds: float, behind: Sequence[int], lag: float) -> None:
        topology = windows.topology
        found = latencies(windows, window_seconds=window_seconds, behind=behind, lag=lag)
        self.figures, self.clamps = found.figures, int(found.clamped.sum())
        self.logical = topology.logical.latencies(found.figures[:, SHOWN])
        self.counts, self.paths = windows.counts, critical_paths(topology, found.own)
        chains = blame_chains(windows, slot_paths(windows))
        times = (replace(one, reported=NOTHING) for one in windows.times)
        of_each = zip(times, found.figures, found.estimated, windows.tuples(), self.paths, strict=True)
        self.windows = [KeptWindow(topology, chains, row, *one) for row, one in enumerate(of_each)]


@dataclass(frozen=True)
class KeptWindow:
    """One window as it is kept.

    `times`: those of the driver. `figures`: as in `Latencies`; `tuples`: entered, and left. `places`: its
    critical path. `row`: which of `chains`, of the windows that it was folded with, is its blame.
    """

    topology: Topology
    chains: BlameChains
    row: int
    times: WindowTimes
    figures: Figures
    estimated: npt.NDArray[np.bool_]
    tuples: tuple[int, int]
    places: Places

    @cached_property
    def path(self) -> CriticalPath:
        """Its critical path."""
        return CriticalPath.of(self.topology, own_seconds(self.figures), self.places)

    @cached_property
    def blame(self) -> tuple[BlameStep, ...]:
        """The causes of its time, from its trigger on."""
        return since_trigger(self.times, self.chains[self.row])

    @property
    def path_titles(self) -> list[str]:
        """The titles of the path's operators."""
        return [self.topology.by_id[operator].title for operator in self.path.path]

    @cached_property
    def summary(self) -> WindowSummaryAnswer:
        """The window in short."""
        times = self.times
        phases: dict[str, float] = {}
        for step in self.blame:
            phases[step.what] = phases.get(step.what, 0.0) + step.seconds
        return {
            "windowId": times.commit.window_id,
            "planVersion": times.plan_version,
            "attempts": times.commit.attempts,
            "triggeredAt": times.triggered,
            "committedAt": times.commit.committed,
            "latencyMs": as_ms(times.latency_seconds),
            "lateMs": as_ms(times.late_seconds),
            "criticalPathMs": as_ms(self.path.latency_seconds),
            "path": self.path_titles,
            "tuplesIn": self.tuples[0],
            "tuplesOut": self.tuples[1],
            "phases": {what: as_ms(seconds) for what, seconds in phases.items()},
        }


def blame_of(windows: Sequence[KeptWindow]) -> dict[tuple[str, str], float]:
    """Seconds of windows that were folded together, by what they were spent on and by title."""
    found = windows[0].chains.sums([one.row for one in windows])
    for one in windows:
        for what, seconds in spark_phases(one.times).items():
            found[what, ""] = found.get((what, ""), 0.0) + seconds
    return found
