"""The critical path of an application of several regions: from the latest sink back through its queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from statistics import fmean
from typing import Any, NamedTuple

from ridgeline.measure.answers.windows import CriticalPathAnswer
from ridgeline.regions.queues import QueueMeter
from ridgeline.regions.sums import joined
from ridgeline.regions.view import RegionView

_AVERAGED = 10
"""Windows that the average wait in a queue is over."""


class Wait(NamedTuple):
    """The time that the records of a window waited in a queue: from the writer's commit to its begin.

    `window`: the writer's window of the oldest of them. `average_ms`: over the last windows that read any.
    """

    meter: QueueMeter
    window: int
    ms: float
    average_ms: float


def joined_path(views: Sequence[RegionView], meters: Sequence[QueueMeter]) -> CriticalPathAnswer:
    """The path to the sink that is latest: that of its region, of the queue before, of the writer's region.

    A path that begins at a source of its region ends there.
    """
    ends = [view for view in views if sinks_of(view)] if len(views) > 1 else views
    found = [_path(view, views, meters, None) for view in ends]
    latest = max(found, key=lambda one: one["windowLatencyMs"] or 0.0, default=None)
    if latest is not None and latest["path"]:
        return latest
    nothing: CriticalPathAnswer = views[0].critical_path()
    return nothing


def sinks_of(view: RegionView) -> list[str]:
    """The names of operators that no other one reads from, without the writers of queues."""
    logical, writers = view.region.plan.logical, {edge.writer for edge in view.region.region.writes}
    sources = {stream.source.operator for stream in logical.streams}
    return [one.name for one in logical.operators if one.name not in sources | writers]


def _path(
    view: RegionView, views: Sequence[RegionView], meters: Sequence[QueueMeter], window_id: int | None
) -> CriticalPathAnswer:
    """The path to a region's window (None: the last), with all before it."""
    try:
        own: CriticalPathAnswer = view.critical_path(window_id)
    except KeyError:  # it is not kept any more
        own = view.critical_path()
    windows: Any = {view.name: own["windowId"]}
    path: CriticalPathAnswer = {**own, "region": view.name, "windows": windows}
    wait = _wait(view, path, meters)
    if wait is None:
        return path
    writer = next(one for one in views if one.name == wait.meter.edge.writer_region)
    before = _path(writer, views, meters, wait.window)
    parts = [before, _waited(wait, path), path]
    found: CriticalPathAnswer = joined(parts, windowId=itemgetter(-1), region=itemgetter(-1), average=joined)
    return found


def _waited(wait: Wait, path: CriticalPathAnswer) -> Mapping[str, Any]:
    """The wait in a queue as a path of one step before another one."""
    title = f"waits in queue {wait.meter.edge.stream}"
    step = {
        "operator": title,
        "id": path["path"][0]["id"],
        "latencyMs": wait.ms,
        "computeMs": 0.0,
        "cpuMs": 0.0,
        "transferMs": wait.ms,
        "kind": "queue",
        "region": wait.meter.edge.reader_region,
    }
    return {
        "path": [step],
        "blame": [{"what": "queue", "operator": title, "ms": wait.ms}],
        "latencyMs": wait.ms,
        "average": {"latencyMs": wait.average_ms, "path": [title]},
        "windowLatencyMs": wait.ms,
    }


def _wait(view: RegionView, path: CriticalPathAnswer, meters: Sequence[QueueMeter]) -> Wait | None:
    """The wait in the queue where a path begins; None without one, or if the window read nothing."""
    steps, window_id = path["path"], path["windowId"]
    if not steps or window_id is None:
        return None
    node = view.watch.topology.by_id.get(steps[0]["id"])
    for meter in meters:
        if meter.edge.reader_region == view.name and node is not None and node.name == meter.edge.reader:
            found = [
                wait for one in range(window_id - _AVERAGED + 1, window_id + 1) if (wait := _of(meter, one))
            ]
            if found and found[-1][0] == window_id:
                _, window, ms = found[-1]
                return Wait(meter, window, ms, fmean(ms for _, _, ms in found))
    return None


def _of(meter: QueueMeter, window_id: int) -> tuple[int, int, float] | None:
    """The window, that of the writer which it read first, and how long that had waited, in milliseconds."""
    read, log = meter.window(window_id), meter.log
    if read is None or read.rows <= read.before:
        return None
    with log.lock:
        log.read()
        entry = log.entry(log.position_of(read.before))
    if entry is None:
        return None
    return window_id, entry.window, 1000 * max(0.0, read.began - entry.time)
