"""The answers about regions and queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ridgeline.measure.answers.progress import ProgressAnswer
from ridgeline.measure.answers.regions import QueueAnswer, RegionAnswer
from ridgeline.measure.progress.backlog import Verdict
from ridgeline.regions.queues import QueueMeter, Waiting, waiting
from ridgeline.regions.sums import failure_of, state_of
from ridgeline.regions.view import RegionView


def queue_rows(
    meters: Sequence[QueueMeter], progress: Mapping[str, ProgressAnswer], now: float
) -> list[QueueAnswer]:
    """The queues, a row for each reader. `progress`: that of each region."""
    return [_queue(meter, progress[meter.edge.reader_region], now) for meter in meters]


def _queue(meter: QueueMeter, progress: ProgressAnswer, now: float) -> QueueAnswer:
    """The row of one reader; `progress`: of its region."""
    edge, found = meter.edge, waiting(meter, now)
    state = state_of(meter.reader)
    seen = next((one["verdict"] for one in progress["sources"] if one["operator"] == edge.reader), "")
    gained = found.read - found.written
    catches_up = found.tuples > 0 and gained > 0 and seen == Verdict.CATCHING_UP
    return {
        "stream": edge.stream,
        "writer": edge.writer,
        "writerRegion": edge.writer_region,
        "reader": edge.reader,
        "readerRegion": edge.reader_region,
        "backlogRecords": found.tuples,
        "backlogBytes": found.bytes,
        "backlogSeconds": found.seconds,
        "writtenPerSecond": found.written,
        "readPerSecond": found.read,
        "caughtUpAt": now + found.tuples / gained if catches_up else None,
        "verdict": _verdict(state, found, seen),
        "full": found.full,
        "fullAt": found.full_at,
        "fullInSeconds": None if found.full_at is None else max(0.0, found.full_at - now),
        "keepSeconds": meter.keep_seconds,
        "keepBytes": meter.keep_bytes,
    }


def _verdict(state: str, found: Waiting, seen: str) -> str:
    """The verdict of the reader; of one that does not run, what follows from what waits."""
    if state in {"RUNNING", "PENDING"}:
        return seen or Verdict.UNKNOWN.value
    if not found.tuples:
        return Verdict.KEEPING_UP.value
    if state == "FAILED":
        return Verdict.STUCK.value
    return Verdict.FALLING_BEHIND.value if found.written > 0 else Verdict.HOLDING.value


def region_rows(views: Sequence[RegionView], queues: Sequence[QueueAnswer]) -> list[RegionAnswer]:
    """The regions, in topological order."""
    return [_region(view, queues) for view in views]


def _region(view: RegionView, queues: Sequence[QueueAnswer]) -> RegionAnswer:
    """The row of one region, with those of `queues` that it has an end of."""
    region, info = view.region, view.watch.info()
    last = next(iter(view.watch.windows(1)), None)
    return {
        "name": view.name,
        "number": region.number,
        "state": state_of(region),
        "error": failure_of(region),
        "operators": [one.name for one in region.plan.logical.operators],
        "windowSeconds": region.plan.logical.window_seconds,
        "committedWindow": info["stats"]["recoveryWindowId"] if "id" in info else None,
        "latencyMs": None if last is None else last["latencyMs"],
        "reads": [row for row in queues if row["readerRegion"] == view.name],
        "writes": [row for row in queues if row["writerRegion"] == view.name],
    }
