"""Which promises are kept, by committed windows and by the time that passes without any."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ridgeline.api.policy import Promise
from ridgeline.measure.deciding.figures import PromiseState


@dataclass(frozen=True, slots=True)
class Observation:
    """The figures of one committed window that promises need, without operators that the plan lacks."""

    window_latency: float
    latency: Mapping[str, float] = field(default_factory=dict)
    tuples: Mapping[str, int] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)
    late: Mapping[str, int] = field(default_factory=dict)
    caught_up_in: float | None = None


class Keeping:
    """The promises of an application, judged at each commit, and by `tick` while nothing is committed.

    Periods are measured by a monotonic clock that stands still while the application pauses, and when it
    is set back. `since` is of the wall clock. A promise that nothing speaks for or against is None.
    """

    def __init__(self, promises: Sequence[Promise]) -> None:
        """Refuse two promises of one name: their metrics would be one."""
        names = [promise.name for promise in promises]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"the promise `{name}` is given {names.count(name)} times: keep one of them")
        self._kept = [_Kept(promise) for promise in promises]
        self._active = 0.0
        self._last: float | None = None

    def on_window(self, seen: Observation, *, at: float, wall: float) -> list[PromiseState]:
        """Judge after a commit at `at` (monotonic) and `wall`; the promises that changed."""
        self._advance(at, paused=False)
        for one in self._kept:
            one.take(seen, self._active)
        return self._judge(0.0, wall)

    def tick(
        self, *, at: float, wall: float, overdue: float = 0.0, paused: bool = False
    ) -> list[PromiseState]:
        """Judge without a commit: the window under way has been waiting for `overdue` seconds."""
        self._advance(at, paused=paused)
        return [] if paused else self._judge(overdue, wall)

    def look(self, caught_up_in: float | None) -> None:
        """How long it takes to catch up as of now: a figure of the last commit would be an old one."""
        for one in self._kept:
            one.look(caught_up_in)

    @property
    def states(self) -> list[PromiseState]:
        """All promises as they were judged last, in the order in which they were given."""
        return [one.state for one in self._kept]

    def _advance(self, at: float, *, paused: bool) -> None:
        if self._last is not None and not paused:
            self._active += max(0.0, at - self._last)
        self._last = at

    def _judge(self, overdue: float, wall: float) -> list[PromiseState]:
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
        self.state = self._state(None, None, None)

    def take(self, seen: Observation, at: float) -> None:
        """Take a window. An operator that is gone loses its past: another of its name begins without one."""
        kind, operator = self.promise.kind, self.promise.operator
        if kind == "caught_up_within":
            self._newest = seen.caught_up_in
            return
        of = count = 0
        if kind in ("latency", "window_latency"):
            value = seen.window_latency if kind == "window_latency" else seen.latency.get(operator)
            gone = value is None
            if value is not None:
                self._newest, of, count = value, 1, int(value > self.promise.limit)
        else:
            gone = operator not in seen.tuples
            of = seen.tuples.get(operator, 0)
            count = (seen.late if kind == "late_share" else seen.errors).get(operator, 0)
        if gone:
            self._windows.clear()
            self._of = self._count = 0
            self._began = self._newest = None
            return
        if self._began is None:
            self._began = at
            if kind == "throughput":
                return  # its tuples came before the period that begins now
        self._windows.append((at, of, count))
        self._of += of
        self._count += count

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
        self.state = self._state(kept, wall if changed else self.state.since, figure)
        return changed

    def _verdict(self, at: float, overdue: float) -> tuple[bool | None, float | None]:
        """Whether it is kept, with the figure; None where nothing speaks for or against it."""
        promise = self.promise
        if promise.kind == "caught_up_within":
            return (None if self._newest is None else self._newest <= promise.limit), self._newest
        if promise.kind == "throughput":
            if self._began is None or at - self._began < promise.over:
                return None, None
            rate = self._of / promise.over
            return rate >= promise.limit, rate
        if promise.kind in ("error_share", "late_share"):
            share = self._count / self._of if self._of else None
            return (None if share is None else share <= promise.limit), share
        if promise.kind == "window_latency" and self._began is not None and overdue > promise.limit:
            return False, overdue
        allowed = self._of * (100 - promise.percent) // 100
        return (self._count <= allowed if self._of else None), self._newest

    def _state(self, kept: bool | None, since: float | None, figure: float | None) -> PromiseState:  # noqa: FBT001
        promise = self.promise
        return PromiseState(
            promise.name, promise.kind, promise.operator, kept, since, figure, promise.limit, promise.unit
        )
