"""How many failures of a window STRAM puts up with."""

from __future__ import annotations

from typing import Any

from ridgeline.api.attributes import OnError
from ridgeline.api.errors import Failure
from ridgeline.plan.execution import Plan


class Failures:
    """The failures of windows that are not committed."""

    def __init__(self, plan: Plan) -> None:
        self._attributes = {operator.title: operator.attributes for operator in plan.physical.operators} | {
            logical.name: logical.attributes for logical in plan.logical.operators
        }
        """By logical name and by physical title."""
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
