"""The progress of an application of several regions: what waits in sources and in queues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from ridgeline.measure.answers.progress import BacklogAnswer, ProgressAnswer, SinkBacklogAnswer, SourceAnswer
from ridgeline.measure.answers.regions import QueueAnswer
from ridgeline.measure.progress.backlog import Verdict, worst
from ridgeline.regions.paths import sinks_of
from ridgeline.regions.sums import state_of
from ridgeline.regions.view import RegionView

_RUNS = {"RUNNING", "PENDING", "PAUSED"}


class Lot(NamedTuple):
    """The backlog of one source or queue. `seconds`: to work it off; None: unknown, or it has no end."""

    records: float | None
    seconds: float | None
    caught_up_at: float | None
    verdict: Verdict
    endless: bool = False


def joined_progress(
    views: Sequence[RegionView], progress: Mapping[str, ProgressAnswer], queues: Sequence[QueueAnswer]
) -> ProgressAnswer:
    """The progress of all regions. `window` is of the one whose window takes longest.

    `sources` are those of the application: readers of queues are in `queues`.
    """
    readers = {row["reader"] for row in queues}
    shown = max(progress.values(), key=_interest)
    sources = [row for one in progress.values() for row in one["sources"] if row["operator"] not in readers]
    return {
        **shown,
        "operators": list(chain.from_iterable(one["operators"] for one in progress.values())),
        "containers": list(chain.from_iterable(one["containers"] for one in progress.values())),
        "sources": sources,
        "application": _application(views, progress, sources, queues),
        "queues": list(queues),
        "sinks": _sinks(views, sources, queues),
    }


def _interest(one: ProgressAnswer) -> tuple[bool, float]:
    return one["running"], one["elapsedSeconds"] or 0.0


def _application(
    views: Sequence[RegionView],
    progress: Mapping[str, ProgressAnswer],
    sources: Sequence[SourceAnswer],
    queues: Sequence[QueueAnswer],
) -> BacklogAnswer:
    """The backlog over all sources and queues."""
    answers = {name: one["application"] for name, one in progress.items()}
    lots = [*map(_source, sources), *map(_queue, queues)]
    running = [answers[view.name] for view in views if state_of(view.region) in _RUNS]
    verdict = worst(
        [*(Verdict(one["verdict"]) for one in running), *(Verdict(row["verdict"]) for row in queues)]
    )
    records = [lot.records for lot in lots if lot.records is not None]
    seconds = [lot.seconds for lot in lots if lot.seconds is not None]
    late = [one["windowsBehind"] for one in running if one["windowsBehind"] is not None]
    as_of = [one["asOf"] for one in running if one["asOf"] is not None]
    bases = [one["basis"] for one in running if one["basis"] not in {"unknown", "schedule"}]
    found: BacklogAnswer = {
        "backlogRecords": sum(records) if records else None,
        "backlogSeconds": max(seconds, default=None),
        "basis": max(bases, key=_weakness, default="exact" if queues else "unknown"),
        "caughtUpAt": _caught_up(lots) if verdict is Verdict.CATCHING_UP else None,
        "asOf": min(as_of, default=None),
        "stuckOutputs": list(chain.from_iterable(one["stuckOutputs"] for one in running)),
        "stuckStores": list(chain.from_iterable(one["stuckStores"] for one in running)),
        "unreachable": list(chain.from_iterable(one["unreachable"] for one in running)),
        "verdict": verdict.value,
        "windowsBehind": max(late, default=None),
    }
    if any(lot.endless for lot in lots):
        found["backlogSeconds"], found["infinite"] = None, True
    return found


def _weakness(basis: str) -> int:
    return ("exact", "estimated", "lower bound").index(basis)


def _source(row: SourceAnswer) -> Lot:
    infinite = row.get("infinite", False)
    records = row["backlogRecords"]
    if records is None and row["unit"] == "tuples":
        records = row["backlog"]["value"]
    return Lot(records, row["backlogSeconds"], row["caughtUpAt"], Verdict(row["verdict"]), infinite)


def _queue(row: QueueAnswer) -> Lot:
    """The backlog of a queue; without an end if its reader does not run."""
    tuples, pace = row["backlogRecords"], row["readPerSecond"]
    seconds = 0.0 if not tuples else tuples / pace if pace else None
    return Lot(tuples, seconds, row["caughtUpAt"], Verdict(row["verdict"]), endless=seconds is None)


def _caught_up(lots: Iterable[Lot]) -> float | None:
    """When all have caught up that have something left; None if one does not."""
    ends = [lot.caught_up_at for lot in lots if lot.verdict is Verdict.CATCHING_UP]
    known = [end for end in ends if end is not None]
    return max(known) if known and len(known) == len(ends) else None


def _sinks(
    views: Sequence[RegionView], sources: Sequence[SourceAnswer], queues: Sequence[QueueAnswer]
) -> list[SinkBacklogAnswer]:
    """The backlog of each output operator: in the sources and queues of its region and of those before."""
    found: list[SinkBacklogAnswer] = []
    for view in views:
        above = before(view.name, queues)
        lots = [_source(row) for row in sources if row.get("region") in above]
        lots += [_queue(row) for row in queues if row["readerRegion"] in above]
        records = [lot.records for lot in lots if lot.records is not None]
        seconds = [lot.seconds for lot in lots]
        known = [one for one in seconds if one is not None]
        verdict = worst(lot.verdict for lot in lots)
        found += [
            {
                "operator": name,
                "region": view.name,
                "backlogRecords": sum(records) if records else None,
                "backlogSeconds": max(known) if known and len(known) == len(seconds) else None,
                "caughtUpAt": _caught_up(lots) if verdict is Verdict.CATCHING_UP else None,
                "verdict": verdict.value,
            }
            for name in sinks_of(view)
        ]
    return found


def before(region: str, queues: Sequence[QueueAnswer]) -> set[str]:
    """A region, and all from which its records come."""
    found = {region}
    while more := {row["writerRegion"] for row in queues if row["readerRegion"] in found} - found:
        found |= more
    return found
