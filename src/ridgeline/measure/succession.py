"""Which operator takes over the history of which one when the plan of a run changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from ridgeline.measure.topology import Topology


class History(Protocol):
    """A fold that keeps something of each physical operator, by id."""

    def inherit(self, operator_id: int, before: int) -> None:
        """An operator of a new plan takes over the counts of another one; both keep them for now."""

    def forget(self, operators: Collection[int]) -> None:
        """Drop all that is known of operators."""


class Succession:
    """Follows the plans of a run. An operator that stays has its id; ids are never used again.

    A new one takes over the counts of the one that had its label and partition. So partition 0 of 3 takes
    over those of the only one before. A plan counts once its first window is committed. Until then the driver
    may go back to the plan before, so nothing of that is forgotten.
    """

    def __init__(self) -> None:
        self._known = Topology((), ())
        """The last plan that counts."""
        self._present = Topology((), ())
        self._first_window: int | None = None

    def planned(self, topology: Topology, histories: Collection[History]) -> None:
        """A plan is made, which may be the one before again."""
        known = self._known.by_id
        untried = [node.id for node in self._present.operators if node.id not in known]
        before = {node.series: node.id for node in self._known.operators}
        heirs = [
            (node.id, before[node.series])
            for node in topology.operators
            if node.id not in known and node.series in before
        ]
        for history in histories:
            if untried:
                history.forget(untried)
            for heir, former in heirs:
                history.inherit(heir, former)
        self._present, self._first_window = topology, None

    def window_planned(self, window_id: int) -> None:
        """A window begins, the first of its plan or a later one."""
        if self._first_window is None:
            self._first_window = window_id

    def committed(self, window_id: int) -> Mapping[int, int | None] | None:
        """A window is committed; None if it is not the first of its plan.

        Returns the operators that the plan does not have, each with the one that takes over from it. That has
        the same label and partition, or else it is the first with the label; None: there is none.
        """
        if self._present is self._known or self._first_window is None or window_id < self._first_window:
            return None
        present = self._present
        heirs = {node.series: node.id for node in present.operators}
        first: dict[str, int] = {}
        for node in present.operators:
            first.setdefault(node.label, node.id)
        gone = {
            node.id: heirs.get(node.series, first.get(node.label))
            for node in self._known.operators
            if node.id not in present.by_id
        }
        self._known = present
        return gone
