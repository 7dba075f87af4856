"""Events that STRAM receives and instructions that it answers, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ridgeline.api.enumerator import OffsetRange
from ridgeline.api.errors import Failure
from ridgeline.plan.protocol import StateVersion, WindowReport, WindowRequest
from ridgeline.stram.compaction import Compacted, CompactionFailed, CompactionInstruction, Repaired

# Events -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The first window of the run is about to be due."""


@dataclass(frozen=True, slots=True)
class WindowDue:
    """The trigger has fired; `time`: when, in microseconds since 1970. `offsets`: what inputs read in it.

    `taken`: how much of their budgets those take that say so.
    """

    window_id: int
    time: int = 0
    offsets: Mapping[str, OffsetRange] = field(default_factory=dict)
    taken: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ContainerReported:
    """A container has run its part of an attempt. `report.window.received` is set."""

    report: WindowReport


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """An attempt at a window has failed. `failure` names the operator if it was one's fault.

    If a callback has `raised` it, other containers continue with the windows before. Else all windows that
    are under way are void.
    """

    window_id: int
    attempt: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class ContainersMoved:
    """Containers live in another slot from now on, without their states. `reason`: why.

    All windows that are under way are void, and nothing has failed.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class InputAwake:
    """Inputs that had nothing to emit, as the last reports say, have something now."""


@dataclass(frozen=True, slots=True)
class StatesChecked:
    """All state files have been checked, and every `Repaired` has been reported."""


@dataclass(frozen=True, slots=True)
class ManifestWritten:
    """The windows up to this one are durable. `names`: changes of state that have other names since."""

    window_id: int
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WindowPublished:
    """The outputs have published the window, and all before it.

    `seconds`: so long they took for what it has handed over; 0 if that is nothing.
    """

    window_id: int
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CommitDue:
    """Windows that wait for their commit, since nothing moved in them, are to be committed now."""


ExecutorEvent = ContainerReported | AttemptFailed | ContainersMoved | InputAwake
"""The report of a container."""
ControlEvent = (
    RunStarted
    | WindowDue
    | ExecutorEvent
    | Repaired
    | StatesChecked
    | ManifestWritten
    | WindowPublished
    | CommitDue
    | Compacted
    | CompactionFailed
)

# Instructions -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunWindow:
    """Begin an attempt at a window on all containers. `reason`: of a failed attempt before, if any."""

    request: WindowRequest
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CheckStates:
    """Read the files of all states, and replace those that are broken where others hold the same."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit one window, or several that follow each other: all of them or none.

    `reports`: of each window, in order. `states`: those that are others than as of the commit before.
    `finished`: as of the last of them. `ends`: the last one is the application's last. `held`: so many, the
    first ones, were complete before, but empty.
    """

    reports: Mapping[int, tuple[WindowReport, ...]]
    states: Mapping[int, StateVersion]
    finished: frozenset[int]
    ends: bool
    held: int = 0

    @property
    def window_id(self) -> int:
        """The last of the windows."""
        return max(self.reports)


@dataclass(frozen=True, slots=True)
class Publish:
    """The window is committed, with those `before` it: let the outputs publish them."""

    window_id: int
    before: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The application has failed: nothing of the window counts."""

    failure: Failure
    attempts: int


Instruction = RunWindow | CheckStates | Commit | Publish | GiveUp | CompactionInstruction
