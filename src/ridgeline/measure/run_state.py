"""The run as a whole: its plan, when it began, whether and how it ended."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Protocol

from ridgeline.measure.answers.application import InfoAnswer, StatsAnswer
from ridgeline.measure.events import (
    ApplicationEnded,
    ApplicationPlanned,
    RunEvent,
    WindowCommitted,
    WindowPlanned,
    WindowStarted,
)
from ridgeline.measure.status import OperatorStatus
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


class WindowsUnderWay:
    """Follows the windows of a run from trigger to commit. A window is over when the next one is due."""

    def __init__(self) -> None:
        self.first: WindowPlanned | None = None
        """The run's first window."""
        self.committed: int | None = None
        """The last window that is committed."""
        self.attempts: dict[int, WindowStarted] = {}
        """The attempts under way by window, the oldest first."""
        self._last: WindowPlanned | None = None
        self._events: list[RunEvent] = []
        """Those of windows that are not committed."""

    @property
    def current(self) -> int | None:
        """The oldest window that has an attempt under way, else the last one that is committed."""
        return next(iter(self.attempts), self.committed)

    def add(self, event: RunEvent) -> None:
        """Keep an event until its window is committed."""
        self._events.append(event)

    def planned(self, event: WindowPlanned) -> None:
        """A window's trigger has fired."""
        self.first = self.first or event
        self._last = event
        if not self.attempts:  # the run begins here, or all before is committed or void
            self.committed = event.window_id - 1 if event.window_id else None
            self._events.clear()
        self._events.append(event)

    def started(self, event: WindowStarted) -> bool:
        """An attempt begins. True if no other window is under way."""
        alone = self.attempts.keys() <= {event.window_id}
        self.attempts[event.window_id] = event
        return alone

    def events_of(self, event: WindowCommitted) -> list[RunEvent]:
        """The events of a window, its commit the last."""
        return [*(one for one in self._events if getattr(one, "window_id", None) == event.window_id), event]

    def commit(self, window_id: int) -> None:
        """A window is committed: forget the events up to it."""
        self.committed = window_id
        self.attempts.pop(window_id, None)
        self._events = [one for one in self._events if getattr(one, "window_id", -1) > window_id]

    def behind(self, statuses: Mapping[int, OperatorStatus], due: tuple[int, int] | None) -> dict[int, int]:
        """By operator, the windows that are over and that it has not completed. `due`: as `due`."""
        if due is None:
            return dict.fromkeys(statuses, 0)
        over, before = due
        return {
            operator: max(0, over - (before if (done := status.done) is None else done))
            for operator, status in statuses.items()
        }

    def due(self, now: float, width: float, forgiven: float) -> tuple[int, int] | None:
        """The last window that is over by the schedule, and the one before the run's first.

        `width`: of a window, seconds; without one there is no schedule: None. `forgiven`: lateness, in
        seconds, that the trigger has forgiven itself.
        """
        first, last = self.first, self._last
        if first is None or last is None or width <= 0:
            return None
        over = last.window_id + math.floor((now - last.due + forgiven) / width) - 1
        return over, first.window_id - 1


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
