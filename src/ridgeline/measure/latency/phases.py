"""The phases of a window's time: every moment between its trigger and its end put down to one named phase."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest

from ridgeline.measure.events import ContainerWindow
from ridgeline.measure.latency.blame import spark_phases
from ridgeline.measure.latency.slot_path import slot_path
from ridgeline.measure.latency.window import TaskTimes, WindowTimes, in_slots, tasks_by_stage
from ridgeline.measure.topology import Topology

UNEXPLAINED = "unexplained"
BETWEEN = "between windows"
PHASES: Mapping[str, str] = {
    "trigger": "Spark's micro-batch beside its logs, its planning and our turn: latest offsets, calling us, "
    "what it does not name",
    "offset log": "Spark writes the micro-batch's offsets",
    "planning": "Spark plans the micro-batch; the window's requests are made",
    "earlier attempts": "attempts at the window that failed",
    "job launch": "from the requests until the first container has what it needs",
    "worker start": "a Python process begins for a slot: from its fork, or from its daemon's begin if that "
    "was started too",
    "shuffle": "messages on their way from a container to the next one",
    "queue": "a container whose input is there waits for its slot: for earlier windows, or other containers",
    "restore": "state is brought to the version of the window before",
    "decode": "blocks become batches and tuples; work of the engine around callbacks",
    "user code": "callbacks of operators; of a Spark source, reading its rows",
    "encode": "tuples become blocks, blocks messages; messages are sent",
    "record ages": "the ages of an operator's records are taken, after its end",
    "state write": "what has changed of the state is collected and written",
    "reports": "from the end of the last container until the driver has all reports",
    "staging": "outputs stage",
    "manifest": "the manifest is written: the commit",
    "publish": "outputs publish, operators are notified of the commit, old files go",
    "commit log": "Spark writes that the micro-batch is done",
    BETWEEN: "the driver folds events and draws its view before the next window, which waits for it",
    UNEXPLAINED: "what has no name",
}
"""The phases in the order of a window, and their parts."""


def window_phases(topology: Topology, times: WindowTimes) -> dict[str, float]:
    """The seconds of a window by phase, without phases that took none.

    Their sum is the time from the window's trigger to its end.

    The end is the publication, with Spark sources the end of the micro-batch. Of tasks side by side it is the
    time of each stage's slowest, as in the blame chain. In slots it is that of those that were waited for.
    But it is named by what was done in any process, so it has no waiting for a slot or a sibling. Even if
    clocks disagree, no phase is negative and all of them add up.
    """
    over = max(times.published, times.committed)
    triggered = min(times.triggered, over)
    walk = _Walk(over, triggered)
    if times.trigger is not None:
        ended = times.trigger.triggered + times.trigger.phases.get("triggerExecution", 0.0)
        after = max(0.0, ended - over)
        log = min(after, max(0.0, times.trigger.phases.get("commitOffsets", 0.0)))
        walk.seconds = {"commit log": log, "trigger": after - log}
    walk.back_to(times.committed, "publish")
    walk.back_to(times.staged, "manifest")
    walk.back_to(times.returned, "staging")
    walk.floor = min(max(times.launched, triggered), walk.position)
    (_walk_slots if in_slots(times) else _walk_stages)(topology, times, walk)
    walk.floor = triggered
    walk.back_to(times.planned, "planning")
    walk.back_to(times.began, "earlier attempts")
    for what, seconds in spark_phases(times, walk.position - triggered).items():
        walk.add(_OF_SPARK[what], seconds)
    return {phase: walk.seconds[phase] for phase in PHASES if walk.seconds.get(phase)}


_OF_SPARK = {"offsets": "trigger", "log": "offset log", "planning": "planning", "trigger": "trigger"}


class _Walk:
    """Time taken off a window's end piece by piece; the pieces of a phase are added up."""

    def __init__(self, end: float, floor: float) -> None:
        self.position = end
        self.floor = floor
        self.seconds: dict[str, float] = {}

    def add(self, phase: str, seconds: float) -> None:
        self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds

    def back_to(self, start: float, phase: str) -> None:
        """Put the time from `start` to where the walk is down to a phase; nothing is taken below `floor`."""
        start = min(max(start, self.floor), self.position)
        self.add(phase, self.position - start)
        self.position = start


def _walk_stages(topology: Topology, times: WindowTimes, walk: _Walk) -> None:
    """From the last report back to the job's launch, over the slowest task of each stage."""
    slowest = [max(tasks, key=lambda task: _ended(times, task)) for tasks in tasks_by_stage(topology, times)]
    ends = [_ended(times, task) for task in slowest]
    if not slowest:
        walk.back_to(times.launched, UNEXPLAINED)
        return
    walk.back_to(ends[-1], "reports")
    for number in reversed(range(len(slowest))):
        before, arriving = (ends[number - 1], "shuffle") if number else (times.launched, "job launch")
        task = slowest[number]
        for container in reversed(task.containers):
            _walk_container(topology, times, container, walk)
        walk.back_to(task.entered, arriving)
        _walk_arrival(times.containers[task.containers[0]], before, arriving, walk)


def _walk_slots(topology: Topology, times: WindowTimes, walk: _Walk) -> None:
    """From the last report back to the launch, over the producers that were waited for."""
    path = slot_path(topology, times)
    walk.back_to(times.containers[path[0]].ended, "reports")
    for container, producer in zip_longest(path, path[1:]):
        found = times.containers[container]
        _walk_container(topology, times, container, walk)
        walk.back_to(found.ready, "queue")
        if producer is None:
            before, arriving = times.launched, "job launch"
        else:
            before, arriving = times.containers[producer].ended, "shuffle"
        for began, ended in reversed(found.busy_times):
            walk.back_to(max(ended, before), arriving)
            walk.back_to(max(began, before), "queue")
        _walk_arrival(found, before, arriving, walk)


def _walk_arrival(process: ContainerWindow, before: float, arriving: str, walk: _Walk) -> None:
    """From a container's begin back to the end `before` it: its input came, its process may have started."""
    born = process.daemon_began if process.daemon_began > before else process.worker_began
    if born > before:
        walk.back_to(born, "worker start")
    walk.back_to(before, arriving)


def _walk_container(topology: Topology, times: WindowTimes, container: int, walk: _Walk) -> None:
    """Name what a container did, from its end back to its begin."""
    found = times.containers[container]
    walk.back_to(found.ended, UNEXPLAINED)
    walk.back_to(found.written, "encode")
    walk.back_to(found.ran, "state write")
    for number in reversed(topology.containers[container]):
        operator = times.operators.get(number)
        if operator is not None:
            walk.back_to(operator.ended, "record ages")
            walk.back_to(operator.ended - operator.state_seconds, "state write")
            walk.back_to(operator.ended - operator.state_seconds - operator.encode_seconds, "encode")
            walk.back_to(operator.began + operator.compute_seconds, "decode")
            walk.back_to(operator.began, "user code")
    walk.back_to(found.restored, "decode")
    walk.back_to(found.began, "restore")


def _ended(times: WindowTimes, task: TaskTimes) -> float:
    return max(times.containers[container].ended for container in task.containers)
