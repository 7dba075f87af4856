"""Failures of windows: how many STRAM accepts, and how careful it is afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ridgeline.api.attributes import OnError
from ridgeline.api.errors import Failure

_CAREFUL_WINDOWS = 16
"""Windows that run one at a time after a tuple or a window was left out: more may be left out there."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A failure that waits until the windows before `first` are committed.

    `window_id`: the window that it is counted for. `counts`: false if a container only needs the committed
    states to continue. `checked`: the files of states have been checked.
    """

    window_id: int
    first: int
    failure: Failure
    counts: bool = True
    checked: bool = False


class Recovery:
    """The failure that is being handled, and which windows take care after it."""

    def __init__(self, attributes: Mapping[str, Mapping[str, Any]]) -> None:
        """`attributes`: of operators, by logical name and by physical title."""
        self.fault: Fault | None = None
        self.alone_until = -1
        """Windows up to this one run one at a time."""
        self.states_until = -1
        """The requests of windows up to this one carry states, in case an operator takes its state back."""
        self._failures = Failures(attributes)

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
            self.alone_until = self.states_until = fault.window_id + _CAREFUL_WINDOWS
            return None
        count, too_many = self._failures.count(fault.window_id, fault.failure)
        if too_many:
            return fault.failure, count
        self.run_alone(fault.window_id)
        return None

    def forget(self, window_id: int) -> None:
        """The window is committed."""
        self._failures.forget(window_id)


class Failures:
    """The failures of windows that are not committed."""

    def __init__(self, attributes: Mapping[str, Mapping[str, Any]]) -> None:
        """`attributes`: of operators, by logical name and by physical title."""
        self._attributes = attributes
        self._counts: dict[int, int] = {}
        self._last: dict[int, Failure] = {}

    def count(self, window_id: int, failure: Failure) -> tuple[int, bool]:
        """Count a failure of a window; returns how many it has had, and whether these are too many.

        They are beyond `recovery_attempts` of the operator, or if one tuple failed twice alike. What is the
        cluster's fault counts for nothing.
        """
        if failure.cluster:
            return self._counts.get(window_id, 0), False
        count = self._counts[window_id] = self._counts.get(window_id, 0) + 1
        again = (
            failure.same_as(self._last.get(window_id))
            and self._attribute("on_error", failure.operator) is not OnError.RETRY
        )
        self._last[window_id] = failure
        return count, again or count > self._recovery_attempts(failure.operator)

    def forget(self, window_id: int) -> None:
        """The window is committed."""
        self._counts.pop(window_id, None)
        self._last.pop(window_id, None)

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
