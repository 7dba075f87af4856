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
