"""STRAM's decisions about windows: events in, instructions out. No Spark, no files, no clock, no threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from ridgeline.api.attributes import OnError
from ridgeline.api.errors import Failure
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import StateVersion, WindowReport, WindowRequest
from ridgeline.stram.budget import Budgets
from ridgeline.stram.compaction import Compacted, CompactionFailed, Repaired, StateSize, StateVersions
from ridgeline.stram.control import (
    AttemptFailed,
    CheckStates,
    Commit,
    CommitDue,
    ContainerReported,
    ContainersMoved,
    ControlEvent,
    GiveUp,
    InputAwake,
    Instruction,
    ManifestWritten,
    Publish,
    RunStarted,
    RunWindow,
    StatesChecked,
    WindowDue,
    WindowPublished,
)
from ridgeline.stram.plan_traits import PlanTraits
from ridgeline.stram.windows import IdleInputs, InFlightWindow, InFlightWindows, WindowPhase

# Failures of windows: how many STRAM accepts, and how careful it is afterwards.

_CAREFUL_WINDOWS = 16
"""Windows that run one at a time after a tuple or a window was left out: more may be left out there."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A failure that waits until the windows before `first` are committed.

    `window`: the one that it is counted for. `counts`: false if a container only needs the committed states
    to continue. `checked`: the files of states have been checked.
    """

    window: InFlightWindow
    first: int
    failure: Failure
    counts: bool = True
    checked: bool = False


class Recovery:
    """The failure that is being handled, and which windows take care after it."""

    def __init__(self, attributes: Mapping[str, Mapping[str, Any]]) -> None:
        """`attributes`: of operators, by logical name and by physical title."""
        self._attributes = attributes
        self.fault: Fault | None = None
        self.alone_until = -1
        """Windows up to this one run one at a time."""
        self.states_until = -1
        """The requests of windows up to this one carry states, in case an operator takes its state back."""

    def run_alone(self, window_id: int) -> None:
        """Let windows up to this one run one at a time."""
        self.alone_until = max(self.alone_until, window_id)

    def widen(self, first: int) -> None:
        """The windows from `first` on are void, too: the failure waits for those before only."""
        if self.fault is not None:
            self.fault = replace(self.fault, first=min(first, self.fault.first))

    def needs_check(self) -> bool:
        """True, once, if a state could not be read: the files of states are to be checked before."""
        assert self.fault is not None  # noqa: S101  the caller has looked
        if self.fault.checked or self.fault.failure.callback != "state":
            return False
        self.fault = replace(self.fault, checked=True)
        return True

    def end(self) -> tuple[Failure, int] | None:
        """Count the failure: None to begin again; else what to give up with, and how often it failed."""
        fault, self.fault = self.fault, None
        assert fault is not None  # noqa: S101  the caller has looked
        if not fault.counts:
            self.alone_until = self.states_until = fault.window.window_id + _CAREFUL_WINDOWS
            return None
        if self.count(fault.window, fault.failure):
            return fault.failure, fault.window.failures
        self.run_alone(fault.window.window_id)
        return None

    def count(self, window: InFlightWindow, failure: Failure) -> bool:
        """Count a failure of a window; True if it has had too many.

        They are beyond `recovery_attempts` of the operator, or if one tuple failed twice alike. What is the
        cluster's fault counts for nothing.
        """
        if failure.cluster:
            return False
        again = (
            failure.same_as(window.failure)
            and self._attribute("on_error", failure.operator) is not OnError.RETRY
        )
        window.failures, window.failure = window.failures + 1, failure
        return again or window.failures > self._recovery_attempts(failure.operator)

    def _recovery_attempts(self, operator: str) -> int:
        """The operator's own number; the greatest of all where no single operator failed."""
        attempts = self._attribute("recovery_attempts", operator)
        if attempts is None:
            attempts = max(
                (attributes["recovery_attempts"] for attributes in self._attributes.values()), default=0
            )
        return int(attempts)

    def _attribute(self, attribute: str, operator: str) -> Any:
        """An attribute of an operator, by its logical name or physical title; None for no operator."""
        attributes = self._attributes.get(operator)
        return attributes[attribute] if attributes is not None else None


_NOTHING: Mapping[int, Any] = MappingProxyType({})
_MOST_HELD = 24
"""The most windows that are held: reporting them all takes a moment."""
_MOST_UNREAD = 2
"""The most windows that may be merged, and that inputs have not read."""


class Master:
    """The state of an application and its windows in flight. Only `handle` changes it.

    One thread reports each event once, in the order in which events happen, and carries out all instructions.
    Windows are committed in order. After a failure the windows in flight begin again. They run one at a time
    until the one that failed is committed, so that it is clear which one is to blame.

    The legal transitions of a window are in `windows.TRANSITIONS`. Windows that are held do not count
    against the limit of windows in flight.
    """

    def __init__(  # noqa: PLR0913  all that a run has when it begins
        self,
        plan: Plan,
        *,
        epoch: int,
        committed: int = -1,
        states: Mapping[int, StateVersion] = _NOTHING,
        sizes: Mapping[int, StateSize] = _NOTHING,
        finished: frozenset[int] = frozenset(),
        capacity: int = 1,
        groups: bool = False,
        bounded: bool = False,
        follows: Master | None = None,
    ) -> None:
        """The application as of the window `committed` (-1: before the first), as its manifest says.

        `sizes`: of the files of states, where they are not as under the plan before.
        `capacity`: the most windows that may be in flight, see `WindowExecutor`. `groups`: one commit may
        cover several windows, if they are complete by the time the commit before is done. `bounded`: windows
        get budgets. `follows`: the one of the plan before, which has no window in flight, or none that
        counts.
        """
        self.plan = plan
        self.traits = PlanTraits(plan)
        # With delay operators one window runs at a time, and each begins with the states.
        self._resident = capacity > 1 and not self.traits.tails
        """Containers keep their states from window to window."""
        self._most = min(capacity, plan.logical.attributes["windows_in_flight"]) if self._resident else 1
        """The most windows in flight."""
        self._groups = groups
        self._epoch = epoch
        self._committed = committed
        self._finished = finished
        self.inputs = self.traits.inputs
        """The inputs of the plan, by physical id; delay operators are none."""
        self._ended = bool(self.inputs) and finished >= self.inputs and not self.traits.tails
        self._time = 0
        """The time of the last window: a clock that is set back does not take it back."""
        self.windows = InFlightWindows()
        self._pending: Commit | None = None
        self.state_versions: StateVersions = StateVersions(
            plan, states, self.traits.tails, sizes, None if follows is None else follows.state_versions
        )
        self._recovery = Recovery(self.traits.attributes)
        self._idle = IdleInputs(tracked=self.traits.has_push_inputs)
        self.budgets: Budgets = Budgets(
            plan, {} if follows is None else follows.budgets.next, bounded=bounded
        )
        """How many records inputs may read, see `Budgets`."""
        self._attempts: dict[int, int] = {}
        """The last attempts at windows that were begun under a plan that did not last."""
        if follows is not None:
            self._follow(follows)

    def _follow(self, before: Master) -> None:
        """Continue where another plan has ended. Its first window runs alone, and is committed at once.

        It also runs if all inputs of the new plan have finished: then it is the last one.
        """
        self._ended = False
        self._time = before._time
        self._recovery.run_alone(self._committed + 1)
        self._attempts = before._attempts | before.windows.attempts

    @property
    def committed(self) -> int:
        """The last committed window, -1 before the first."""
        return self._committed

    @property
    def finished(self) -> frozenset[int]:
        """The inputs that have finished, by physical id."""
        return self._finished

    @property
    def ended(self) -> bool:
        """True once all inputs have finished and their last window is committed."""
        return self._ended

    @property
    def states(self) -> Mapping[int, StateVersion]:
        """The version of each state as of the last committed window, by physical id; a read-only view."""
        return self.state_versions.versions

    @property
    def next_window(self) -> int:
        """The first window that is not in flight."""
        return self._committed + self.under_way + 1

    @property
    def can_begin(self) -> bool:
        """True if the next window may be due now."""
        return (
            not (self._ended or (self._pending is not None and self._pending.ends))
            and self._recovery.fault is None
            and self.under_way - self.held < self._limit
            and not (self.state_versions.stale and self.under_way)
            and not self.traits.is_full(self.windows)
            and not (self.traits.merges_late and self._inputs_busy)
        )

    @property
    def _inputs_busy(self) -> bool:
        """True if the inputs have to read first what windows under way have: what comes goes with the next.

        Several containers with inputs may be a window apart, so that none waits for the slowest.
        """
        inputs = self.traits.input_containers
        unread = sum(not inputs <= window.reports.keys() for window in self.windows.running)
        return unread >= min(len(inputs), _MOST_UNREAD)

    @property
    def _runs_alone(self) -> bool:
        """True if windows run one at a time now, after a failure or under a new plan."""
        return self._committed < self._recovery.alone_until

    @property
    def _limit(self) -> int:
        """The most windows that may be in flight now."""
        return 1 if self._runs_alone else self._most

    @property
    def idle(self) -> bool:
        """True if all inputs wait for their tuples: a window that began now would have none."""
        return self._idle.all_of(self.inputs - self._finished)

    @property
    def held(self) -> int:
        """The number of windows in flight that are complete, and wait for a commit since they are empty."""
        return self.windows.held

    @property
    def under_way(self) -> int:
        """The number of windows that have begun and are not committed."""
        return len(self.windows)

    def handle(self, event: ControlEvent) -> Iterable[Instruction]:  # noqa: C901, PLR0911, PLR0912  a case each
        """Take one event in; returns what to do next, in this order.

        Raises AssertionError for an event that cannot come now, IllegalTransitionError for a fault of STRAM.
        """
        match event:
            case RunStarted():
                return tuple(self.state_versions.decide())
            case Repaired():
                return (self.state_versions.repaired(event),)
            case CompactionFailed():
                return tuple(self.state_versions.failed(event))
            case WindowPublished():
                self.budgets.published(event.seconds)
                return (*self.state_versions.decide(), *self._advance())
            case WindowDue():
                return self._due(event)
            case ContainerReported(report):
                return self._reported(report)
            case InputAwake():
                self._idle.wake()
                return ()
            case ContainersMoved(reason):
                return self._moved(reason)
            case CommitDue():
                return (self._commit(),) if self.held else ()
            case AttemptFailed():
                return self._attempt_failed(event)
            case StatesChecked():
                return self._checked()
            case ManifestWritten(window_id, names):
                return self._has_committed(window_id, names)
            case Compacted():
                instructions = tuple(self.state_versions.succeeded(event))
                return (*instructions, *self._advance()) if self.held else instructions

    # Attempts -----------------------------------------------------------------------------------------------

    def _due(self, due: WindowDue) -> tuple[Instruction, ...]:
        """Begin the next window, for `handle`; nothing of one that is committed."""
        window_id = due.window_id
        if window_id <= self._committed:
            return ()  # a crash came between our commit and Spark's
        if window_id != self.next_window or not self.can_begin:
            raise AssertionError(f"window {window_id} cannot begin now; the next one is {self.next_window}")
        self._time = max(self._time, due.time)
        window = InFlightWindow(
            window_id,
            self._time,
            self._attempts.pop(window_id, -1),
            offsets=due.offsets,
            taken=due.taken,
            budgets=self.budgets.next,
        )
        self.windows.add(window)
        return (self._begin(window),)

    def _begin(self, window: InFlightWindow) -> RunWindow:
        """Begin the next attempt at a window, for `_due` and `_begin_again`."""
        window.begin(
            carries_states=self.state_versions.stale
            or not self._resident
            or window.window_id <= self._recovery.states_until
        )
        states = self.state_versions.for_request() if window.carries_states else None
        self.state_versions.stale = False
        request = WindowRequest(
            window.window_id,
            window.attempt,
            self._epoch,
            window.final,
            self._finished,
            states,
            time=window.time,
            offsets=window.offsets,
            budgets=window.budgets,
        )
        return RunWindow(request, window.reason)

    def _begin_again(self) -> tuple[RunWindow, ...]:
        """Begin the windows whose attempts so far are void, the oldest first."""
        waiting = self.windows.waiting
        running = sum(window.valid for window in self.windows)
        return tuple(map(self._begin, waiting[: max(0, self._limit - running)]))

    def _reported(self, report: WindowReport) -> tuple[Instruction, ...]:
        """Take a report in. Reports of attempts that are void are dropped."""
        window_id, container = report.window.window_id, report.window.container
        window = self.windows.get(window_id)
        if window is None or not window.valid or window.attempt != report.window.attempt:
            return ()
        if container in window.reports:
            fault = "a container reported twice"
            failure = Failure(self.plan.logical.application, "", 0, window_id, "window", fault)
            return self._failed(window_id, failure)
        window.add(report, self.traits.containers)
        self._idle.report(report)
        if not window.complete:
            return ()
        self.budgets.learn(window)
        return self._advance()

    def _attempt_failed(self, event: AttemptFailed) -> tuple[Instruction, ...]:
        """Take a failure in. An error of a callback in an attempt that is void is dropped.

        A process may also be lost after it has reported, or while it runs what is void. Then the oldest
        window that it may have to do with has failed.
        """
        window = self.windows.get(event.window_id)
        if window is not None and window.attempt != event.attempt:
            return ()
        if window is not None and window.phase is WindowPhase.RUNNING:
            return self._failed(event.window_id, event.failure)
        if event.failure.raised:
            return ()
        self.state_versions.stale = True
        if running := self.windows.running:
            return self._failed(running[0].window_id, event.failure)
        return self._advance() if self.held else ()

    def _moved(self, reason: str) -> tuple[Instruction, ...]:
        """Begin all windows again that are not complete: where some containers live now, no state is."""
        first = min(self.windows.incomplete, default=self.next_window)
        self._void(first, reason)
        self._recovery.widen(first)
        return self._advance()

    def _failed(self, window_id: int, failure: Failure) -> tuple[Instruction, ...]:
        """Void the attempt and those of later windows.

        If processes may have been lost, also those before that are not complete.
        """
        window = self.windows[window_id]
        first = window_id if failure.raised else min([window_id, *self.windows.incomplete])
        counts = not failure.raised or window.carries_states or not self.traits.resets_state(failure.operator)
        self._recovery.fault = Fault(window, first, failure, counts=counts)
        self._void(first, f"window {window_id} failed")
        self.windows[first].reason = f"window {window_id} failed: {failure}"
        window.reason = str(failure)
        return self._advance()

    def _void(self, first: int, reason: str) -> None:
        """Let no attempt count that was begun at the window `first` and later ones."""
        self.state_versions.stale = True
        self._idle.wake()
        self.windows.void(first, reason)

    def _advance(self) -> tuple[Instruction, ...]:
        """The instructions that can follow now: commits, the end of a failure, windows that begin again."""
        if self._pending is not None:
            return ()
        if self._may_commit(self._finished) and not self._holds():
            return (self._commit(),)
        if self._recovery.fault is None:
            return self._begin_again()
        oldest = self.windows.oldest
        return (
            self._recover() if oldest is not None and self._recovery.fault.first == oldest.window_id else ()
        )

    def _recover(self) -> tuple[Instruction, ...]:
        """Begin again after a failure, or give up."""
        if self._recovery.needs_check():
            return (CheckStates(),)
        given_up = self._recovery.end()
        if given_up is None:
            return self._begin_again()
        self._attempts |= self.windows.attempts  # the plan before may run these windows
        self.windows.drop()
        return (GiveUp(*given_up),)

    def _checked(self) -> tuple[Instruction, ...]:
        fault = self._recovery.fault
        if fault is None or not fault.checked:
            raise AssertionError("no states were to be checked")
        return self._recover()

    # Commits ------------------------------------------------------------------------------------------------

    def _may_commit(self, finished: frozenset[int]) -> bool:
        """True if the oldest window can be committed. `finished`: the inputs that have before it.

        If the inputs have finished while application windows are open, it must run once more as the last.
        """
        window = self.windows.oldest
        if window is None or not window.complete:
            return False
        ends = self.traits.is_last(window, finished | window.finished)
        if ends == window.final or not self.traits.has_open_windows(window.window_id):
            return True
        self._void(window.window_id, "")  # no failure: only now it is known that the window is the last
        self._recovery.run_alone(window.window_id)
        self._recovery.fault = None
        window.final = ends
        return False

    def _holds(self) -> bool:
        """True if all windows that are complete are empty, and nothing else waits for their commit."""
        if (
            not (self._groups and self._resident)
            or self._recovery.fault is not None
            or self.state_versions.stale
            or self._runs_alone
        ):
            return False
        for window in self.windows:
            if window.phase is WindowPhase.HELD:
                continue
            if not window.complete:
                break
            if not window.empty or window.final:
                return False
            window.hold()
        return self.held < _MOST_HELD

    def _commit(self) -> Commit:
        """Commit the oldest window, which is complete, and those after it that are, too."""
        held = self.held
        reports: dict[int, tuple[WindowReport, ...]] = {}
        finished, ends = self._finished, False
        while not reports or (self._groups and not ends and self._may_commit(finished)):
            window = self.windows.oldest
            assert window is not None  # noqa: S101  the caller has looked
            window.commit()
            reports[window.window_id] = tuple(window.reports.values())
            finished |= window.finished
            ends, self._idle.delays = self.traits.is_last(window, finished), window.delays
        if ends:
            self.windows.drop()
            self._recovery.fault = None
        self._pending = Commit(reports, self.state_versions.to_commit(reports), finished, ends, held)
        return self._pending

    def _has_committed(self, window_id: int, names: Mapping[str, str]) -> tuple[Instruction, ...]:
        """Make the pending commit the application's state."""
        commit, self._pending = self._pending, None
        if commit is None or commit.window_id != window_id:
            raise AssertionError(f"window {window_id} was not about to be committed")
        self._committed, self._finished, self._ended = window_id, commit.finished, commit.ends
        self.windows.committed()
        self.state_versions.commit(commit.reports, names)
        *before, last = commit.reports
        return (Publish(last, tuple(before)),)
