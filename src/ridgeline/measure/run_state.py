"""The run as a whole: its plan, when it began, whether and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

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
        self._tried_from: int | None = None
        """The first window of a plan, before that is committed: the driver may go back to the plan before."""
        self._tried = False

    def planned(self, event: ApplicationPlanned) -> ApplicationPlanned:
        """Take a plan in and return it. Later ones inherit from the first one what they do not say."""
        if self.plan is None:
            self._started = event.at
        else:
            info = {**self.plan.info, **event.info}
            event = replace(event, application_id=event.application_id or self.plan.application_id, info=info)
        self.plan, self.ended = event, None
        self._tried, self._tried_from = True, None
        return event

    def window_planned(self, window_id: int) -> None:
        """A window begins, the first of its plan or a later one."""
        if self._tried_from is None:
            self._tried_from = window_id

    def settles(self, window_id: int) -> bool:
        """A window is committed: whether it is the first of its plan, so that this is final."""
        settles = self._tried and self._tried_from is not None and window_id >= self._tried_from
        self._tried = self._tried and not settles
        return settles

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
