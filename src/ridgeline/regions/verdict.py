"""The verdict of an application of several regions: who is to blame for it, and what waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from ridgeline.measure.answers.progress import (
    BacklogAnswer,
    EstimateAnswer,
    ProgressAnswer,
    SinkBacklogAnswer,
    SourceAnswer,
)
from ridgeline.measure.answers.regions import QueueAnswer
from ridgeline.measure.progress.verdict import Verdict, worst
from ridgeline.measure.wording.units import duration, milliseconds
from ridgeline.measure.wording.waiting import one_line
from ridgeline.regions.paths import sinks_of
from ridgeline.regions.sums import failure_of, state_of
from ridgeline.regions.view import RegionView

_GOOD = {Verdict.KEEPING_UP, Verdict.PACED}
_SAID = {"FAILED", "STOPPED", "PAUSED"}
_NOT_KNOWN: EstimateAnswer = {"value": None, "basis": "unknown"}


def because(views: Sequence[RegionView], queues: Sequence[QueueAnswer], now: float) -> list[str]:
    """Reasons of the verdict, a clause each: regions that do not run, full queues, slow readers."""
    return [*_ended(views, queues, now), *_full(views, queues), *_behind(views, queues, now)]


def _ended(views: Sequence[RegionView], queues: Sequence[QueueAnswer], now: float) -> Iterator[str]:
    """The regions that have failed or are stopped, and how long their queues have room."""
    for view in views:
        state = state_of(view.region)
        if state not in _SAID:
            continue
        text = f"region {view.name} is {state.lower()}"
        if state == "FAILED":
            text = f"region {view.name} has failed ({one_line(failure_of(view.region))})"
        own = [row for row in queues if row["readerRegion"] == view.name]
        rooms = [_room(row, now) for row in own if row["backlogRecords"] or row["full"]]
        yield ", ".join([text, *rooms])


def _room(row: QueueAnswer, now: float) -> str:
    """The rows that a queue keeps for a region that does not run, and for how long there is room."""
    text = f"queue {row['stream']} keeps {row['backlogRecords']:,} tuples for it"
    if row["full"]:
        return f"{text} and is full: region {row['writerRegion']} is held back"
    return (
        text
        if row["fullAt"] is None
        else f"{text} and has room for {duration(max(0.0, row['fullAt'] - now))}"
    )


def _full(views: Sequence[RegionView], queues: Sequence[QueueAnswer]) -> Iterator[str]:
    """The regions that wait since a queue is full whose reader runs."""
    for row in queues:
        reader = next(view for view in views if view.name == row["readerRegion"])
        state = state_of(reader.region)
        if row["full"] and state not in _SAID:
            how = "reads too slowly" if state == "RUNNING" else f"is {state.lower()}"
            yield (
                f"region {row['writerRegion']} is held back: queue {row['stream']} is full, since region "
                f"{row['readerRegion']} {how}"
            )


def _behind(views: Sequence[RegionView], queues: Sequence[QueueAnswer], now: float) -> Iterator[str]:
    """The queues that wait for a slow region, and the operator that takes most of its time."""
    for row in queues:
        view = next(view for view in views if view.name == row["readerRegion"])
        if Verdict(row["verdict"]) in {*_GOOD, Verdict.UNKNOWN, Verdict.SETTLING}:
            continue
        if state_of(view.region) != "RUNNING" or not row["backlogRecords"]:
            continue
        text = (
            f"queue {row['stream']} waits for region {view.name} "
            f"({row['backlogRecords']:,} tuples, the oldest {duration(row['backlogSeconds'])})"
        )
        text += _blamed(view)
        if row["fullAt"] is not None and not row["full"] and row["verdict"] == Verdict.FALLING_BEHIND:
            text += f", and is full in {duration(max(0.0, row['fullAt'] - now))}"
        yield text
    for view in views:
        progress = view.watch.progress()
        slow = [
            one
            for one in progress["sources"]
            if Verdict(one["verdict"]) in {Verdict.FALLING_BEHIND, Verdict.STUCK, Verdict.UNREACHABLE}
            and all(row["reader"] != one["operator"] for row in queues)
        ]
        held = any(row["full"] and row["writerRegion"] == view.name for row in queues)
        for one in slow if not held and state_of(view.region) == "RUNNING" else ():
            why = f" ({one['problem']})" if one["problem"] else ""
            yield f"source {one['operator']} waits for region {view.name}{why}{_blamed(view)}"


def _blamed(view: RegionView) -> str:
    """The operator with the longest step of the last window's path; empty before the first window."""
    path = view.watch.critical_path()
    step = max(path["path"], key=lambda one: one["latencyMs"] or 0.0, default=None)
    if step is None or not path["windowLatencyMs"]:
        return ""
    took, whole = milliseconds(step["latencyMs"] or 0.0), milliseconds(path["windowLatencyMs"])
    return f", where {step['operator']} takes {took} of a window of {whole}"


# The progress of an application of several regions: what waits in sources and in queues.

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
        "oldest": max(map(_oldest, running), key=lambda one: one["value"] or 0.0, default=_NOT_KNOWN),
        "bottleneck": next((one["bottleneck"] for one in running if one["bottleneck"]), None),
    }
    if any(lot.endless for lot in lots):
        found["backlogSeconds"], found["infinite"] = None, True
    return found


def _oldest(one: BacklogAnswer) -> EstimateAnswer:
    return one["oldest"]


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
