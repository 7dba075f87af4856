"""The fold behind the history: windows in steps of a second, of ten and of a minute, for a day."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from typing import cast

from ridgeline.api.support.duration import as_ms
from ridgeline.measure.age.record_age import Ages, place_order
from ridgeline.measure.answers.history import (
    ApplicationHistoryAnswer,
    OperatorHistoryAnswer,
    OperatorStepAnswer,
)
from ridgeline.measure.events import AgeSample
from ridgeline.measure.history.step import (
    Kept,
    OpenStep,
    Slice,
    Step,
)
from ridgeline.measure.latency.folded import FoldedWindows, KeptWindow
from ridgeline.measure.topology import Topology

Aged = tuple[str, AgeSample, float]
"""Ages of an operator, as `HistoryFold.age` takes them."""
LEVELS = ((1, 900), (10, 720), (60, 1440))
"""Seconds of a step, and how many of them are kept: 15 minutes, 2 hours, 24 hours."""
MOST_BYTES = 96_000_000
"""All steps take so much at most. With more operators steps are longer, for the same time."""
_FACTORS = (1, 2, 5, 10, 20, 30, 60)
_OPERATOR_BYTES = 4 * Kept.COUNT * sum(steps for _, steps in LEVELS)
KEPT_SECONDS = 900.0
"""How long metrics are kept for policies and advice."""
_LATELY_SECONDS = 60.0
"""How long they are kept before anybody needs them for longer: they say who is to blame for a backlog."""
_NOTHING = Topology((), ())


class _Level:
    """Steps of one length. `parts`: shorter ones, of which the next one is made."""

    def __init__(self, width: int, most: int) -> None:
        self.width = width
        self.kept: deque[Step] = deque(maxlen=most)
        self.parts: list[OpenStep] = []

    def add(self, parts: Sequence[OpenStep], topology: Topology, now: float) -> Sequence[OpenStep]:
        """Add parts; returns the step that they make with those before, if that is over, and keeps it.

        `topology`: of their windows.
        """
        self.parts += parts
        if not self.parts or now < (self.parts[0].begin // self.width + 1) * self.width:
            return ()
        whole, self.parts = OpenStep.of(self.parts), []
        self.kept.append(whole.closed(topology))
        return (whole,)


class HistoryFold:
    """Takes committed windows in, in order, and the ages of their records. One thread at a time.

    Windows are added up by seconds (`slices`), for metrics over periods. Seconds that are over are added to
    the steps of all levels. Memory is bounded: 184 KB for each logical operator, `MOST_BYTES` for all, and
    `kept_seconds` of slices. A clock that is set back by more than a second drops what was kept of later
    times.
    """

    def __init__(self) -> None:
        self.kept_seconds = _LATELY_SECONDS
        self._levels = [_Level(width, most) for width, most in LEVELS]
        self._topology = _NOTHING
        self._slices: deque[Slice] = deque()
        self._present: Slice | None = None
        """The last of them, until it is added to the steps."""
        self._last: tuple[int, float] | None = None
        """The last window, and when it was committed."""
        self._places: dict[str, int] = {}
        """Of each operator, the last place of a record at which it has had ages."""

    # Windows in ---------------------------------------------------------------------------------------------

    def add(self, folded: FoldedWindows, ages_of: Iterable[Iterable[Aged]], window_seconds: float) -> None:
        """Take windows in, in order; one that came before changes nothing.

        `ages_of`: the ages that came after each.
        """
        present = self._present
        together: list[KeptWindow] = []
        for window, ages in zip(folded.windows, ages_of, strict=True):
            times = window.times
            if self._last is not None and times.commit.window_id <= self._last[0]:
                continue
            now = times.commit.committed
            before = self._last[1] if self._last is not None and self._last[1] <= now else times.commit.began
            self._last = times.commit.window_id, now
            is_of_it = present is not None and present.step.begin - 1 <= now < present.step.end
            if present is None or not is_of_it or present.topology is not window.topology:
                if present is not None and together:
                    present.add(folded, together)
                present, together = self._begin(window.topology, before, now), []
            present.end = max(present.end, now)
            step = present.step
            step.at = max(step.at, now)
            # Time in which no window was due, as while the application is paused, is no part of a step.
            step.seconds += max(0.0, now - max(before, times.due - window_seconds))
            together.append(window)
            for age in ages:
                self.age(*age)
        if present is not None and together:
            present.add(folded, together)

    def _begin(self, topology: Topology, before: float, now: float) -> Slice:
        """The second before is over: a slice for this one."""
        present, self._present = self._present, None
        if present is not None:
            self._close(now, (present.step,))
            if now < present.step.begin - 1:
                self._set_back(now)
        if topology is not self._topology:
            self._follow(topology)
        self._present = Slice.begun(topology, min(before, now), now)
        self._slices.append(self._present)
        while self._slices[0].end < now - self.kept_seconds:
            self._slices.popleft()
        return self._present

    def _close(self, now: float = math.inf, parts: Sequence[OpenStep] = ()) -> None:
        """Keep steps that are over. `parts`: the last second."""
        for level in self._levels:
            parts = level.add(parts, self._topology, now)

    def _set_back(self, now: float) -> None:
        """The clock was set back: times that have not come yet are of no use."""
        while self._slices and self._slices[-1].end > now:
            self._slices.pop()
        self._close()
        for level in self._levels:
            while level.kept and level.kept[-1].whole["at"] > now:
                level.kept.pop()

    def _follow(self, topology: Topology) -> None:
        """Take a plan in. Steps continue if it has the same operators and ends, with any partitions."""
        names, before, after = topology.logical.names, self._topology.logical, topology.logical
        if (names, after.inputs, after.outputs) != (before.names, before.inputs, before.outputs):
            least = len(names) * _OPERATOR_BYTES / MOST_BYTES
            factor = next((one for one in _FACTORS if one >= least), _FACTORS[-1])
            self._close()
            for level, (width, most) in zip(self._levels, LEVELS, strict=True):
                if level.width != width * factor:
                    level.width = width * factor
                    level.kept = deque(level.kept, maxlen=max(1, most // factor))
            self._places = {
                name: place for name, place in self._places.items() if name in topology.logical.index
            }
        self._topology = topology

    def age(self, operator: str, sample: AgeSample, shift: float) -> None:
        """Take ages of an operator in, all later by `shift` seconds. They belong to the open step.

        Of several places of an operator the last one of a record counts: `publish` for most outputs.
        """
        present, place = self._present, place_order(sample.place)
        number = self._topology.logical.index.get(operator)
        if present is None or number is None or sample.count < 1 or place < self._places.get(operator, 0):
            return
        self._places[operator] = place
        present.step.age(number, place, Ages.of(sample, shift, 0))

    # Steps out ----------------------------------------------------------------------------------------------

    def steps(self, begin: float, now: float, least: float | None = None) -> tuple[int, int, list[Step]]:
        """How many seconds a step is, how many seconds of them are kept, and those that end after `begin`.

        `least`: they are at least so long, if there are any that are. By default they are the shortest that
        are kept back to `begin`, or to the first window.
        """
        level = self._levels[-1]
        for one in reversed(self._levels):
            most = one.kept.maxlen or 0
            reaches = now - begin <= one.width * most or len(one.kept) < most
            if one.width >= least if least is not None else reaches:
                level = one
        kept = [step for step in level.kept if step.whole["at"] > begin]
        if self._present is not None:
            shorter = self._levels[self._levels.index(level) :: -1]
            parts = [part for one in shorter for part in one.parts]
            last = OpenStep.of([*parts, self._present.step]).closed(self._topology)
            kept += [last] if last.whole["at"] > begin else []
        return level.width, level.width * (level.kept.maxlen or 0), kept

    def slices(self) -> tuple[Slice, ...]:
        """The windows of the last `kept_seconds` by seconds, the oldest first. None is changed any more."""
        if not self._slices:
            return ()
        *before, last = self._slices
        return (*before, replace(last, step=copy(last.step)))

    @property
    def last(self) -> int | None:
        """The last window that was taken in."""
        return None if self._last is None else self._last[0]


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
    return {"step": width, "keptSeconds": kept, "steps": [one.whole.copy() for one in steps]}


_IN_STEPS = (
    *("latencyMs", "greatestMs", "computeMs", "waitMs", "transferMs", "tuplesIn", "tuplesOut", "queue"),
    *("greatestQueue", "errors", "late", "stateBytes", "onPath", "ageMs", "greatestAgeMs"),
)
"""The names of the rows of `Kept` in answers."""
_COUNTED = {"errors", "late"}


def _operator_step(one: Step, column: int) -> OperatorStepAnswer:
    """A step of the operator in a column."""
    found: dict[str, float | None] = {}
    for name, value in zip(_IN_STEPS, one.kept[:, column].tolist(), strict=True):
        shown = as_ms(value) if name.endswith("Ms") else value
        found[name] = None if math.isnan(value) else round(value) if name in _COUNTED else shown
    whole = one.whole
    times = {"at": whole["at"], "seconds": whole["seconds"], "windows": whole["windows"]}
    return cast("OperatorStepAnswer", {**times, **found})
