"""The critical path of an application of several regions: from the latest sink back through its queues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from statistics import fmean
from typing import Any, NamedTuple, cast

from ridgeline.measure.answers.windows import BlameStepAnswer, CriticalPathAnswer, PathStepAnswer
from ridgeline.regions.queues import QueueMeter
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


class Part(NamedTuple):
    """A region on the path: its path in a window, and the wait before that window."""

    view: RegionView
    path: CriticalPathAnswer
    wait: Wait | None


def joined_path(views: Sequence[RegionView], meters: Sequence[QueueMeter]) -> CriticalPathAnswer:
    """The path to the sink that is latest: that of its region, of the queue before, of the writer's region.

    A path that begins at a source of its region ends there.
    """
    ends = [view for view in views if sinks_of(view)] if len(views) > 1 else views
    chains = [_chain(view, views, meters, None) for view in ends]
    latest = max(chains, key=_length, default=None)
    if latest is None or not latest[-1].path["path"]:
        return views[0].critical_path()
    return _joined(latest)


def sinks_of(view: RegionView) -> list[str]:
    """The names of operators that no other one reads from, without the writers of queues."""
    logical, writers = view.region.plan.logical, {edge.writer for edge in view.region.region.writes}
    sources = {stream.source.operator for stream in logical.streams}
    return [one.name for one in logical.operators if one.name not in sources | writers]


def _chain(
    view: RegionView, views: Sequence[RegionView], meters: Sequence[QueueMeter], window_id: int | None
) -> list[Part]:
    """The parts of the path to a region's window (None: the last), the first one first."""
    try:
        path = view.critical_path(window_id)
    except KeyError:  # it is not kept any more
        path = view.critical_path()
    wait = _wait(view, path, meters)
    if wait is None:
        return [Part(view, path, None)]
    before = next(one for one in views if one.name == wait.meter.edge.writer_region)
    return [*_chain(before, views, meters, wait.window), Part(view, path, wait)]


def _wait(view: RegionView, path: CriticalPathAnswer, meters: Sequence[QueueMeter]) -> Wait | None:
    """The wait in the queue where a path begins; None without one, or if the window read nothing."""
    steps, window_id = path["path"], path["windowId"]
    if not steps or window_id is None:
        return None
    node = view.watch.topology.by_id.get(view.own_id(steps[0]["id"]))
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
    if read is None or log is None or read.rows <= read.before:
        return None
    with log.lock:
        log.read()
        entry = log.entry(log.position_of(read.before))
    if entry is None:
        return None
    return window_id, entry.window, 1000 * max(0.0, read.began - entry.time)


def _length(parts: Sequence[Part]) -> float:
    """Milliseconds from the trigger of the first window to the commit of the last, with waits."""
    return sum(part.path["windowLatencyMs"] or 0.0 for part in parts) + sum(
        part.wait.ms for part in parts if part.wait is not None
    )


def _joined(parts: Sequence[Part]) -> CriticalPathAnswer:
    """The answer for a path of several regions: one after the other, with the waits between."""
    steps: list[PathStepAnswer] = []
    blame: list[BlameStepAnswer] = []
    titles: list[str] = []
    for part in parts:
        if part.wait is not None:
            steps.append(_queue_step(part.wait, part.path["path"][0]["id"]))
            blame.append({"what": "queue", "operator": _title(part.wait), "ms": part.wait.ms})
            titles.append(_title(part.wait))
        steps += part.path["path"]
        blame += part.path["blame"]
        titles += part.path["average"]["path"]
    last, waits = parts[-1], [part.wait for part in parts if part.wait is not None]
    averages = [part.path["average"]["latencyMs"] for part in parts]
    return {
        "windowId": last.path["windowId"],
        "region": last.view.name,
        "latencyMs": sum(step["latencyMs"] or 0.0 for step in steps),
        "path": steps,
        "slack": _merged(part.path["slack"] for part in parts),
        "blame": blame,
        "held": list(chain.from_iterable(part.path["held"] for part in parts)),
        "average": {
            "latencyMs": sum(one or 0.0 for one in averages) + sum(wait.average_ms for wait in waits),
            "path": titles,
        },
        "share": _merged(part.path["share"] for part in parts),
        "logicalShare": _merged(part.path["logicalShare"] for part in parts),
        "windowLatencyMs": _length(parts),
        "windows": {part.view.name: cast("int", part.path["windowId"]) for part in parts},
    }


def _queue_step(wait: Wait, reader: int) -> PathStepAnswer:
    """The wait in a queue as a step. `reader`: the id of the operator that read it."""
    step: Any = {
        "operator": _title(wait),
        "id": reader,
        "latencyMs": wait.ms,
        "computeMs": 0.0,
        "cpuMs": 0.0,
        "transferMs": wait.ms,
        "kind": "queue",
        "region": wait.meter.edge.reader_region,
    }
    return cast("PathStepAnswer", step)


def _title(wait: Wait) -> str:
    return f"waits in queue {wait.meter.edge.stream}"


def _merged(rows: Iterable[Mapping[str, float]]) -> dict[str, float]:
    return {title: value for row in rows for title, value in row.items()}
