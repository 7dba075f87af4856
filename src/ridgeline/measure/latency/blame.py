"""The blame chain: the causes of a window's time, from its last event back to its trigger, without a gap."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from ridgeline.measure.latency.window import Figures, Places, Windows, WindowTimes
from ridgeline.measure.topology import Topology

SMALLEST_STEP = 1e-6
"""Seconds; shorter steps go into their neighbour."""


class BlameStep(NamedTuple):
    """A stretch of a window's time. `operator`: the title of the operator whose time it is, or empty.

    `what`, in the order of a window:
    - `offsets`, `log`, `planning`, `trigger`: Spark's micro-batch before Ridgeline's turn (latest offsets,
      offset log, query planning, the rest)
    - `ending`: the run in which all inputs ended, so that the window ran again to be closed
    - `retries`: attempts that did not count, since they failed
    - `planning`: that of the job
    - `launch`: requests and messages on their way to a container
    - `slot`: the slot was busy with another container or an earlier window; `operator` is the one that fills
      it most
    - `restore`: state
    - `compute`, `transfer`: of an operator
    - `sibling`: compute of one in the same container that was not waited for
    - `state`: state file
    - `other`: between operators
    - `results`: to the driver
    - `stage`: outputs
    - `commit`: the commit
    """

    what: str
    operator: str
    seconds: float


class _Walk:
    """Time taken off the ends of windows piece by piece.

    No step is negative and their sum is the time walked, also if clocks disagree.
    """

    def __init__(self, windows: Windows, ends: Figures) -> None:
        self._windows, self._topology = windows, windows.topology
        self._rows = np.arange(len(windows))
        self.positions = ends
        self.floors, self.least = np.full_like(ends, -np.inf), SMALLEST_STEP
        self.steps: list[tuple[str, Places, Figures]] = []
        """What, the place of the operator or -1, and seconds, of each window; from the last to the first."""
        self._nobody = np.full(len(ends), -1, np.intp)

    def back_to(self, starts: Figures, what: str, operators: Places | None = None) -> None:
        """Name the time, if any, from `starts` to where the walk is; nothing is taken below `floors`.

        NaN: a window has no such time. What is no longer than `least` is left to the step before.
        """
        positions = np.fmin(self.positions, np.maximum(starts, self.floors))
        taken = self.positions - positions
        counts = taken > self.least
        if counts.any():
            taken[~counts] = 0.0
            self.steps.append((what, self._nobody if operators is None else operators, taken))
            self.positions = np.where(counts, positions, self.positions)

    def over_containers(self, paths: Places, launched: Figures) -> None:
        """Walk back from the end of the last container to the launch, over the producers each waited for."""
        wanted = np.zeros(len(self._rows), object)
        for number, (container, producer) in enumerate(zip_longest(paths.T, paths.T[1:])):
            if number == 0:
                self.back_to(np.where(container < 0, launched, np.nan), "other")
            if producer is None:
                producer = np.full_like(container, -1)  # noqa: PLW2901  the path ends here
            self.back_to(self._at(self._windows.written, container), "launch" if number else "results")
            self._work(container, wanted)
            self._queue(container)
            wanted = self._topology.lineage_of_containers[container]
            sent = self._at(self._windows.written, producer)
            sent = np.where((producer < 0) & (container >= 0), launched, sent)
            busy = self._windows.busy
            fills = self._fills(container) if len(busy) else None
            for began, ended in busy[::-1]:
                self.back_to(np.maximum(self._at(ended, container), sent), "launch")
                self.back_to(np.maximum(self._at(began, container), sent), "slot", fills)
        self.back_to(launched, "launch")

    def _at(self, figures: Figures, places: Places) -> Figures:
        """Of each window the figure of one operator or container; NaN for none."""
        return np.where(places < 0, np.nan, figures[self._rows, places])

    def _work(self, container: Places, wanted: Places) -> None:
        """The work of a container of each window, from its end back to its begin.

        `wanted`: sets of those that were waited for, as bits; 0: the last operator that ran.
        """
        windows, members = self._windows, self._topology.members.members
        self.back_to(self._at(windows.ran, container), "state")
        first = np.full_like(container, -1)
        several = [members[one][::-1] if one >= 0 else () for one in container.tolist()]
        for own in zip_longest(*several, fillvalue=-1):
            operator = np.array(own)
            began, ended = self._at(windows.began, operator), self._at(windows.ended, operator)
            ran = ~np.isnan(ended)
            lineage = self._topology.lineage[operator]
            wanted = np.where((wanted == 0) & ran, lineage, wanted)
            waited = (wanted & self._topology.bits[operator]) != 0
            wanted = np.where(ran & waited, lineage, wanted)
            first = np.where(ran, operator, first)
            spent = np.maximum(0.0, self._at(windows.compute, operator))
            self.back_to(ended, "other")
            self.back_to(np.minimum(ended, began + spent), "transfer", operator)
            self.back_to(np.where(waited, began, np.nan), "compute", operator)
            self.back_to(np.where(waited, np.nan, began), "sibling", operator)
        restored = self._at(windows.restored, container)
        self.back_to(np.where(first < 0, np.nan, restored), "transfer", first)
        self.back_to(restored, "other")
        self.back_to(self._at(windows.turned, container), "restore")

    def _queue(self, container: Places) -> None:
        """From its turn back to when its input was there: others ran in its slot, the last one first."""
        windows = self._windows
        came = self._at(windows.came, container)
        waits = came < self.positions
        if not waits.any():
            return
        fills, (longest, _) = self._fills(container), self._longest
        began, slot = self._at(windows.turned, container), windows.slots[self._rows, container]
        meanwhile = (windows.slots == slot[:, None]) & waits[:, None]
        meanwhile &= (windows.turned < began[:, None]) & (windows.written > came[:, None])
        in_order = np.argsort(np.where(meanwhile, -windows.turned, np.inf), axis=1, kind="stable")
        for other in in_order[:, : meanwhile.sum(axis=1).max()].T:
            counts = meanwhile[self._rows, other]
            ended, turned = (
                np.where(counts, np.maximum(times[self._rows, other], came), np.nan)
                for times in (windows.written, windows.turned)
            )
            self.back_to(ended, "slot", fills)
            self.back_to(turned, "slot", longest[self._rows, other])
        self.back_to(np.where(waits, came, np.nan), "slot", fills)

    @cached_property
    def _longest(self) -> tuple[Places, Figures]:
        """Of each container the operator that ran longest, -1 if none reported, and for how long."""
        return self._topology.members.latest(self._windows.ended - self._windows.began)

    def _fills(self, container: Places) -> Places:
        """The operator that most of the time of a container's slot goes to."""
        operators, seconds = self._longest
        slots = self._windows.slots
        same = (slots == slots[self._rows, container][:, None]) & ~np.isnan(seconds)
        at = np.argmax(np.where(same, seconds, -np.inf), axis=1)
        return np.where(same.any(axis=1), operators[self._rows, at], -1)


class BlameChains:
    """The blame chains of windows from Ridgeline's turn on, as arrays by step and window.

    Each window adds to sums, and few windows are asked for: only then their steps become objects.
    """

    def __init__(self, topology: Topology, walk: _Walk) -> None:
        steps, shape = walk.steps[::-1], (-1, len(walk.positions))
        self._whats = [what for what, *_ in steps]
        self._places = np.array([places for _, places, _ in steps], np.int32).reshape(shape)
        self._seconds = np.array([seconds for *_, seconds in steps]).reshape(shape)
        self._titles = [*(node.title for node in topology.operators), ""]

    def __getitem__(self, window: int) -> tuple[BlameStep, ...]:
        """The steps of one window in time order.

        With those of `since_trigger` they add up to its `latency_seconds`, but for the error of floats.
        """
        seconds, places = self._seconds[:, window].tolist(), self._places[:, window].tolist()
        steps = zip(self._whats, places, seconds, strict=True)
        return _merged((what, self._titles[place], spent) for what, place, spent in steps if spent)

    def sums(self, windows: Sequence[int]) -> dict[tuple[str, str], float]:
        """Seconds of some windows by what they were spent on and operator's title."""
        whats, size = list(dict.fromkeys(self._whats)), len(self._titles)
        numbers = np.array([whats.index(what) for what in self._whats], np.intp)[:, None]
        keys = numbers * size + self._places[:, windows] % size
        found = np.bincount(keys.ravel(), self._seconds[:, windows].ravel())
        some = np.flatnonzero(found)
        pairs = zip(some.tolist(), found[some].tolist(), strict=True)
        return {(whats[key // size], self._titles[key % size]): seconds for key, seconds in pairs}


def blame_chains(windows: Windows, paths: Places) -> BlameChains:
    """The blame chains of windows. `paths`: as `slot_paths`."""
    commits = [one.commit for one in windows.times]
    read = [
        (one.began, one.planned, one.launched, one.returned, one.staged, one.committed) for one in commits
    ]
    began, planned, launched, returned, staged, committed = np.reshape(read, (-1, 6)).T
    walk = _Walk(windows, committed)
    walk.floors = began
    walk.back_to(staged, "commit")
    walk.back_to(returned, "stage")
    walk.floors = np.minimum(np.maximum(launched, began), walk.positions)
    walk.over_containers(paths, launched)
    walk.floors, walk.least = began, 0.0  # no step is before
    walk.back_to(np.where(planned - began < SMALLEST_STEP, began, planned), "planning")
    walk.back_to(np.where([one.closing for one in commits], began, np.nan), "ending")
    walk.back_to(began, "retries")
    return BlameChains(windows.topology, walk)


def since_trigger(times: WindowTimes, chain: tuple[BlameStep, ...]) -> tuple[BlameStep, ...]:
    """A blame chain with the steps from Spark's trigger to Ridgeline's turn before it."""
    before = spark_phases(times)
    return _merged([*((what, "", seconds) for what, seconds in before.items()), *chain]) if before else chain


def spark_phases(times: WindowTimes) -> dict[str, float]:
    """Seconds from Spark's trigger to Ridgeline's turn, by name in order; empty without Spark."""
    if times.trigger is None:
        return {}
    turn = min(times.commit.began, times.commit.committed)  # a clock that was set in between
    seconds, phases = max(0.0, turn - times.triggered), times.trigger.phases
    named = {}
    for what, parts in {
        "offsets": ("latestOffset",),
        "log": ("walCommit",),
        "planning": ("getBatch", "queryPlanning"),
    }.items():
        named[what] = min(seconds, max(0.0, math.fsum(phases.get(part, 0.0) for part in parts)))
        seconds -= named[what]
    return {**named, "trigger": seconds}


def _merged(steps: Iterable[tuple[str, str, float]]) -> tuple[BlameStep, ...]:
    """Merge equal neighbours, and steps that are too short into the one before.

    At the begin they go into the one after.
    """
    merged: list[tuple[str, str, float]] = []
    for what, operator, seconds in steps:
        last = merged[-1] if merged else ("", "", 0.0)
        if merged and (seconds < SMALLEST_STEP or (what, operator) == last[:2]):
            merged[-1] = (*last[:2], last[2] + seconds)
        elif merged and last[2] < SMALLEST_STEP:
            merged[-1] = what, operator, seconds + last[2]
        else:
            merged.append((what, operator, seconds))
    return tuple(BlameStep(*step) for step in merged if step[2])
