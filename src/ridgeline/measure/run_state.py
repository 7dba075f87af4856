"""The run as a whole: its plan, when it began, whether and how it ended."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Protocol

from ridgeline.measure.answers.application import InfoAnswer, StatsAnswer
from ridgeline.measure.events import ApplicationEnded, ApplicationPlanned
from ridgeline.measure.topology import Topology

_STATES = {"finished": "FINISHED", "stopped": "STOPPED", "failed": "FAILED"}


class RunState:
    """Follows the plans of a run and its end."""

    def __init__(self) -> None:
        self.plan: ApplicationPlanned | None = None
        """The present one."""
        self.ended: ApplicationEnded | None = None
        self._started = 0.0

    def planned(self, event: ApplicationPlanned) -> ApplicationPlanned:
        """Take a plan in and return it. Later ones inherit from the first one what they do not say."""
        if self.plan is None:
            self._started = event.at
        else:
            info = {**self.plan.info, **event.info}
            event = replace(event, application_id=event.application_id or self.plan.application_id, info=info)
        self.plan, self.ended = event, None
        return event

    @property
    def topology(self) -> Topology:
        """Of the present plan; empty before the first."""
        return Topology((), ()) if self.plan is None else self.plan.topology

    @property
    def window_seconds(self) -> float:
        """The width of a window; 0 if windows follow each other as fast as they get."""
        return 0.0 if self.plan is None else self.plan.window_seconds

    @property
    def measures(self) -> bool:
        """False if only tuples, errors and states are folded, with `metrics_recording_level` OFF."""
        attributes: Mapping[str, Any] = {} if self.plan is None else self.plan.attributes
        return str(attributes.get("metrics_recording_level", "INFO")) != "OFF"

    def as_of(self, now: float) -> float:
        """`now`, or the end of a run that is over."""
        return now if self.ended is None else min(now, self.ended.at)

    def info(self, plan: ApplicationPlanned, now: float, stats: StatsAnswer, *, paused: bool) -> InfoAnswer:
        """The application as a whole, with its sums."""
        state = "PAUSED" if paused else "RUNNING"
        return {
            "id": plan.application_id,
            "name": plan.application,
            "user": plan.info.get("user"),
            "version": plan.info.get("version"),
            "checkpoint": plan.info.get("checkpoint"),
            "master": plan.info.get("master"),
            "propertiesKept": dict(plan.info.get("properties_kept", {})),
            "startTime": self._started,
            "elapsedTime": max(0.0, now - self._started),
            "state": state if self.ended is None else _STATES.get(self.ended.outcome, "FAILED"),
            "reason": self.ended.reason if self.ended is not None else "",
            "planVersion": plan.plan_version,
            "windowSeconds": plan.window_seconds,
            "attributes": dict(plan.attributes),
            "stats": stats,
        }


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
