"""Windows in flight: the phases of each, the legal transitions between them, and what has been reported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from ridgeline.api.enumerator import OffsetRange
from ridgeline.api.errors import Failure
from ridgeline.plan.protocol import Budget, OperatorReport, WindowReport


class WindowPhase(Enum):
    """Where a window stands between `WindowDue` and its commit."""

    DUE = "due"
    """No attempt has begun."""
    RUNNING = "running"
    """An attempt runs; not all containers have reported it."""
    COMPLETE = "complete"
    """All containers have reported the attempt, and it may be committed once the windows before are."""
    HELD = "held"
    """It is complete and empty: its commit is that of a later window, unless `CommitDue` comes before."""
    VOID = "void"
    """No attempt so far counts, and the next one has not begun."""
    COMMITTING = "committing"
    """Its commit has begun: nothing that fails from now on makes it void."""
    COMMITTED = "committed"
    """It is durable, and in flight no more."""


TRANSITIONS: Mapping[WindowPhase, frozenset[WindowPhase]] = {
    WindowPhase.DUE: frozenset({WindowPhase.RUNNING}),
    WindowPhase.RUNNING: frozenset({WindowPhase.COMPLETE, WindowPhase.VOID}),
    WindowPhase.COMPLETE: frozenset({WindowPhase.HELD, WindowPhase.COMMITTING, WindowPhase.VOID}),
    WindowPhase.HELD: frozenset({WindowPhase.COMPLETE, WindowPhase.COMMITTING, WindowPhase.VOID}),
    WindowPhase.VOID: frozenset({WindowPhase.RUNNING}),
    WindowPhase.COMMITTING: frozenset({WindowPhase.COMMITTED}),
    WindowPhase.COMMITTED: frozenset(),
}
"""The phases that may follow each phase."""
_VALID = frozenset({WindowPhase.RUNNING, WindowPhase.COMPLETE, WindowPhase.HELD})


class IllegalTransitionError(RuntimeError):
    """A fault of STRAM itself: a window, or a slot, was to enter a phase that cannot follow its own."""

    def __init__(self, what: str, phase: Enum, following: Enum, event: str) -> None:
        super().__init__(f"{what} cannot go from {phase.name} to {following.name}: {event}")


@dataclass(slots=True)
class InFlightWindow:
    """A window in flight, and its last attempt. Only its methods change its `phase`.

    `time`, `offsets`, `budgets`: when it was due, what inputs read and how much they may, the same for all
    attempts. `taken`: how much those read that say so, in the unit of their budgets. `attempt`: the last
    one begun, -1 before the first. `carries_states`: the request of that attempt named the states. `final`:
    the window is to run as the last. `reason`: why the attempt before is void. `reports`: those of the
    attempt so far, by container. `finished`: the inputs that finish in it. `delays`: a delay operator has
    tuples for the next window. `empty`: nothing has moved as far as has been reported. `failures`: how often
    it has failed by what is not the cluster's fault, the last time by `failure`.
    """

    window_id: int
    time: int = 0
    attempt: int = -1
    phase: WindowPhase = WindowPhase.DUE
    carries_states: bool = False
    final: bool = False
    reason: str = ""
    reports: dict[int, WindowReport] = field(default_factory=dict)
    finished: set[int] = field(default_factory=set)
    delays: bool = False
    empty: bool = True
    offsets: Mapping[str, OffsetRange] = field(default_factory=dict)
    taken: Mapping[str, float] = field(default_factory=dict)
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    failures: int = 0
    failure: Failure | None = None

    def begin(self, *, carries_states: bool) -> None:
        """The next attempt begins."""
        self._enter(WindowPhase.RUNNING, f"attempt {self.attempt + 1} begins")
        self.attempt += 1
        self.carries_states = carries_states

    def add(self, report: WindowReport, containers: int) -> None:
        """Take in the report of a container. The window is complete with the last of the `containers`."""
        container = report.window.container
        self.reports[container] = report
        self.finished.update(one.window.operator for one in report.operators if one.window.finished)
        self.delays = self.delays or any(one.delays for one in report.operators)
        self.empty = self.empty and is_empty(report)
        if len(self.reports) == containers:
            self._enter(
                WindowPhase.COMPLETE, f"container {container} reports attempt {report.window.attempt}"
            )

    def hold(self) -> None:
        """The window waits for the commit of a later one."""
        self._enter(WindowPhase.HELD, "an empty window is held")

    def release(self) -> None:
        """The window waits for no later one any more."""
        self._enter(WindowPhase.COMPLETE, "a held window is released")

    def void(self, reason: str) -> None:
        """The attempt does not count, and its reports are dropped."""
        self._enter(WindowPhase.VOID, f"attempt {self.attempt} is void, {reason or 'it runs as the last'}")
        self.reason, self.empty, self.delays = reason, True, False
        self.reports.clear()
        self.finished.clear()

    def commit(self) -> None:
        """The commit of the window begins."""
        self._enter(WindowPhase.COMMITTING, "its commit begins")

    def committed(self) -> None:
        """The manifest with the window is written."""
        self._enter(WindowPhase.COMMITTED, "its manifest is written")

    def _enter(self, following: WindowPhase, event: str) -> None:
        """Raises IllegalTransitionError if the phase cannot follow."""
        if following not in TRANSITIONS[self.phase]:
            raise IllegalTransitionError(f"window {self.window_id}", self.phase, following, event)
        self.phase = following

    @property
    def valid(self) -> bool:
        """True if the last attempt counts, and its commit has not begun."""
        return self.phase in _VALID

    @property
    def complete(self) -> bool:
        """True if all containers have reported the attempt, and its commit has not begun."""
        return self.phase is WindowPhase.COMPLETE or self.phase is WindowPhase.HELD


class InFlightWindows:
    """The windows from `WindowDue` until they are committed, in order. Those being committed come first."""

    def __init__(self) -> None:
        self._windows: dict[int, InFlightWindow] = {}

    def __len__(self) -> int:
        return len(self._windows)

    def __iter__(self) -> Iterator[InFlightWindow]:
        """Those whose commit has not begun, the oldest first."""
        return (one for one in self._windows.values() if one.phase is not WindowPhase.COMMITTING)

    def __getitem__(self, window_id: int) -> InFlightWindow:
        return self._windows[window_id]

    def get(self, window_id: int) -> InFlightWindow | None:
        """A window whose commit has not begun, None if there is no such one."""
        window = self._windows.get(window_id)
        return None if window is None or window.phase is WindowPhase.COMMITTING else window

    def add(self, window: InFlightWindow) -> None:
        """Add the next window."""
        self._windows[window.window_id] = window

    @property
    def oldest(self) -> InFlightWindow | None:
        """The oldest one whose commit has not begun."""
        return next(iter(self), None)

    @property
    def held(self) -> int:
        """How many are held: the oldest ones."""
        return sum(one.phase is WindowPhase.HELD for one in self._windows.values())

    @property
    def running(self) -> list[InFlightWindow]:
        """Those with an attempt that counts, of which reports are missing."""
        return [one for one in self._windows.values() if one.phase is WindowPhase.RUNNING]

    @property
    def waiting(self) -> list[InFlightWindow]:
        """Those whose next attempt has not begun."""
        return [one for one in self if not one.valid]

    @property
    def incomplete(self) -> list[int]:
        """The numbers of those that have no attempt that all containers have reported."""
        return [one.window_id for one in self if not one.complete]

    @property
    def all(self) -> tuple[InFlightWindow, ...]:
        """All of them, the oldest first, also those whose commit has begun."""
        return tuple(self._windows.values())

    @property
    def attempts(self) -> dict[int, int]:
        """The last attempts, by window."""
        return {one.window_id: one.attempt for one in self._windows.values()}

    def void(self, first: int, reason: str) -> None:
        """Let no attempt count at the window `first` and later ones; those before are held no more."""
        for window in self:
            if window.window_id >= first and window.valid:
                window.void(reason)
            elif window.phase is WindowPhase.HELD:
                window.release()

    def committed(self) -> None:
        """Remove those whose commit has begun: it has ended."""
        for window in [one for one in self._windows.values() if one.phase is WindowPhase.COMMITTING]:
            window.committed()
            del self._windows[window.window_id]

    def drop(self) -> None:
        """Remove those whose commit has not begun: they count for nothing."""
        for window in list(self):
            del self._windows[window.window_id]


def is_empty(report: WindowReport) -> bool:
    """True if no tuple has moved, no state has changed, and nothing else has to be durable."""
    return report.small_change is None and not any(map(_has_moved, report.operators))


def _has_moved(report: OperatorReport) -> bool:
    window = report.window
    return bool(
        report.change
        or report.handed_over
        or window.finished
        or window.dropped
        or window.errors
        or any(window.tuples_in.values())
        or any(window.tuples_out.values())
    )


class IdleInputs:
    """The inputs that wait for their tuples, as far as they have reported."""

    def __init__(self, *, tracked: bool) -> None:
        """`tracked`: an input of the plan may say that it is idle; else reports are not looked at."""
        self._tracked = tracked
        self._idle: set[int] = set()
        self.delays = False
        """Whether delay operators have tuples for the next window, as far as is known."""

    def report(self, report: WindowReport) -> None:
        """Take in which operators of a container had no tuples in the last window that they reported."""
        if self._tracked:
            for one in report.operators:
                if one.idle:
                    self._idle.add(one.window.operator)
                else:
                    self._idle.discard(one.window.operator)

    def wake(self) -> None:
        """Inputs may have tuples from now on."""
        self._idle.clear()

    def all_of(self, inputs: frozenset[int]) -> bool:
        """True if all these inputs wait for their tuples, and nothing else has any for the next window."""
        return bool(self._idle) and self._idle >= inputs and not self.delays
