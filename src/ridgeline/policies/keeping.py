"""Which promises are kept, by committed windows and by the time that passes without any."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ridgeline.api.policy import Promise
from ridgeline.measure.age.histogram import Integers, Seconds
from ridgeline.measure.events import PromiseChanged

_PARTS = 1_000
_WHOLE_SECONDS = 900.0
"""Periods up to this go window by window; of a longer one windows are joined that are in one of its parts."""


@dataclass(slots=True)
class Observation:
    """The figures of one committed window that promises need, without operators that the plan lacks."""

    window_latency: float = 0.0
    latency: Mapping[str, float] = field(default_factory=dict)
    tuples: dict[str, int] = field(default_factory=Counter)
    errors: dict[str, int] = field(default_factory=Counter)
    late: dict[str, int] = field(default_factory=Counter)
    ages: Mapping[str, tuple[Seconds, Integers]] = field(default_factory=dict)
    """Ages of records in seconds, and how many records each is of."""
    entered: int = 0
    lost: int = 0


class Keeping:
    """The promises of an application, judged at each commit, and by `tick` while nothing is committed.

    Periods are measured by a monotonic clock that stands still while the application pauses, and when it
    is set back. Verdicts have the time of the wall clock. A promise that nothing speaks for or against is
    None.
    """

    def __init__(self, promises: Sequence[Promise]) -> None:
        self._kept = [_Kept(promise) for promise in promises]
        self._active = 0.0
        self._last: float | None = None

    def on_window(self, seen: Observation, *, at: float, wall: float) -> list[PromiseChanged]:
        """Judge after a commit at `at` (monotonic) and `wall`; the promises that changed."""
        self._advance(at, paused=False)
        for one in self._kept:
            one.take(seen, self._active)
        return self._judge(0.0, wall)

    def tick(
        self, *, at: float, wall: float, overdue: float = 0.0, paused: bool = False
    ) -> list[PromiseChanged]:
        """Judge without a commit: the window under way has been waiting for `overdue` seconds."""
        self._advance(at, paused=paused)
        return [] if paused else self._judge(overdue, wall)

    def look(self, caught_up_in: float | None) -> None:
        """How long it takes to catch up as of now: a figure of the last commit would be an old one."""
        for one in self._kept:
            one.look(caught_up_in)

    @property
    def states(self) -> list[PromiseChanged]:
        """All promises as they were judged last, in the order in which they were given."""
        return [one.state for one in self._kept]

    def _advance(self, at: float, *, paused: bool) -> None:
        if self._last is not None and not paused:
            self._active += max(0.0, at - self._last)
        self._last = at

    def _judge(self, overdue: float, wall: float) -> list[PromiseChanged]:
        return [one.state for one in self._kept if one.judge(self._active, overdue, wall)]


class _Kept:
    """One promise with what counts for it: (time, of how many, how many) for each window of its period."""

    def __init__(self, promise: Promise) -> None:
        self.promise = promise
        self._windows: deque[tuple[float, int, int]] = deque()
        self._of = 0
        self._count = 0
        self._began: float | None = None
        self._newest: float | None = None
        names = promise.name, promise.kind, promise.operator
        self.state = PromiseChanged(0.0, *names, None, None, promise.limit, promise.unit)

    def take(self, seen: Observation, at: float) -> None:
        """Take a window. An operator that is gone loses its past: another of its name begins without one."""
        kind = self.promise.kind
        if kind == "caught_up_within":
            return
        if (counted := self._counted(seen)) is None:
            self._windows.clear()
            self._of = self._count = 0
            self._began = self._newest = None
        else:
            first = self._began is None
            self._began = at if self._began is None else self._began
            if not (first and kind == "throughput"):  # its tuples came before the period that begins now
                self._add(at, *counted)

    def _counted(self, seen: Observation) -> tuple[int, int] | None:
        """Of how many windows, tuples or records a window has some, and how many of them are wrong.

        None: the operator is gone.
        """
        promise, operator = self.promise, self.promise.operator
        if promise.kind in {"latency", "window_latency"}:
            value = seen.latency.get(operator) if promise.kind == "latency" else seen.window_latency
            self._newest = value
            return None if value is None else (1, int(value > promise.limit))
        if promise.kind == "loss":
            return seen.entered, seen.lost
        if operator not in seen.tuples:
            return None
        if promise.kind == "record_age":
            return self._ages(*seen.ages[operator]) if operator in seen.ages else (0, 0)
        wrong = seen.late if promise.kind == "late_share" else seen.errors
        return seen.tuples[operator], wrong.get(operator, 0)

    def _add(self, at: float, of: int, count: int) -> None:
        width = self.promise.over / _PARTS if self.promise.over > _WHOLE_SECONDS else 0.0
        if self._windows and at - self._windows[-1][0] < width:
            begins, before, wrong = self._windows.pop()
            self._windows.append((begins, before + of, wrong + count))
        else:
            self._windows.append((at, of, count))
        self._of += of
        self._count += count

    def _ages(self, seconds: Seconds, counts: Integers) -> tuple[int, int]:
        """How many records there are, and how many are too old; the newest figure is their quantile."""
        order = np.argsort(seconds)
        reached = np.cumsum(counts[order])
        rank = -(-int(reached[-1]) * self.promise.percent // 100)
        self._newest = float(seconds[order][np.searchsorted(reached, rank)])
        return int(reached[-1]), int(counts[seconds > self.promise.limit].sum())

    def look(self, caught_up_in: float | None) -> None:
        """Take what is known now, if the promise is of that."""
        if self.promise.kind == "caught_up_within":
            self._newest = caught_up_in

    def judge(self, at: float, overdue: float, wall: float) -> bool:
        """Judge at a time; True if it is another verdict than before."""
        while self._windows and self._windows[0][0] <= at - self.promise.over:
            _, of, count = self._windows.popleft()
            self._of -= of
            self._count -= count
        kept, figure = self._verdict(at, overdue)
        changed = kept is not self.state.kept
        figure = figure if figure is None or math.isfinite(figure) else None
        self.state = replace(self.state, at=wall if changed else self.state.at, kept=kept, figure=figure)
        return changed

    def _verdict(self, at: float, overdue: float) -> tuple[bool | None, float | None]:
        """Whether it is kept, with the figure; None where nothing speaks for or against it."""
        promise, of, figure = self.promise, self._of, self._newest
        kept: bool | None
        match promise.kind:
            case "caught_up_within":
                kept = None if figure is None else figure <= promise.limit
            case "throughput":
                whole = self._began is not None and at - self._began >= promise.over
                figure = of / promise.over if whole else None
                kept = None if figure is None else figure >= promise.limit
            case "error_share" | "late_share" | "loss":
                figure = self._count / of if of else None
                kept = None if figure is None else figure <= promise.limit
            case "window_latency" | "record_age" if self._began is not None and overdue > promise.limit:
                kept, figure = False, overdue
            case _:
                kept = self._count <= of * (100 - promise.percent) // 100 if of else None
        return kept, figure
