"""The fold behind the history: windows in steps of a second, of ten and of a minute, for a day."""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from ridgeline.api.support.duration import as_ms
from ridgeline.measure.answers.history import (
    ApplicationHistoryAnswer,
    ApplicationStepAnswer,
    OperatorHistoryAnswer,
    OperatorStepAnswer,
    OutputAgesAnswer,
)
from ridgeline.measure.events import AgeSample
from ridgeline.measure.history.step import PLACES, Ages, Floats, Kept, OpenStep, Step, Sum, decode
from ridgeline.measure.latency.fold import FoldedWindow
from ridgeline.measure.latency.window import Count, WindowTimes
from ridgeline.measure.topology import Topology


class Shape:
    """The places of a plan that windows are added up by.

    `inputs`, `leaves`: those of the physical operators that read from no other, and that none reads from.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.names, self.index = topology.logical.names, topology.logical.index
        places = topology.places
        self.inputs = np.array([places[one] for one in topology.inputs], np.intp)
        self.leaves = np.array([places[one] for one in topology.leaves], np.intp)
        self.outputs = tuple(dict.fromkeys(topology.by_id[one].name for one in topology.leaves))


LEVELS = ((1, 900), (10, 720), (60, 1440))
"""Seconds of a step, and how many of them are kept: 15 minutes, 2 hours, 24 hours."""
MOST_BYTES = 96_000_000
"""All steps take so much at most. With more operators steps are longer, for the same time."""
_FACTORS = (1, 2, 5, 10, 20, 30, 60)
_OPERATOR_BYTES = 2 * Kept.COUNT * sum(steps for _, steps in LEVELS)
_MOST_PENDING = 64
_MOST_FIGURES = 200_000
"""Of so many windows, or figures of operators, none waits to be added up."""
_PLACE_NUMBERS = {place: number for number, place in enumerate(PLACES)}


class _Level:
    """Steps of one length. `shape`: of the windows in the open one."""

    def __init__(self, width: int, most: int) -> None:
        self.width = width
        self.kept: deque[Step] = deque(maxlen=most)
        self.open: OpenStep | None = None

    def begin(self, at: float, operators: int) -> OpenStep:
        """The open step; one that has `at` in it is begun if there is none."""
        if self.open is None:
            begin = math.floor(at / self.width) * self.width
            self.open = OpenStep(begin, begin + self.width, operators)
        return self.open

    def close(self, shape: Shape) -> OpenStep | None:
        """Keep the open step, if there is one; returns it."""
        step, self.open = self.open, None
        if step is not None:
            self.kept.append(step.closed(shape.index, shape.outputs))
        return step


class HistoryFold:
    """Takes committed windows in, in order, and the ages of their records. One thread at a time.

    A step of a longer level is merged of windows, as one of a shorter level is. Memory is bounded: 92 KB for
    each logical operator, `MOST_BYTES` for all. A clock that is set back by more than a step drops what was
    kept of later times.
    """

    def __init__(self) -> None:
        self._levels = [_Level(width, most) for width, most in LEVELS]
        self._shape = Shape(Topology((), ()))
        self._pending: list[tuple[WindowTimes, FoldedWindow, Floats]] = []
        self._last: tuple[int, float] | None = None
        """The last window, and when it was committed."""
        self._places: dict[str, int] = {}
        """Of each operator, the last place of a record at which it has had ages."""

    # Windows in ---------------------------------------------------------------------------------------------

    def add(self, times: WindowTimes, folded: FoldedWindow, counts: Floats, window_seconds: float) -> None:
        """Take a window in, with what it was found to be; one that came before changes nothing.

        `counts`: as `counts_of`.
        """
        if self._last is not None and times.window_id <= self._last[0]:
            return
        now = times.committed
        if folded.topology is not self._shape.topology:
            self._follow(folded.topology)
        shortest = self._levels[0]
        present = shortest.open
        if present is not None and now < present.begin - shortest.width:
            self._set_back(now)
        elif present is not None and now >= present.end:
            self._close(now)
        before = self._last[1] if self._last is not None and self._last[1] <= now else times.began
        self._last = times.window_id, now
        present = shortest.begin(now, len(self._shape.names))
        present.at = max(present.at, now)
        # Time in which no window was due, as while the application is paused, is no part of a step.
        present.seconds += max(0.0, now - max(before, times.due - window_seconds))
        self._pending.append((times, folded, counts))
        if len(self._pending) >= _MOST_PENDING or (
            len(self._pending) * len(self._shape.topology.operators) >= _MOST_FIGURES
        ):
            self._add_up()

    def age(self, operator: str, sample: AgeSample, shift: float) -> None:
        """Take ages of an operator in, all later by `shift` seconds. They belong to the open step.

        Of several places of an operator the last one of a record counts: `publish` for most outputs.
        """
        step, place = self._levels[0].open, _PLACE_NUMBERS.get(sample.place, -1)
        number = self._shape.index.get(operator)
        if step is None or number is None or sample.count < 1 or place < self._places.get(operator, 0):
            return
        self._places[operator] = place
        total = sample.total + shift * sample.count
        step.age(number, Ages(place, sample.count, total, sample.maximum + shift))

    def _follow(self, topology: Topology) -> None:
        """Take a plan in. Steps continue if it has the same operators, with any partitions."""
        self._add_up()
        shape = Shape(topology)
        if shape.names != self._shape.names:
            self._close(math.inf)
            least = len(shape.names) * _OPERATOR_BYTES / MOST_BYTES
            factor = next((one for one in _FACTORS if one >= least), _FACTORS[-1])
            for level, (width, most) in zip(self._levels, LEVELS, strict=True):
                if level.width != width * factor:
                    level.width = width * factor
                    level.kept = deque(level.kept, maxlen=max(1, most // factor))
            self._places = {name: place for name, place in self._places.items() if name in shape.index}
        self._shape = shape

    def _close(self, now: float) -> None:
        """Close the steps that are over."""
        self._add_up()
        self._merge(self._levels[0].close(self._shape))
        for level in self._levels[1:]:
            if level.open is not None and now >= level.open.end:
                level.close(self._shape)

    def _merge(self, step: OpenStep | None) -> None:
        """Add a step that is over to those of the longer levels."""
        if step is None:
            return
        for level in self._levels[1:]:
            level.begin(step.begin, len(self._shape.names)).merge(step)

    def _set_back(self, now: float) -> None:
        """The clock was set back: times that have not come yet are of no use."""
        self._close(math.inf)
        for level in self._levels:
            while level.kept and level.kept[-1].at > now:
                level.kept.pop()

    def _add_up(self) -> None:
        """Add the windows that wait to the open steps."""
        pending, self._pending = self._pending, []
        if not pending:
            return
        shape = self._shape
        present = self._levels[0].begin(pending[-1][0].committed, len(shape.names))
        figures = np.array([folded.figures[:4] for _, folded, _ in pending])
        counts = np.array([counts[: Count.REPORTED] for *_, counts in pending])
        latencies, sums = shape.topology.logical.latencies(figures), shape.topology.logical.sums(counts)
        present.windows += len(pending)
        present.sums[Sum.COMPUTE : Sum.TRANSFER + 1] += np.nansum(latencies[:, 1:], axis=0)
        present.sums[Sum.TUPLES_IN : Sum.STATE + 1] += sums.sum(axis=0)
        present.sums[Sum.WINDOWS] += np.count_nonzero(~np.isnan(latencies[:, 0]), axis=0)
        present.greatest = np.fmax(present.greatest, np.fmax.reduce(latencies[:, 0], axis=0))
        present.queued = np.maximum(present.queued, sums[:, Count.QUEUE].max(axis=0))
        present.entered += float(counts[:, Count.TUPLES_OUT][:, shape.inputs].sum())
        present.left += float(counts[:, Count.TUPLES_IN][:, shape.leaves].sum())
        samples = latencies[:, 0].astype(np.float32)
        by_id, index = shape.topology.by_id, shape.index
        opened = [present, *(level.begin(present.begin, len(shape.names)) for level in self._levels[1:])]
        for row, (times, folded, _) in enumerate(pending):
            whole = times.latency_seconds
            present.longest = max(present.longest, whole)
            present.late += times.late_seconds
            for number in {index[by_id[one].name] for one in folded.path}:
                present.sums[Sum.ON_PATH, number] += 1
            for step in opened:
                step.latencies.add(samples[row])
                step.whole.add(whole)

    # Steps out ----------------------------------------------------------------------------------------------

    def steps(self, begin: float, now: float, least: float | None = None) -> tuple[int, int, list[Step]]:
        """How many seconds a step is, how many seconds of them are kept, and those that end after `begin`.

        `least`: they are at least so long, if there are any that are. By default they are the shortest that
        are kept back to `begin`, or to the first window.
        """
        self._add_up()
        level = self._levels[-1]
        for one in reversed(self._levels):
            most = one.kept.maxlen or 0
            reaches = now - begin <= one.width * most or len(one.kept) < most
            if one.width >= least if least is not None else reaches:
                level = one
        kept = [step for step in level.kept if step.at > begin]
        present = self._present(level)
        if present is not None and present.at > begin:
            kept.append(present)
        return level.width, level.width * (level.kept.maxlen or 0), kept

    def _present(self, level: _Level) -> Step | None:
        """The open step as it is now, with the windows of the shortest level's open step."""
        shape, shortest = self._shape, self._levels[0].open
        if level.open is None or (shortest is None and not level.open.windows):
            return None
        if level is self._levels[0] or shortest is None:
            return level.open.closed(shape.index, shape.outputs)
        return level.open.with_windows_of(shortest).closed(shape.index, shape.outputs)


DEFAULT_SECONDS = 900
"""How far back an answer goes if it is not said."""


def begin_of(begin: float | None, now: float) -> float:
    """A moment in seconds since 1970; below 0 it is so long before `now`."""
    begin = -DEFAULT_SECONDS if begin is None else begin
    return now + begin if begin < 0 else begin


def operator_history(
    fold: HistoryFold, name: str, now: float, begin: float | None = None, step: float | None = None
) -> OperatorHistoryAnswer:
    """The steps that have a logical operator. `begin`, `step`: as in `HistoryFold.steps`."""
    width, kept, steps = fold.steps(begin_of(begin, now), now, step)
    own = [one for one in steps if name in one.index]
    return {
        "operator": name,
        "step": width,
        "keptSeconds": kept,
        "steps": [_operator_step(one, one.index[name]) for one in own],
    }


def application_history(
    fold: HistoryFold, now: float, begin: float | None = None, step: float | None = None
) -> ApplicationHistoryAnswer:
    """The steps of all windows. `begin`, `step`: as in `HistoryFold.steps`."""
    width, kept, steps = fold.steps(begin_of(begin, now), now, step)
    return {"step": width, "keptSeconds": kept, "steps": [_application_step(one) for one in steps]}


def _operator_step(one: Step, column: int) -> OperatorStepAnswer:
    """A step of the operator in a column."""
    found = decode(one.codes[:, column])
    seconds = [as_ms(float(value)) if value == value else None for value in found]  # noqa: PLR0124  NaN
    plain = [float(value) if value == value else None for value in found]  # noqa: PLR0124  NaN
    errors, late = plain[Kept.ERRORS], plain[Kept.LATE]
    return {
        "at": one.at,
        "seconds": one.seconds,
        "windows": one.windows,
        "latencyMs": seconds[Kept.MEDIAN],
        "greatestMs": seconds[Kept.GREATEST],
        "computeMs": seconds[Kept.COMPUTE],
        "waitMs": seconds[Kept.WAIT],
        "transferMs": seconds[Kept.TRANSFER],
        "tuplesIn": plain[Kept.TUPLES_IN],
        "tuplesOut": plain[Kept.TUPLES_OUT],
        "queue": plain[Kept.QUEUE],
        "greatestQueue": plain[Kept.MOST_QUEUED],
        "errors": None if errors is None else round(errors),
        "late": None if late is None else round(late),
        "stateBytes": plain[Kept.STATE],
        "onPath": plain[Kept.ON_PATH],
        "ageMs": seconds[Kept.AGE],
        "greatestAgeMs": seconds[Kept.GREATEST_AGE],
    }


def _application_step(one: Step) -> ApplicationStepAnswer:
    """A step of all windows."""
    whole = one.whole
    return {
        "at": one.at,
        "seconds": one.seconds,
        "windows": one.windows,
        "latencyMs": as_ms(whole.median),
        "p99Ms": as_ms(whole.p99),
        "greatestMs": as_ms(whole.greatest),
        "lateMs": as_ms(whole.late),
        "tuplesIn": whole.tuples_in,
        "tuplesOut": whole.tuples_out,
        "ages": _ages(one),
    }


def _ages(one: Step) -> list[OutputAgesAnswer]:
    """The outputs of a step that had ages."""
    columns = [one.index[name] for name in one.outputs]
    found = decode(one.codes[Kept.AGE : Kept.GREATEST_AGE + 1, columns]) if columns else np.empty((2, 0))
    return [
        {"operator": name, "ageMs": as_ms(float(mean)), "greatestAgeMs": as_ms(float(greatest))}
        for name, mean, greatest in zip(one.outputs, *found, strict=True)
        if not math.isnan(mean)
    ]
