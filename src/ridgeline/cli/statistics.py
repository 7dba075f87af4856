"""What the command tells of a run: a fold over its events. No I/O, no clock of its own."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from ridgeline.api.clock import Clock
from ridgeline.measure.events import ContainerWindow, Event, OperatorWindow, SourceProgress, WindowCommitted, WindowRetried
from ridgeline.plan.execution import Plan
from ridgeline.plan.physical import PhysicalOperator

_RATE_SECONDS = 10.0
_WINDOWS_KEPT = 100_000
_ERRORS_SHOWN = 10
_DROPS_SHOWN = 5
_INSIDE = ("restore", "run", "write")
_SPARK = "Spark"
_OUTSIDE = ("stage", "commit", "publish")


@dataclass(slots=True)
class OperatorTotals:
    """One row: a logical operator, or its unifiers. Tuples are summed over partitions, seconds are those of the slowest partition."""

    title: str
    partitions: int
    tuples_in: int = 0
    tuples_out: int = 0
    seconds: float = 0.0
    errors: int = 0
    windows: int = 0
    windows_dropped: int = 0
    last_in: int = 0
    last_out: int = 0
    last_seconds: float = 0.0

    def add(self, reports: Sequence[OperatorWindow]) -> None:
        """Take in what its partitions did in one window."""
        self.last_in = sum(sum(report.tuples_in.values()) for report in reports)
        self.last_out = sum(sum(report.tuples_out.values()) for report in reports)
        self.last_seconds = max((report.compute_seconds for report in reports), default=0.0)
        self.windows += 1
        self.tuples_in += self.last_in
        self.tuples_out += self.last_out
        self.seconds += self.last_seconds
        self.errors += sum(report.errors for report in reports)
        self.windows_dropped += any(report.dropped for report in reports)


@dataclass(slots=True)
class Window:
    """What is told of one window: `tuples_in` by input operators, `tuples_out` into operators without outputs."""

    window_id: int
    tuples_in: int
    tuples_out: int
    seconds: float


@dataclass(slots=True)
class Phases:
    """Where the time of windows went, in sums of seconds; what is inside of containers is of the slowest container of each stage."""

    windows: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys((*_INSIDE, _SPARK, *_OUTSIDE), 0.0))

    def add(self, window: WindowCommitted, containers: Sequence[ContainerWindow], stages: Sequence[frozenset[int]]) -> None:
        """Take in a window. What its attempts took beside the containers is Spark's."""
        self.windows += 1
        self.seconds[_SPARK] += window.returned - window.began
        for stage in stages:
            slowest = max((ran for ran in containers if ran.container in stage), key=_container_seconds, default=None)
            if slowest is not None:
                inside = (slowest.restored - slowest.began, slowest.ran - slowest.restored, slowest.written - slowest.ran)
                for name, value in zip(_INSIDE, inside, strict=True):
                    self.seconds[name] += value
                    self.seconds[_SPARK] -= value
        outside = (window.staged - window.returned, window.committed - window.staged, window.published - window.committed)
        for name, value in zip(_OUTSIDE, outside, strict=True):
            self.seconds[name] += value


def _container_seconds(container: ContainerWindow) -> float:
    return container.written - container.began


@dataclass
class RunStatistics:
    """All that is shown while a run goes on and at its end. `apply` is called by the thread of the windows, the rest by any."""

    plan: Plan
    clock: Clock
    lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.rows: dict[tuple[str, str | None], OperatorTotals] = {}
        self._row_of: dict[int, OperatorTotals] = {}
        for operator in self.plan.physical.operators:
            key = (operator.name, operator.port if operator.unifier else None)
            if key not in self.rows:
                self.rows[key] = OperatorTotals(_title(operator), 0)
            self.rows[key].partitions += 1
            self._row_of[operator.id] = self.rows[key]
        sources = {stream.source.operator for stream in self.plan.logical.streams}
        self._inputs = [logical.name for logical in self.plan.logical.operators if logical.is_input]
        self._instances = {
            name: [op.id for op in self.plan.physical.operators if op.name == name and not op.unifier] for name in self._inputs
        }
        self._leaves = [logical.name for logical in self.plan.logical.operators if logical.name not in sources]
        self._stages = [frozenset(container.id for container in stage.containers) for stage in self.plan.execution.stages]
        self.windows = 0
        self.retries = 0
        self.last: Window | None = None
        self.first_seconds = 0.0
        self.seconds: deque[float] = deque(maxlen=_WINDOWS_KEPT)
        self.phases = Phases()
        self.error_tuples: deque[tuple[str, int, str]] = deque(maxlen=_ERRORS_SHOWN)
        self.drops: deque[str] = deque(maxlen=_DROPS_SHOWN)
        self.started = self.committed = self.clock.monotonic()
        self._operators: list[OperatorWindow] = []
        self._containers: list[ContainerWindow] = []
        self._recent: deque[tuple[float, int]] = deque()
        self._progress: dict[int, tuple[float, float | None]] = {}
        self._first_fraction: tuple[float, float] | None = None

    def apply(self, event: Event) -> None:
        """Take in an event."""
        with self.lock:
            match event:
                case OperatorWindow():
                    self._operators.append(event)
                case ContainerWindow():
                    self._containers.append(event)
                case SourceProgress():
                    self._progress[event.operator] = (event.consumed or 0.0, event.remaining)
                case WindowRetried(final=False):
                    self.retries += 1
                case WindowCommitted():
                    self._window(event)
                case _:
                    pass

    def _window(self, event: WindowCommitted) -> None:
        by_row: dict[int, list[OperatorWindow]] = {}
        for operator in self._operators:
            row = self._row_of[operator.operator]
            by_row.setdefault(id(row), []).append(operator)
            self._note(row, operator)
        for row in self.rows.values():
            row.add(by_row.get(id(row), ()))
        tuples_in = sum(self.rows[name, None].last_out for name in self._inputs)
        tuples_out = sum(self.rows[name, None].last_in for name in self._leaves)
        seconds = event.published - event.began
        self.last = Window(event.window_id, tuples_in, tuples_out, seconds)
        self.windows += 1
        if self.windows == 1:
            self.first_seconds = seconds
        else:  # the first one waits for workers to start: it is told apart
            self.seconds.append(seconds)
            self.phases.add(event, self._containers, self._stages)
        self._operators.clear()
        self._containers.clear()
        self.committed = self.clock.monotonic()
        self._recent.append((self.committed, tuples_in))
        while self._recent[0][0] < self.committed - _RATE_SECONDS:
            self._recent.popleft()
        fraction = self.fraction
        if fraction is not None and self._first_fraction is None:
            self._first_fraction = (self.committed, fraction)

    def _note(self, row: OperatorTotals, operator: OperatorWindow) -> None:
        self.error_tuples.extend((row.title, operator.window_id, text) for text in operator.error_tuples)
        if operator.dropped:
            self.drops.append(operator.dropped)
        if operator.finished and operator.operator in self._progress:
            self._progress[operator.operator] = (self._progress[operator.operator][0], 0.0)

    @property
    def tuples_per_second(self) -> float:
        """Tuples that the inputs gave, over the last ten seconds of windows."""
        if len(self._recent) < 2:  # noqa: PLR2004  a rate needs two points
            return 0.0
        span = self._recent[-1][0] - self._recent[0][0]
        return sum(tuples for _, tuples in list(self._recent)[1:]) / span if span > 0 else 0.0

    @property
    def fraction(self) -> float | None:
        """How much of its work the input that is farthest behind has done; None unless all inputs know what remains."""
        fractions = []
        for ids in self._instances.values():
            done = remaining = 0.0
            for progress in map(self._progress.get, ids):
                if progress is None or progress[1] is None or progress[1] < 0:
                    return None
                done += progress[0]
                remaining += progress[1]
            fractions.append(done / (done + remaining) if done + remaining > 0 else 1.0)
        return min(fractions, default=None)

    @property
    def remaining_seconds(self) -> float | None:
        """When the inputs will be at their end if it goes on like this; None if nobody can say."""
        fraction = self.fraction
        if fraction is None or self._first_fraction is None:
            return None
        since, first = self._first_fraction
        gained = fraction - first
        return (self.committed - since) * (1 - fraction) / gained if gained > 0 else None


def _title(operator: PhysicalOperator) -> str:
    return f"{operator.name}.{operator.port}#unifier" if operator.unifier else operator.name
