"""STRAM's decisions about windows: events in, instructions out. No Spark, no files, no clock, no threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from types import MappingProxyType

from ridgeline.api.attributes import OnError, ProcessingMode
from ridgeline.api.errors import Failure
from ridgeline.api.operator import InputOperator, is_stateless
from ridgeline.api.push_input import PushInput
from ridgeline.api.support.loops import DelayHead
from ridgeline.plan.container_spec import tails_of
from ridgeline.plan.execution import Plan
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.protocol import StateVersion, WindowReport, WindowRequest
from ridgeline.stram.changes import ChangeAsked, Recorder, Recording, RecordingFailed, RecordingsFound
from ridgeline.stram.compaction import Compacted, CompactionFailed, CompactionScheduler, WarnOfState
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
    Repaired,
    RunStarted,
    RunWindow,
    Skip,
    StatesChecked,
    StatesMoved,
    WindowDue,
    WindowPublished,
)
from ridgeline.stram.flights import Fault, Flight, mismatch
from ridgeline.stram.patience import Failures
from ridgeline.stram.waiting import Waiting

_CAREFUL_WINDOWS = 16
"""After a tuple or a window was left out, so many windows run one at a time: more may be left out there."""
_MOST_HELD = 24
"""So many windows in which nothing moved are held at most: reporting them all takes a moment."""


class Master:
    """The state of an application and its windows under way. Only `handle` changes it.

    One thread reports each event once, in the order in which events happen, and carries out all instructions.
    Windows are committed in order. After a failure the windows under way begin again. They run one at a time
    until the one that failed is committed, so that it is clear which one is to blame.

    Empty windows (see `Flight`) are held: their commit is that of the next window that is not, unless
    `CommitDue` comes before. Held windows do not count as in flight.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        epoch: int,
        committed: int = -1,
        states: Mapping[int, StateVersion] | None = None,
        finished: frozenset[int] = frozenset(),
        capacity: int = 1,
        groups: bool = False,
        follows: Master | None = None,
    ) -> None:
        """The application as of the window `committed` (-1: before the first), as its manifest says.

        `capacity`: the most windows that may be in flight, see `WindowExecutor`. `groups`: one commit may
        cover several windows, if they are complete by the time the commit before is done. `follows`: the one
        of the plan before, which has no window under way, or none that counts.
        """
        self.plan = plan
        self.inputs = frozenset(
            operator.id
            for operator in plan.physical.operators
            if isinstance(operator.operator, InputOperator) and not isinstance(operator.operator, DelayHead)
        )
        self._tails = {head: tail.id for head, tail in tails_of(plan.physical).items()}
        """The tail of each head of a delay operator: it reads the tail's state."""
        self._delays = False
        """Whether delay operators have tuples for the next window, as far as is known."""
        self._epoch = epoch
        self._committed = committed
        self._states: dict[int, StateVersion] = dict(states or {})
        self._finished = finished
        self._ended = bool(self.inputs) and finished >= self.inputs and not self._tails
        self._resident = capacity > 1 and not self._tails
        self._groups = groups
        self._may_hold = groups and self._resident
        self._limit = 1 if self._tails else min(capacity, plan.logical.attributes["windows_in_flight"])
        self._going_back = {
            operator.title if operator.unifier else operator.name
            for operator in plan.physical.operators
            if _goes_back(operator)
        }
        self._flights: dict[int, Flight] = {}
        self._waits = any(isinstance(one.operator, PushInput) for one in plan.physical.operators)
        self._time = 0
        """The time of the last window: a clock that is set back does not take it back."""
        self._held = 0
        """How many windows are held: the oldest ones."""
        self._idle: set[int] = set()
        """The inputs that wait for their tuples, and had none in the last window that they reported."""
        self._reload = True
        """The next request must name the states: containers do not hold them, or hold them in old files."""
        self._alone = -1
        """Windows up to this one run one at a time."""
        self._careful = -1
        """Windows up to this one are told the states, in case an operator takes its state back."""
        self._fault: Fault | None = None
        self._failures = Failures(plan)
        self._waiting = Waiting(plan)
        self._pending: Commit | None = None
        self._compactions = CompactionScheduler(plan)
        self._recorder = Recorder(plan, epoch)
        self._window_counts = {
            operator.attributes["application_window_count"] for operator in plan.physical.operators
        }
        self._slides = any(operator.slides for operator in plan.physical.operators)
        self._loop_counts = _loop_counts(plan, self._tails.values())
        self._containers = frozenset(container.id for container in plan.execution.containers)
        self._attempts: dict[int, int] = {}
        """The last attempts at windows that were begun under a plan that did not last."""
        if follows is not None:
            self._follow(follows)

    def _follow(self, before: Master) -> None:
        """Go on where another plan has ended. Its first window runs alone, and is committed at once.

        It also runs if no input of the new plan goes on: then it is the last one.
        """
        self._ended = False
        self._time = before._time
        self._alone = self._committed + 1
        self._compactions.follow(before._compactions)
        self._attempts = before._attempts | before._begun()
        if before._pending is not None:
            for window_id, reports in before._pending.reports.items():
                self._attempts[window_id] = max(report.window.attempt for report in reports)

    def _begun(self) -> dict[int, int]:
        """The last attempts at the windows under way."""
        return {flight.window_id: flight.attempt for flight in self._flights.values()}

    @property
    def recordings(self) -> tuple[Recording, ...]:
        """The recordings that go on."""
        return self._recorder.recordings

    @property
    def committed(self) -> int:
        """The last committed window, -1 before the first."""
        return self._committed

    @property
    def states(self) -> Mapping[int, StateVersion]:
        """The version of each state as of the last committed window, by physical id; a read-only view."""
        return MappingProxyType(self._states)

    @property
    def finished(self) -> frozenset[int]:
        """The inputs that have finished, by physical id."""
        return self._finished

    @property
    def ended(self) -> bool:
        """True once all inputs have finished and their last window is committed."""
        return self._ended

    @property
    def next_window(self) -> int:
        """The first window that is not under way."""
        return self._committed + self.under_way + 1

    @property
    def can_begin(self) -> bool:
        """True if the next window may be due now."""
        return (
            not (self._ended or (self._pending is not None and self._pending.ends))
            and self._fault is None
            and self.under_way - self._held < (self._limit if self._committed >= self._alone else 1)
            and not (self._reload and self.under_way)
            and not self._waiting.full(self._flights.values())
        )

    @property
    def idle(self) -> bool:
        """True if all inputs wait for their tuples: a window that began now would have none."""
        return bool(self._idle) and self._idle >= self.inputs - self._finished and not self._delays

    @property
    def may_wait(self) -> bool:
        """True if the next window may begin later than its width says: no operator counts windows."""
        return self._window_counts == {1}

    @property
    def held(self) -> int:
        """The number of windows under way that are complete, and wait for a commit since they are empty."""
        return self._held

    @property
    def under_way(self) -> int:
        """The number of windows that have begun and are not committed."""
        return len(self._flights) + (len(self._pending.reports) if self._pending else 0)

    def handle(self, event: ControlEvent) -> Iterable[Instruction]:  # noqa: C901, PLR0911, PLR0912  a case each
        """Take one event in; returns what to do next, in this order.

        Raises AssertionError for an event that cannot come now.
        """
        match event:
            case RunStarted(sizes):
                self._compactions.take_sizes(sizes)
                return tuple(self._compactions.decide(self._states))
            case WindowPublished():
                return (*self._compactions.decide(self._states), *self._advance())
            case WindowDue(window_id, time):
                return (self._due(window_id, time),)
            case ChangeAsked() | RecordingsFound() | RecordingFailed():
                return self._recorder.handle(event, self.next_window)
            case ContainerReported(report):
                return self._reported(report)
            case InputAwake():
                self._idle.clear()
                return ()
            case ContainersMoved(reason):
                return self._moved(reason)
            case CommitDue():
                return (self._commit(),) if self._held else ()
            case AttemptFailed():
                return self._attempt_failed(event)
            case StatesChecked():
                return self._checked()
            case Repaired():
                return (self._repaired(event),)
            case StatesMoved(sizes):
                self._compactions.take_sizes(sizes, of_all=False)
                return ()
            case ManifestWritten(window_id, names):
                return self._has_committed(window_id, names)
            case Compacted(operator, version, names):
                installed = self._replace(operator, version, names)
                present = self._states.get(operator, ())
                instructions = tuple(self._compactions.succeeded(event, present, installed=installed))
                return (*instructions, *self._advance()) if self._held else instructions
            case CompactionFailed(operator):
                return tuple(self._compactions.failed(event, self._states.get(operator, ())))

    # Attempts -----------------------------------------------------------------------------------------------

    def _due(self, window_id: int, time: int) -> Instruction:
        if window_id <= self._committed:
            return Skip(window_id)
        if window_id != self.next_window or not self.can_begin:
            msg = f"window {window_id} cannot begin now; the next one is {self.next_window}"
            raise AssertionError(msg)
        self._time = max(self._time, time)
        flight = self._flights[window_id] = Flight(window_id, self._time)
        flight.attempt = self._attempts.pop(window_id, flight.attempt)
        return self._begin(flight)

    def _begin(self, flight: Flight) -> RunWindow:
        """Begin the next attempt at a window, for `_due` and `_begin_again`."""
        flight.attempt += 1
        flight.runs = True
        flight.told = self._reload or not self._resident or flight.window_id <= self._careful
        states = self._named() if flight.told else None
        self._reload = False
        request = WindowRequest(
            flight.window_id,
            flight.attempt,
            self._epoch,
            flight.final,
            self._finished,
            states,
            time=flight.time,
            records=self._recorder.records(flight.window_id),
        )
        return RunWindow(request, flight.reason)

    def _begin_again(self) -> tuple[RunWindow, ...]:
        """Begin the windows whose attempts so far are void, the oldest first."""
        limit = 1 if self._committed < self._alone else self._limit
        waiting = [flight for flight in self._flights.values() if not flight.runs]
        running = len(self._flights) - len(waiting)
        return tuple(map(self._begin, waiting[: max(0, limit - running)]))

    def _reported(self, report: WindowReport) -> tuple[Instruction, ...]:
        """Take a report in. Reports of attempts that are void are dropped."""
        window_id, container = report.window.window_id, report.window.container
        flight = self._flights.get(window_id)
        if flight is None or not flight.runs or flight.attempt != report.window.attempt:
            return ()
        if container in flight.reports:
            return self._inconsistent(window_id, "a container reported twice")
        flight.add(report)
        if self._waits:
            for one in report.operators:
                (self._idle.add if one.idle else self._idle.discard)(one.window.operator)
        if not self._reported_by_all(flight):
            return ()
        if fault := mismatch(flight.reports):
            return self._inconsistent(window_id, fault)
        return self._advance()

    def _inconsistent(self, window_id: int, fault: str) -> tuple[Instruction, ...]:
        failure = Failure(self.plan.logical.application, "", 0, window_id, "window", fault)
        return self._failed(window_id, failure)

    def _attempt_failed(self, event: AttemptFailed) -> tuple[Instruction, ...]:
        """Take a failure in. What a callback raised in an attempt that is void is dropped.

        A process may also be lost after it has reported, or while it runs what is void. Then the oldest
        window that it may have to do with has failed.
        """
        flight = self._flights.get(event.window_id)
        if flight is not None and flight.attempt != event.attempt:
            return ()
        if flight is not None and flight.runs and not self._reported_by_all(flight):
            return self._failed(event.window_id, event.failure)
        if event.failure.raised:
            return ()
        self._reload = True
        running = [one for one in self._flights.values() if one.runs and not self._reported_by_all(one)]
        if running:
            return self._failed(running[0].window_id, event.failure)
        return self._advance() if self._held else ()

    def _moved(self, reason: str) -> tuple[Instruction, ...]:
        """Begin all windows again that are not complete: where some containers live now, no state is."""
        lost = [flight.window_id for flight in self._flights.values() if not self._reported_by_all(flight)]
        first = min(lost, default=self.next_window)
        self._void(first, reason)
        if self._fault is not None:
            self._fault = replace(self._fault, first=min(first, self._fault.first))
        return self._advance()

    def _failed(self, window_id: int, failure: Failure) -> tuple[Instruction, ...]:
        """Void the attempt and those of later windows.

        If processes may have been lost, also those before that are not complete.
        """
        lost = (one.window_id for one in self._flights.values() if not self._reported_by_all(one))
        first = window_id if failure.raised else min([window_id, *lost])
        counts = self._flights[window_id].told or failure.operator not in self._going_back
        self._fault = Fault(window_id, first, failure, counts=counts or not failure.raised)
        self._void(first, f"window {window_id} failed")
        self._flights[first].reason = f"window {window_id} failed: {failure}"
        self._flights[window_id].reason = str(failure)
        return self._advance()

    def _void(self, first: int, reason: str) -> None:
        """Let no attempt count that was begun at the window `first` and later ones."""
        self._reload = True
        self._held = 0
        self._idle.clear()
        for flight in self._flights.values():
            if flight.window_id >= first and flight.runs:
                flight.void(reason)

    def _advance(self) -> tuple[Instruction, ...]:
        """What can be done now: commit what is complete, deal with a failure, begin windows again."""
        if self._pending is not None:
            return ()
        if self._complete(self._finished) and not self._holds():
            return (self._commit(),)
        if self._fault is None:
            return self._begin_again()
        return self._recover() if self._fault.first == next(iter(self._flights)) else ()

    def _recover(self) -> tuple[Instruction, ...]:
        """Begin again after a failure, or give up."""
        fault = self._fault
        assert fault is not None  # noqa: S101  the caller has looked
        if fault.failure.callback == "state" and not fault.checked:
            self._fault = replace(fault, checked=True)
            return (CheckStates(),)
        self._fault = None
        if not fault.counts:
            self._alone = self._careful = fault.window_id + _CAREFUL_WINDOWS
            return self._begin_again()
        count, too_many = self._failures.count(fault.window_id, fault.failure)
        if too_many:
            self._attempts |= self._begun()  # a plan before may go on with that window
            self._flights.clear()
            return (GiveUp(fault.failure, count),)
        self._alone = max(self._alone, fault.window_id)
        return self._begin_again()

    def _checked(self) -> tuple[Instruction, ...]:
        if self._fault is None or not self._fault.checked:
            msg = "no states were to be checked"
            raise AssertionError(msg)
        return self._recover()

    # Commits ------------------------------------------------------------------------------------------------

    def _complete(self, finished: frozenset[int]) -> bool:
        """True if the oldest window can be committed. `finished`: the inputs that have before it.

        If the inputs have finished while application windows are open, it must run once more as the last.
        """
        flight = next(iter(self._flights.values()), None)
        if flight is None or not self._reported_by_all(flight):
            return False
        ends = self._is_last(flight, finished | flight.finished)
        if ends == flight.final or not self._has_open_windows(flight.window_id):
            return True
        self._void(flight.window_id, "")  # no failure: only now it is known that the window is the last
        self._alone = max(self._alone, flight.window_id)
        self._fault = None
        flight.final = ends
        return False

    def _is_last(self, flight: Flight, finished: frozenset[int]) -> bool:
        """True if no window follows. `finished`: the inputs that have by its end.

        Windows follow as long as delay operators have tuples, or operators before them an open application
        window; not for what only the last attempt emits.
        """
        waits = flight.delays or any((flight.window_id + 1) % count for count in self._loop_counts)
        return finished >= self.inputs and (flight.final or not waits)

    def _reported_by_all(self, flight: Flight) -> bool:
        return len(flight.reports) == len(self._containers)

    def _holds(self) -> bool:
        """True if all windows that are complete are empty, and nothing else waits for their commit."""
        if not self._may_hold or self._fault is not None or self._reload or self._committed < self._alone:
            return False
        for flight in islice(self._flights.values(), self._held, None):
            if not self._reported_by_all(flight):
                break
            if not flight.empty or flight.final:
                return False
            self._held += 1
        return self._held < _MOST_HELD

    def _commit(self) -> Commit:
        """Commit the oldest window, which is complete, and those after it that are, too."""
        held, self._held = self._held, 0
        reports: dict[int, tuple[WindowReport, ...]] = {}
        finished, ends = self._finished, False
        while not reports or (self._groups and not ends and self._complete(finished)):
            flight = next(iter(self._flights.values()))
            del self._flights[flight.window_id]
            reports[flight.window_id] = tuple(flight.reports.values())
            finished |= flight.finished
            ends, self._delays = self._is_last(flight, finished), flight.delays
        if ends:
            self._flights.clear()
            self._fault = None
        states = MappingProxyType({**self._states, **self._changed(reports, {})})
        self._pending = Commit(reports, states, finished, ends, held)
        return self._pending

    def _has_committed(self, window_id: int, names: Mapping[str, str]) -> tuple[Instruction, ...]:
        """Make the pending commit the application's state. Nothing else but `_replace` changes the state."""
        commit, self._pending = self._pending, None
        if commit is None or commit.window_id != window_id:
            msg = f"window {window_id} was not about to be committed"
            raise AssertionError(msg)
        self._committed, self._finished, self._ended = window_id, commit.finished, commit.ends
        self._states |= self._changed(commit.reports, names)
        for committed, reports in commit.reports.items():
            self._failures.forget(committed)
            self._compactions.count_deltas(operator for report in reports for operator in report.operators)
        self._recorder.committed(window_id)
        *before, last = commit.reports
        return (Publish(last, tuple(before)),)

    def _has_open_windows(self, window_id: int) -> bool:
        """True if an operator's application window may continue after this streaming window.

        One that slides does; it may never have been full.
        """
        return self._slides or any((window_id + 1) % count for count in self._window_counts)

    # States -------------------------------------------------------------------------------------------------

    def _changed(
        self, reports: Mapping[int, Iterable[WindowReport]], names: Mapping[str, str]
    ) -> dict[int, StateVersion]:
        """The versions that these windows have changed. `names`: what changes are called since the commit."""
        versions: dict[int, StateVersion] = {}
        for window in reports.values():
            for report in window:
                for one in report.operators:
                    if one.change:
                        operator = one.window.operator
                        before = versions.get(operator, self._states.get(operator, ()))
                        change = names.get(one.change, one.change)
                        versions[operator] = (change,) if one.replaces else (*before, change)
        return versions

    def _named(self) -> dict[int, StateVersion]:
        """The versions for a request; heads of delay operators get those of their tails."""
        of_tails = {head: self._states[tail] for head, tail in self._tails.items() if tail in self._states}
        return self._states | of_tails

    def _replace(self, operator: int, replaced: StateVersion, names: StateVersion) -> bool:
        """Replace a prefix of a version by files that hold the same.

        Containers that hold the state may go on with it. But they must open other segments, to be rid of what
        they hold beside the old ones. False if the version does not begin with `replaced` any more.
        """
        version = self._states.get(operator, ())
        self._states[operator] = _with_prefix(version, replaced, names)
        installed = self._states[operator] != version
        if installed and max(len(names), len(self._compactions.compacted(operator))) > 1:
            self._reload = True
        return installed

    def _repaired(self, event: Repaired) -> WarnOfState:
        self._replace(event.operator, event.replaced, event.names)
        self._reload = True
        self._compactions.replaced(event.operator, event.compacted)
        remedy = "the files that it was merged from are used instead, nothing is lost"
        return WarnOfState(event.operator, f"{event.fault}; {remedy}")


def _loop_counts(plan: Plan, tails: Iterable[int]) -> set[int]:
    """The lengths of the application windows of all operators upstream of delay operators."""
    found = set(tails)
    places = plan.physical.places
    for stream in sorted(plan.physical.streams, key=lambda stream: -places[stream.sink]):
        if stream.sink in found:
            found.add(stream.source)
    return {plan.physical.operator(one).attributes["application_window_count"] for one in found}


def _goes_back(operator: PhysicalOperator) -> bool:
    """True if an operator's state may be taken back within a window: to the version that it was told."""
    attributes = operator.attributes
    lossy = (
        attributes["on_error"] is OnError.SKIP or attributes["processing_mode"] is ProcessingMode.AT_MOST_ONCE
    )
    return lossy and not is_stateless(operator.operator)


def _with_prefix(version: StateVersion, replaced: StateVersion, names: StateVersion) -> StateVersion:
    """The version with its prefix `replaced` replaced by `names`; unchanged if it does not begin so."""
    length = len(replaced)
    return (*names, *version[length:]) if version[:length] == replaced else version
