"""Judges the promises of a run by its events."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ridgeline.api.clock import Clock
from ridgeline.api.policy import Promise
from ridgeline.measure.answers.progress import ProgressAnswer
from ridgeline.measure.events import (
    ApplicationChanged,
    RunEvent,
    WindowCommitted,
    WindowPlanned,
    WindowReported,
)
from ridgeline.observe.watch import Watch
from ridgeline.policies.keeping import Keeping, Observation

SEEN = WindowReported, WindowCommitted, WindowPlanned, ApplicationChanged
"""The events by which promises are judged."""
_PAUSES = {("pause", "APPLIED"), ("resume", "APPLIED")}
_log = logging.getLogger(__name__)
_HELD_SECONDS = 1.5
"""Windows in which nothing moves wait for a later commit: so long one is under way without being late."""
_LOOK_SECONDS = 1.0
"""How often it is asked how long it takes to catch up while no window is committed."""


class Judge:
    """Judges promises with the events of a run, one thread at a time; reports `PromiseChanged`."""

    def __init__(
        self,
        promises: Sequence[Promise],
        watch: Watch,
        observe: Callable[[RunEvent], None],
        clock: Clock,
    ) -> None:
        self._watch, self._observe, self._clock = watch, observe, clock
        self._keeping = Keeping(promises)
        self._kinds = {promise.kind for promise in promises}
        self._seen = Observation()
        """Of the window whose events come."""
        self._aged = [promise.operator for promise in promises if promise.kind == "record_age"]
        self._planned: dict[int, float] = {}
        self._paused = False
        self._through: float | None = None
        """When the first window was committed: those that began before say nothing of the others."""
        self._looked = -math.inf

    def begin(self) -> None:
        """Report all promises, before the first window."""
        for state in self._keeping.states:
            self._observe(replace(state, at=self._clock.wall()))

    def apply(self, at: float, event: RunEvent) -> None:
        """Take what has happened at a time of the monotonic clock."""
        if isinstance(event, WindowPlanned):
            self._planned[event.window_id] = at
        elif isinstance(event, WindowReported):
            self._reported(event)
        elif isinstance(event, WindowCommitted):
            self._commit(at, event)
        elif isinstance(event, ApplicationChanged) and (event.what, event.state) in _PAUSES:
            self.tick(at)
            self._paused = event.what == "pause"

    def _reported(self, event: WindowReported) -> None:
        """Count the tuples of operators: those that came in, those that went out of an input."""
        topology, own, seen = self._watch.topology, event.operators, self._seen
        inputs = np.isin(own["operator"], topology.inputs)
        tuples = np.where(inputs, own["tuples_out"], own["tuples_in"])
        columns = (own["operator"], tuples, own["errors"], own["late"])
        for operator, count, errors, late in zip(*(one.tolist() for one in columns), strict=True):
            node = topology.by_id.get(operator)
            if node is not None and not node.unifier:
                seen.tuples[node.name] += count
                seen.errors[node.name] += errors
                seen.late[node.name] += late
                seen.lost += errors + late + (count if operator in event.dropped else 0)
        if "loss" in self._kinds:
            seen.entered += int(own["tuples_out"][inputs].sum())

    def _commit(self, at: float, event: WindowCommitted) -> None:
        """Judge with a window that is committed."""
        seen, self._seen = self._seen, Observation()
        for window in [one for one in self._planned if one <= event.window_id]:
            del self._planned[window]
        if self._aged:
            seen.ages = self._watch.take_ages(self._aged)
        if self._through is None:
            self._through = event.at
        if event.began < self._through:
            return
        seen.window_latency = event.published - event.began
        if "latency" in self._kinds:
            try:
                seen.latency = self._watch.window_latencies(event.window_id)
            except KeyError:
                _log.debug("window %d is not kept: the latency of operators is not known", event.window_id)
        self._look(at)
        if self._paused:
            self._keeping.tick(at=at, wall=event.at, paused=True)
        for state in self._keeping.on_window(seen, at=at, wall=event.at):
            self._observe(state)

    def tick(self, at: float) -> None:
        """Judge without a window."""
        if self._through is not None and not self._paused and at - self._looked >= _LOOK_SECONDS:
            self._look(at)
        oldest = min(self._planned.values(), default=at)
        overdue = max(0.0, at - oldest - _HELD_SECONDS)
        wall = self._clock.wall()
        for state in self._keeping.tick(at=at, wall=wall, overdue=overdue, paused=self._paused):
            self._observe(state)

    def _look(self, at: float) -> None:
        """See how long it takes to catch up, if that is promised."""
        if "caught_up_within" in self._kinds:
            self._looked = at
            self._keeping.look(_caught_up_in(self._watch.progress(), self._clock.wall()))


def _caught_up_in(progress: ProgressAnswer, now: float) -> float | None:
    """Seconds until all backlogs are processed; infinite: never, None: not known."""
    whole = progress["application"]
    if whole["verdict"] in {"keeping up", "paced"}:
        return 0.0
    if whole["caughtUpAt"] is not None:
        return max(0.0, whole["caughtUpAt"] - now)
    return math.inf if whole["verdict"] in {"falling behind", "stuck", "not catching up"} else None
