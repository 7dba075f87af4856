"""The blame chain: the causes of a window's time, from its last event back to its trigger, without a gap."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest

from ridgeline.measure.clocks import corrected_events
from ridgeline.measure.latency.critical_path import ran_meanwhile, slot_path
from ridgeline.measure.latency.window import WindowTimes
from ridgeline.measure.topology import Topology

SMALLEST_STEP = 1e-6
"""Seconds; shorter steps go into their neighbour."""


@dataclass(frozen=True, slots=True)
class BlameStep:
    """A stretch of a window's time. `operator`: the title of the operator whose time it is, or empty.

    `what`, in the order of a window:
    - `offsets`, `log`, `planning`, `trigger`: Spark's micro-batch before Ridgeline's turn (latest offsets,
      offset log, query planning, the rest)
    - `retries`: attempts that did not count
    - `planning`: that of the job
    - `launch`: requests and messages on their way to a container
    - `slot`: the slot was busy with another container or an earlier window; `operator` is the one that fills
      it most
    - `restore`: state
    - `compute`, `transfer`: of an operator
    - `sibling`: compute of one in the same container that was not waited for
    - `state`: state file
    - `other`: between operators
    - `results`: to the driver
    - `stage`: outputs
    - `commit`: the commit
    """

    what: str
    operator: str
    seconds: float


class _Walk:
    """Time taken off a window's end piece by piece.

    No step is negative and their sum is the time walked, also if clocks disagree.
    """

    def __init__(self, end: float, floor: float) -> None:
        self.position = end
        self.floor = floor
        self.steps: list[BlameStep] = []
        """From the last to the first."""

    def back_to(self, start: float, what: str, operator: str = "") -> None:
        """Name the time, if any, from `start` to where the walk is; nothing is taken below `floor`."""
        start = max(start, self.floor)
        if start < self.position:
            self.steps.append(BlameStep(what, operator, self.position - start))
            self.position = start


def blame_chain(topology: Topology, times: WindowTimes) -> tuple[BlameStep, ...]:
    """The blame chain of a window in time order.

    Its steps add up to `times.latency_seconds`, but for the error of floats.
    """
    triggered = min(times.triggered, times.commit.committed)
    walk = _Walk(times.commit.committed, triggered)
    walk.back_to(times.commit.staged, "commit")
    walk.back_to(times.commit.returned, "stage")
    walk.floor = min(max(times.commit.launched, triggered), walk.position)
    _Containers(topology, times, walk).walk()
    walk.floor = triggered
    walk.back_to(times.commit.planned, "planning")
    walk.back_to(times.commit.began, "retries")
    head = [
        BlameStep(what, "", seconds)
        for what, seconds in spark_phases(times, walk.position - triggered).items()
    ]
    return _merged([*head, *reversed(walk.steps)])


class _Containers:
    """The work of containers, for the part of the chain between the launch and the last container's end."""

    def __init__(self, topology: Topology, times: WindowTimes, walk: _Walk) -> None:
        self._topology = topology
        self._times = times
        self._walk = walk
        self._bits, self._lineage = topology.bits, topology.lineage

    def walk(self) -> None:
        """Walk back from the end of the last container to the launch, over the producers each waited for."""
        path = slot_path(self._topology, self._times)
        wanted, arriving = 0, "results" if path else "other"
        for container, producer in zip_longest(path, path[1:]):
            self._walk.back_to(self._times.containers[container].written, arriving)
            for what, operator, start in self._pieces(container, wanted):
                self._walk.back_to(start, what, operator)
            self._queue(container)
            wanted, arriving = self._lineage_of(container), "launch"
            sent = (
                self._times.commit.launched if producer is None else self._times.containers[producer].written
            )
            for began, ended in reversed(self._times.containers[container].busy_times):
                self._walk.back_to(max(ended, sent), arriving)
                self._walk.back_to(max(began, sent), "slot", self._fills(container))
        self._walk.back_to(self._times.commit.launched, arriving)

    def _pieces(self, container: int, wanted: int) -> Iterator[tuple[str, str, float]]:
        """The work of a container, from its end back to its begin: what, of which operator, since when.

        `wanted`: who was waited for; 0: its last operator.
        """
        found = self._times.containers[container]
        ran = [
            operator for operator in self._topology.containers[container] if operator in self._times.operators
        ]
        yield "other", "", found.written
        yield "state", "", found.ran
        wanted = wanted or (self._lineage[ran[-1]] if ran else 0)
        title = ""
        for operator in reversed(ran):
            own, title = self._times.operators[operator], self._topology.by_id[operator].title
            what = "sibling"
            if wanted & self._bits[operator]:
                what, wanted = "compute", self._lineage[operator]
            yield "other", "", own.ended
            yield "transfer", title, min(own.ended, own.began + max(0.0, own.compute_seconds))
            yield what, title, own.began
        yield "transfer" if ran else "other", title, found.restored
        yield "restore", "", found.began

    def _lineage_of(self, container: int) -> int:
        lineage = 0
        for operator in self._topology.containers[container]:
            lineage |= self._lineage[operator]
        return lineage

    def _queue(self, container: int) -> None:
        """From its turn back to when its input was there."""
        came = self._times.containers[container].came
        if came >= self._walk.position:
            return
        for other in ran_meanwhile(self._times, container):
            self._walk.back_to(max(other.written, came), "slot", self._fills(container))
            self._walk.back_to(max(other.began, came), "slot", self._longest((other.container,)))
        self._walk.back_to(came, "slot", self._fills(container))

    def _fills(self, container: int) -> str:
        """The operator that most of the time of a container's slot goes to."""
        task = self._times.containers[container].task
        return self._longest(
            number
            for number, other in corrected_events(self._times.containers).reported.items()
            if other.task == task
        )

    def _longest(self, containers: Iterable[int]) -> str:
        """The operator of these containers that ran longest in the window; empty if none reported."""
        turns = {
            operator: own.ended - own.began
            for container in containers
            for operator in self._topology.containers[container]
            if (own := self._times.operators.get(operator)) is not None
        }
        return self._topology.by_id[max(turns, key=turns.__getitem__)].title if turns else ""


def spark_phases(times: WindowTimes, seconds: float) -> dict[str, float]:
    """The `seconds` from Spark's trigger to Ridgeline's turn, by name in order; empty without Spark."""
    if times.trigger is None:
        return {}
    phases = times.trigger.phases
    named = {}
    for what, parts in {
        "offsets": ("latestOffset",),
        "log": ("walCommit",),
        "planning": ("getBatch", "queryPlanning"),
    }.items():
        named[what] = min(seconds, max(0.0, math.fsum(phases.get(part, 0.0) for part in parts)))
        seconds -= named[what]
    return {**named, "trigger": seconds}


def _merged(steps: list[BlameStep]) -> tuple[BlameStep, ...]:
    """Merge equal neighbours, and steps that are too short into the one before.

    At the begin they go into the one after.
    """
    merged: list[BlameStep] = []
    for step in steps:
        last = merged[-1] if merged else None
        if last is None:
            merged.append(step)
        elif step.seconds < SMALLEST_STEP or (step.what, step.operator) == (last.what, last.operator):
            merged[-1] = BlameStep(last.what, last.operator, last.seconds + step.seconds)
        elif last.seconds < SMALLEST_STEP:
            merged[-1] = BlameStep(step.what, step.operator, step.seconds + last.seconds)
        else:
            merged.append(step)
    return tuple(step for step in merged if step.seconds)
