"""STRAM's decisions about windows: events in, instructions out. No Spark, no files, no clock."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ridgeline.api.attributes import OnError
from ridgeline.api.errors import Failure
from ridgeline.api.operator import InputOperator
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import OperatorReport, StateVersion, WindowReport, WindowRequest

# Events ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WindowDue:
    """The window's driver has fired."""

    window_id: int


@dataclass(frozen=True, slots=True)
class WindowRan:
    """All containers of an attempt have reported."""

    reports: Sequence[WindowReport]


@dataclass(frozen=True, slots=True)
class WindowFailed:
    """An attempt failed. `failure` names the operator if it was one's fault."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class ManifestWritten:
    """The manifest of the window is durable."""

    window_id: int


@dataclass(frozen=True, slots=True)
class Rebased:
    """An operator's state as of a version that began with `replaced` lies in other files as well: `names`, to be used from now on."""

    operator: int
    replaced: StateVersion
    names: StateVersion


ControlEvent = WindowDue | WindowRan | WindowFailed | ManifestWritten

# Instructions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunWindow:
    """Run an attempt at a window on all containers; `reason` says which failure it is to mend, if any."""

    request: WindowRequest
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Commit:
    """Write the window's manifest: the commit."""

    window_id: int
    states: Mapping[int, StateVersion]
    finished: frozenset[int]
    reports: tuple[WindowReport, ...]
    ends: bool


@dataclass(frozen=True, slots=True)
class Publish:
    """The window is committed: let the outputs publish it."""

    window_id: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The application has failed: nothing of the window counts."""

    failure: Failure
    attempts: int


@dataclass(frozen=True, slots=True)
class Skip:
    """The window is committed already (a crash between our commit and Spark's): only finish its publication."""

    window_id: int


Instruction = RunWindow | Commit | Publish | GiveUp | Skip


class Master:
    """The state of an application between windows, changed by `handle` and `rebase` only.

    `committed` is the last committed window (-1: none), `ended` says that all inputs have finished and their
    last window is committed.
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
        self.plan = plan
        self.committed = committed
        self.states: dict[int, StateVersion] = dict(states or {})
        self.finished = finished
        self.inputs = frozenset(
            operator.id
            for operator in plan.physical.operators
            if isinstance(operator.operator, InputOperator)
        )
        self.ended = bool(self.inputs) and finished >= self.inputs
        self._epoch = epoch
        self._request: WindowRequest | None = None
        self._failures = 0
        self._last_failure: Failure | None = None
        self._pending: Commit | None = None
        self._rebased: list[Rebased] = []
        self._containers = {container.id: container for container in plan.execution.containers}
        self._home = {
            operator: container.id
            for container in plan.execution.containers
            for operator in container.operators
        }
        self._producers = self._find_producers()

    def handle(self, event: ControlEvent) -> Instruction:
        """Take one event; returns what to do next."""
        match event:
            case WindowDue(window_id):
                return self._due(window_id)
            case WindowRan(reports):
                return self._ran(tuple(reports))
            case WindowFailed(failure):
                return self._failed(failure)
            case ManifestWritten(window_id):
                return self._has_committed(window_id)

    def install_compaction(self, event: Rebased) -> bool:
        """Take a version's equal for it, from the next attempt on; a window may be running.

        False if no version begins so any more.
        """
        version = self.states.get(event.operator, ())
        rebased = _rebase(version, event)
        self.states[event.operator] = rebased
        self._rebased.append(event)
        return rebased != version

    def _due(self, window_id: int) -> Instruction:
        if window_id <= self.committed:
            return Skip(window_id)
        self._failures = 0
        self._last_failure = None
        self._rebased = []
        self._request = WindowRequest(
            window_id, 0, self._epoch, finished=self.finished, states=dict(self.states)
        )
        return RunWindow(self._request)

    def _ran(self, reports: tuple[WindowReport, ...]) -> Instruction:
        request = self._current()
        fault = self._inconsistency(reports)
        if fault:
            return self._failed(
                Failure(self.plan.logical.application, "", 0, request.window_id, "window", fault)
            )
        operators = [operator for report in reports for operator in report.operators]
        finished = self.finished | {
            operator.window.operator for operator in operators if operator.window.finished
        }
        ends = finished >= self.inputs
        if ends != request.final and self._has_open_windows(request.window_id):
            self._request = replace(
                request, attempt=request.attempt + 1, final=ends, states=dict(self.states)
            )
            return RunWindow(self._request)  # no failure: only now everybody can know that it is the last
        self._pending = Commit(
            request.window_id, {**self.states, **self._versions(operators)}, finished, reports, ends
        )
        return self._pending

    def _failed(self, failure: Failure) -> Instruction:
        request = self._current()
        self._failures += 1
        again = (
            failure.same_as(self._last_failure)
            and self._attribute("on_error", failure.operator) is not OnError.RETRY
        )
        self._last_failure = failure
        if again or self._failures > self._recovery_attempts(failure.operator):
            return GiveUp(failure, self._failures)
        self._request = replace(request, attempt=request.attempt + 1, states=dict(self.states))
        return RunWindow(self._request, str(failure))

    def _has_committed(self, window_id: int) -> Instruction:
        commit = self._pending
        if commit is None or commit.window_id != window_id:
            msg = f"window {window_id} was not about to be committed"
            raise AssertionError(msg)
        states = {
            operator: self._as_rebased(operator, version) for operator, version in commit.states.items()
        }
        self.committed, self.states, self.finished, self.ended = (
            window_id,
            states,
            commit.finished,
            commit.ends,
        )
        self._pending = self._request = None
        return Publish(window_id)

    def _versions(self, operators: Sequence[OperatorReport]) -> dict[int, StateVersion]:
        return {
            operator.window.operator: self._as_rebased(operator.window.operator, operator.state_version)
            for operator in operators
            if operator.state_version
        }

    def _as_rebased(self, operator: int, version: StateVersion) -> StateVersion:
        """A version reported by an attempt that was asked for before its beginning was rebased."""
        for event in self._rebased:
            if event.operator == operator:
                version = _rebase(version, event)
        return version

    def _current(self) -> WindowRequest:
        if self._request is None:
            msg = "no window is running"
            raise AssertionError(msg)
        return self._request

    def _recovery_attempts(self, operator: str) -> int:
        """The operator's own number; the greatest of all where no one operator is to blame.

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
        """An attribute of an operator, by its name or that of its partition or unifier; None where no one operator is meant."""
        known = {logical.name: logical for logical in self.plan.logical.operators}
        logical = known.get(operator) or known.get(re.split(r"[.\[]", operator, maxsplit=1)[0])
        return logical.attributes[attribute] if logical is not None else None

    def _has_open_windows(self, window_id: int) -> bool:
        """True if an operator's application window goes on after this streaming window."""
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
        """What is wrong with a set of reports: a container missing, or blocks of an attempt whose report is not the one that counts."""
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
                    return f"container {consumer} saw another attempt of container {producer} than the one that reported"
        return ""


def _rebase(version: StateVersion, event: Rebased) -> StateVersion:
    length = len(event.replaced)
    return (*event.names, *version[length:]) if version[:length] == event.replaced else version
