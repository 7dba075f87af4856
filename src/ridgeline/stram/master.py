"""STRAM's decisions about windows: events in, instructions out. No Spark, no files, no clock, no threads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ridgeline.api.attributes import OnError
from ridgeline.api.errors import Failure
from ridgeline.api.operator import InputOperator
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import OperatorReport, StateVersion, WindowReport, WindowRequest
from ridgeline.stram.compaction import Compacted, CompactionFailed, CompactionScheduler, WarnOfState
from ridgeline.stram.control import (
    CheckStates,
    Commit,
    ControlEvent,
    GiveUp,
    Instruction,
    ManifestWritten,
    Publish,
    Repaired,
    RunStarted,
    RunWindow,
    Skip,
    StatesChecked,
    WindowDue,
    WindowFailed,
    WindowPublished,
    WindowRan,
)


class Master:
    """The state of an application between windows. Only `handle` changes it.

    One thread reports each event once, in the order in which events happen. It carries out all instructions
    that it gets before the next window is due.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        epoch: int,
        committed: int = -1,
        states: Mapping[int, StateVersion] | None = None,
        finished: frozenset[int] = frozenset(),
    ) -> None:
        """The application as of the window `committed` (-1: before the first), as its manifest says."""
        self.plan = plan
        self.inputs = frozenset(
            operator.id
            for operator in plan.physical.operators
            if isinstance(operator.operator, InputOperator)
        )
        self._epoch = epoch
        self._committed = committed
        self._states: dict[int, StateVersion] = dict(states or {})
        self._finished = finished
        self._ended = bool(self.inputs) and finished >= self.inputs
        self._request: WindowRequest | None = None
        self._failures = 0
        self._last_failure: Failure | None = None
        self._unread: Failure | None = None
        self._pending: Commit | None = None
        self._replacements: list[tuple[int, StateVersion, StateVersion]] = []
        self._compactions = CompactionScheduler(plan)
        self._containers = {container.id: container for container in plan.execution.containers}
        self._home = {
            operator: container.id
            for container in plan.execution.containers
            for operator in container.operators
        }
        self._producers = self._find_producers()

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

    def handle(self, event: ControlEvent) -> Iterable[Instruction]:  # noqa: PLR0911  one case an event
        """Take one event in; returns what to do next, in this order.

        Raises AssertionError for an event that cannot come now.
        """
        match event:
            case RunStarted(sizes):
                self._compactions.take_sizes(sizes)
                return tuple(self._compactions.decide(self._states))
            case WindowPublished():
                return tuple(self._compactions.decide(self._states))
            case WindowDue(window_id):
                return (self._due(window_id),)
            case WindowRan(reports):
                return (self._ran(tuple(reports)),)
            case WindowFailed(failure) if failure.callback == "state":
                self._unread = failure
                return (CheckStates(),)
            case WindowFailed(failure):
                return (self._failed(failure),)
            case StatesChecked():
                return (self._failed(self._take_unread()),)
            case Repaired():
                return (self._repaired(event),)
            case ManifestWritten(window_id, names):
                return (self._has_committed(window_id, names),)
            case Compacted(operator, version, names):
                installed = self._replace(operator, version, names)
                present = self._states.get(operator, ())
                return tuple(self._compactions.succeeded(event, present, installed=installed))
            case CompactionFailed(operator):
                return tuple(self._compactions.failed(event, self._states.get(operator, ())))

    def _replace(self, operator: int, replaced: StateVersion, names: StateVersion) -> bool:
        """Replace a prefix of a version by files that hold the same, from the next attempt on.

        False if the version does not begin with `replaced` any more.
        """
        version = self._states.get(operator, ())
        self._replacements.append((operator, replaced, names))
        self._states[operator] = _with_prefix(version, replaced, names)
        return self._states[operator] != version

    def _repaired(self, event: Repaired) -> WarnOfState:
        self._replace(event.operator, event.replaced, event.names)
        self._compactions.replaced(event.operator, event.compacted)
        remedy = "the files that it was merged from are used instead, nothing is lost"
        return WarnOfState(event.operator, f"{event.fault}; {remedy}")

    def _take_unread(self) -> Failure:
        failure, self._unread = self._unread, None
        if failure is None:
            msg = "no states were to be checked"
            raise AssertionError(msg)
        return failure

    def _due(self, window_id: int) -> Instruction:
        if window_id <= self._committed:
            return Skip(window_id)
        self._failures = 0
        self._last_failure = None
        self._replacements = []
        self._request = WindowRequest(
            window_id, 0, self._epoch, finished=self._finished, states=dict(self._states)
        )
        return RunWindow(self._request)

    def _ran(self, reports: tuple[WindowReport, ...]) -> Instruction:
        """Commit an attempt whose reports fit together; else it has failed.

        If the inputs have finished while application windows are open, the window runs once more as the last.
        """
        request = self._current()
        fault = self._inconsistency(reports)
        if fault:
            return self._failed(
                Failure(self.plan.logical.application, "", 0, request.window_id, "window", fault)
            )
        operators = [operator for report in reports for operator in report.operators]
        finished = self._finished | {
            operator.window.operator for operator in operators if operator.window.finished
        }
        ends = finished >= self.inputs
        if ends != request.final and self._has_open_windows(request.window_id):
            self._request = replace(
                request, attempt=request.attempt + 1, final=ends, states=dict(self._states)
            )
            return RunWindow(self._request)  # no failure: only now it is known that the window is the last
        states = MappingProxyType({**self._states, **self._versions(operators)})
        self._pending = Commit(request.window_id, states, finished, reports, ends)
        return self._pending

    def _failed(self, failure: Failure) -> Instruction:
        """Retry the window, or give up: after `recovery_attempts`, or if one tuple failed twice alike."""
        request = self._current()
        self._failures += 1
        again = (
            failure.same_as(self._last_failure)
            and self._attribute("on_error", failure.operator) is not OnError.RETRY
        )
        self._last_failure = failure
        if again or self._failures > self._recovery_attempts(failure.operator):
            return GiveUp(failure, self._failures)
        self._request = replace(request, attempt=request.attempt + 1, states=dict(self._states))
        return RunWindow(self._request, str(failure))

    def _has_committed(self, window_id: int, names: Mapping[str, str]) -> Instruction:
        """Make the pending commit the application's state. Nothing else but `_replace` changes the state."""
        commit = self._pending
        if commit is None or commit.window_id != window_id:
            msg = f"window {window_id} was not about to be committed"
            raise AssertionError(msg)
        self._committed, self._finished, self._ended = window_id, commit.finished, commit.ends
        self._states = {
            operator: self._with_replacements(operator, _renamed(version, names))
            for operator, version in commit.states.items()
        }
        self._compactions.count_deltas(operator for report in commit.reports for operator in report.operators)
        self._pending = self._request = None
        return Publish(window_id)

    def _versions(self, operators: Sequence[OperatorReport]) -> dict[int, StateVersion]:
        versions = {}
        for report in operators:
            if report.change:
                before = () if report.replaces else self._states.get(report.window.operator, ())
                versions[report.window.operator] = (*before, report.change)
        return versions

    def _with_replacements(self, operator: int, version: StateVersion) -> StateVersion:
        """The version of a commit, with all prefixes replaced since the attempt was requested."""
        for replaced_of, replaced, names in self._replacements:
            if replaced_of == operator:
                version = _with_prefix(version, replaced, names)
        return version

    def _current(self) -> WindowRequest:
        if self._request is None:
            msg = "no window is running"
            raise AssertionError(msg)
        return self._request

    def _recovery_attempts(self, operator: str) -> int:
        """The operator's own number; the greatest of all where no single operator failed.

        `operator` may be a physical title.
        """
        attempts = self._attribute("recovery_attempts", operator)
        if attempts is None:
            attempts = max(
                (logical.attributes["recovery_attempts"] for logical in self.plan.logical.operators),
                default=0,
            )
        return int(attempts)

    def _attribute(self, attribute: str, operator: str) -> Any:
        """An attribute of an operator, which may be named by partition or unifier; None for no operator."""
        known = {logical.name: logical for logical in self.plan.logical.operators}
        logical = known.get(operator) or known.get(re.split(r"[.\[]", operator, maxsplit=1)[0])
        return logical.attributes[attribute] if logical is not None else None

    def _has_open_windows(self, window_id: int) -> bool:
        """True if an operator's application window continues after this streaming window."""
        return any(
            (window_id + 1) % operator.attributes["application_window_count"]
            for operator in self.plan.physical.operators
        )

    def _find_producers(self) -> dict[int, set[int]]:
        producers: dict[int, set[int]] = {container: set() for container in self._containers}
        for stream in self.plan.physical.streams:
            source, sink = self._home[stream.source], self._home[stream.sink]
            if source != sink:
                producers[sink].add(source)
        return producers

    def _inconsistency(self, reports: Sequence[WindowReport]) -> str:
        """What is wrong with a set of reports, empty if nothing is.

        A container may be missing, or may have read the blocks of an attempt that did not report.
        """
        tags = {report.window.container: report.window.task for report in reports}
        missing = self._containers.keys() - tags.keys()
        if missing:
            return f"containers {sorted(missing)} did not report"
        if len(reports) > len(tags):
            return "a container reported twice"
        for report in reports:
            consumer = report.window.container
            for producer in self._producers[consumer]:
                if report.seen.get(producer) != tags[producer]:
                    seen = f"container {consumer} saw another attempt of container {producer}"
                    return f"{seen} than the one that reported"
        return ""


def _with_prefix(version: StateVersion, replaced: StateVersion, names: StateVersion) -> StateVersion:
    """The version with its prefix `replaced` replaced by `names`; unchanged if it does not begin so."""
    length = len(replaced)
    return (*names, *version[length:]) if version[:length] == replaced else version


def _renamed(version: StateVersion, names: Mapping[str, str]) -> StateVersion:
    """The version after a commit, whose last name may be another one now."""
    return (*version[:-1], names.get(version[-1], version[-1])) if version and names else version
