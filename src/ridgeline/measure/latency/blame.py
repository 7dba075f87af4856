"""The blame chain: the causes of a window's time, from its last event back to its trigger, without a gap."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from ridgeline.api.support.duration import as_ms
from ridgeline.measure.answers.windows import ExplainedAnswer
from ridgeline.measure.clocks import corrected_events
from ridgeline.measure.latency.critical_path import CriticalPath, producers, ran_meanwhile, slot_path
from ridgeline.measure.latency.operator_latency import OperatorLatency
from ridgeline.measure.latency.window import Stages, TaskTimes, WindowTimes, in_slots, tasks_by_stage
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
    - `launch`: Spark starts a stage, shuffle
    - `read`: the task reads what was sent to it
    - `slot`: the slot was busy with another container or an earlier window; `operator` is the one that fills
      it most
    - `restore`: state
    - `compute`, `transfer`: of an operator
    - `sibling`: compute of one in the same container that was not waited for
    - `barrier`: a task of the stage before that only Spark waited for
    - `state`: state file
    - `other`: between operators
    - `results`: to the driver
    - `stage`: outputs
    - `commit`: the commit
    """

    what: str
    operator: str
    seconds: float


class _Piece(NamedTuple):
    """The work of a container from `start` until the next piece.

    `nearest`: the operator that stands for it among other containers.
    """

    what: str
    operator: str
    nearest: str
    start: float


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


def blame_chain(
    topology: Topology, times: WindowTimes, stages: Stages | None = None
) -> tuple[BlameStep, ...]:
    """The blame chain of a window in time order.

    Its steps add up to `times.latency_seconds`, but for the error of floats. `stages`: its `tasks_by_stage`,
    where they are known.
    """
    triggered = min(times.triggered, times.committed)
    walk = _Walk(times.committed, triggered)
    walk.back_to(times.staged, "commit")
    walk.back_to(times.returned, "stage")
    walk.floor = min(max(times.launched, triggered), walk.position)
    if in_slots(times):
        _Slots(topology, times, walk).walk()
    else:
        _Stages(topology, times, walk, stages or tasks_by_stage(topology, times)).walk()
    walk.floor = triggered
    walk.back_to(times.planned, "planning")
    walk.back_to(times.began, "retries")
    head = [
        BlameStep(what, "", seconds)
        for what, seconds in spark_phases(times, walk.position - triggered).items()
    ]
    return _merged([*head, *reversed(walk.steps)])


def explain(
    topology: Topology, times: WindowTimes, path: CriticalPath, latencies: Mapping[int, OperatorLatency]
) -> ExplainedAnswer:
    """Why the window took longer than its critical path.

    `windowLatencyMs` is `criticalPathMs` plus the sum of `rest`, milliseconds by name.

    The names in `rest` are those of the blame chain, with three differences. `launch` is all between the
    job's launch and the turn of the path's first operator, but for `slot`: what its container waited for its
    slot. `wait` is what the path's operators waited for stages, slots and siblings. `barrier` is the time
    from the path's end to the end of the last container. `other` is what no name has; it is negative only
    where clocks disagree by more than that.
    """
    rest = spark_phases(times, max(0.0, min(times.began, times.committed) - times.triggered))
    rest |= {"retries": times.planned - times.began}
    rest["planning"] = rest.get("planning", 0.0) + times.launched - times.planned
    ran = [times.operators[operator] for operator in path.path if operator in times.operators]
    if ran:
        own = [latencies[operator].own for operator in path.path if operator in latencies]
        written = ran[-1].ended
        if times.containers:
            written = float(corrected_events(times.containers).column("written").max())
        queued = _queued(topology, times, path.path)
        rest |= {
            "launch": ran[0].began - times.launched - queued,
            "slot": queued,
            "transfer": ran[0].ended - ran[0].began - own[0],
            "wait": ran[-1].ended - ran[0].ended - math.fsum(own[1:]),
            "barrier": written - ran[-1].ended,
            "results": times.returned - written,
        }
    rest |= {"stage": times.staged - times.returned, "commit": times.committed - times.staged}
    rest = {what: seconds for what, seconds in rest.items() if seconds >= SMALLEST_STEP}
    other = times.latency_seconds - path.latency_seconds - math.fsum(rest.values())
    if abs(other) >= SMALLEST_STEP:
        rest["other"] = other
    return {
        "windowLatencyMs": as_ms(times.latency_seconds),
        "criticalPathMs": as_ms(path.latency_seconds),
        "rest": {what: as_ms(seconds) for what, seconds in rest.items()},
    }


def _queued(topology: Topology, times: WindowTimes, path: Sequence[int]) -> float:
    """How long the container of the path's first operator waited for its slot, in seconds.

    Between the launch and its turn the slot ran other containers, or earlier windows.
    """
    first = next(operator for operator in path if operator in times.operators)
    home = topology.by_id[first].container
    if home not in times.containers or not in_slots(times):
        return 0.0
    found, turn = times.containers[home], times.operators[first].began
    stretches = [*found.busy_times, (found.ready, found.began)]
    clamped = [(max(began, times.launched), min(ended, turn)) for began, ended in stretches]
    return math.fsum(max(0.0, ended - began) for began, ended in clamped)


class _Containers:
    """The work of containers, for the part of the chain between the launch and the last container's end."""

    def __init__(self, topology: Topology, times: WindowTimes, walk: _Walk) -> None:
        self._topology = topology
        self._times = times
        self._walk = walk
        self._bits, self._lineage = topology.bits, topology.lineage

    def _pieces(self, container: int, wanted: int) -> Iterator[_Piece]:
        """The work of a container, from its end back to its begin.

        `wanted`: who was waited for; 0: its last operator.
        """
        found = self._times.containers[container]
        ran = [
            operator for operator in self._topology.containers[container] if operator in self._times.operators
        ]
        titles = [self._topology.by_id[operator].title for operator in ran] or [""]
        yield _Piece("other", "", titles[-1], found.written)
        yield _Piece("state", "", titles[-1], found.ran)
        wanted = wanted or (self._lineage[ran[-1]] if ran else 0)
        for operator, title in zip(reversed(ran), reversed(titles), strict=False):
            own = self._times.operators[operator]
            what = "sibling"
            if wanted & self._bits[operator]:
                what, wanted = "compute", self._lineage[operator]
            yield _Piece("other", "", title, own.ended)
            yield _Piece("transfer", title, title, min(own.ended, own.began + max(0.0, own.compute_seconds)))
            yield _Piece(what, title, title, own.began)
        yield _Piece("transfer" if ran else "other", titles[0], titles[0], found.restored)
        yield _Piece("restore", "", titles[0], found.began)

    def _lineage_of(self, container: int) -> int:
        lineage = 0
        for operator in self._topology.containers[container]:
            lineage |= self._lineage[operator]
        return lineage


class _Slots(_Containers):
    """In slots: from the last container over the producers that each waited for."""

    def walk(self) -> None:
        """Walk back from the end of the last container to the launch."""
        wanted, arriving = 0, "results"
        path = slot_path(self._topology, self._times)
        for container, producer in zip_longest(path, path[1:]):
            self._walk.back_to(self._times.containers[container].written, arriving)
            for piece in self._pieces(container, wanted):
                self._walk.back_to(piece.start, piece.what, piece.operator)
            self._queue(container)
            wanted, arriving = self._lineage_of(container), "launch"
            sent = self._times.launched if producer is None else self._times.containers[producer].written
            for began, ended in reversed(self._times.containers[container].busy_times):
                self._walk.back_to(max(ended, sent), arriving)
                self._walk.back_to(max(began, sent), "slot", self._fills(container))
        self._walk.back_to(self._times.launched, arriving)

    def _queue(self, container: int) -> None:
        """From its turn back to when its input was there."""
        ready = self._times.containers[container].ready
        if ready >= self._walk.position:
            return
        for other in ran_meanwhile(self._times, container):
            self._walk.back_to(max(other.written, ready), "slot", self._fills(container))
            self._walk.back_to(max(other.began, ready), "slot", self._longest((other.container,)))
        self._walk.back_to(ready, "slot", self._fills(container))

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


class _Stages(_Containers):
    """With a job for each window: stage by stage, each after the slowest task of the one before."""

    def __init__(self, topology: Topology, times: WindowTimes, walk: _Walk, stages: Stages) -> None:
        super().__init__(topology, times, walk)
        self._stages = stages
        self._task_ended = {
            container: task.ended for tasks in self._stages for task in tasks for container in task.containers
        }

    def walk(self) -> None:
        """Walk back from the end of the last stage to the job's launch, over each stage's slowest task."""
        consumer: int | None = None
        for tasks in reversed(self._stages):
            slowest = max(tasks, key=lambda task: task.ended)
            self._walk.back_to(slowest.ended, "results" if consumer is None else "launch")
            self._walk_task(slowest, consumer)
            consumer = slowest.containers[0]
        self._walk.back_to(self._times.launched, "other" if consumer is None else "launch")

    def _walk_task(self, task: TaskTimes, consumer: int | None) -> None:
        """From the task's end to its begin.

        `consumer`: the container of the next stage that could not begin before that.
        """
        waited, wanted, needless = task.containers[-1], 0, math.inf
        if consumer is not None:
            sources = producers(self._topology, self._times, consumer)
            held = [container for container in task.containers if container in sources]
            if held:
                waited, wanted = held[-1], self._lineage_of(consumer)
            else:
                needless = max((self._task_ended[container] for container in sources), default=-math.inf)
        first = ""
        for container in reversed(task.containers):
            for piece in self._pieces(container, wanted if container == waited else 0):
                first = piece.nearest
                self._take(
                    piece if container == waited else _Piece("slot", first, first, piece.start), needless
                )
        self._take(_Piece("read", "", first, task.entered), needless)

    def _take(self, piece: _Piece, needless: float) -> None:
        """Name a piece; after `needless` only Spark's barrier made others wait for it."""
        if self._walk.position > needless:
            self._walk.back_to(max(piece.start, needless), "barrier", piece.nearest)
        self._walk.back_to(piece.start, piece.what, piece.operator)


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
