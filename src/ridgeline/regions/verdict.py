"""The verdict of an application of several regions: who is to blame for it, and what waits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from ridgeline.measure.answers.progress import (
    BacklogAnswer,
    EstimateAnswer,
    ProgressAnswer,
    SourceAnswer,
)
from ridgeline.measure.answers.regions import QueueAnswer
from ridgeline.measure.progress.verdict import Verdict, worst
from ridgeline.measure.wording.units import duration, milliseconds
from ridgeline.measure.wording.waiting import one_line
from ridgeline.regions.region_run import failure_of, state_of
from ridgeline.regions.sums import greatest, greatest_if_known, joined, least, total
from ridgeline.regions.view import RegionView

_GOOD = {Verdict.KEEPING_UP, Verdict.PACED}
_SAID = {"FAILED", "STOPPED", "PAUSED"}
_RUNS = {"RUNNING", "PENDING", "PAUSED"}
_SLOW = {Verdict.FALLING_BEHIND, Verdict.STUCK, Verdict.UNREACHABLE}
_BASES = ("exact", "estimated", "lower bound")
_NOT_KNOWN: EstimateAnswer = {"value": None, "basis": "unknown"}


class States(NamedTuple):
    """How the regions are, as of one moment, by their names in topological order."""

    views: Mapping[str, RegionView]
    state: Mapping[str, str]
    progress: Mapping[str, ProgressAnswer]

    @classmethod
    def of(cls, views: Sequence[RegionView], progress: Sequence[ProgressAnswer]) -> States:
        """Of these regions. `progress`: the answers of each."""
        names = [view.name for view in views]
        return cls(
            dict(zip(names, views, strict=True)),
            {view.name: state_of(view.region) for view in views},
            dict(zip(names, progress, strict=True)),
        )


def because(states: States, queues: Sequence[QueueAnswer]) -> list[str]:
    """Reasons of the verdict, a clause each: regions that do not run, full queues, slow readers."""
    return [*_ended(states, queues), *_full(states, queues), *_behind(states, queues)]


def _ended(states: States, queues: Sequence[QueueAnswer]) -> Iterator[str]:
    """The regions that have failed or are stopped, and how long their queues have room."""
    for name, state in states.state.items():
        if state in _SAID:
            text = f"region {name} is {state.lower()}"
            if state == "FAILED":
                text = f"region {name} has failed ({one_line(failure_of(states.views[name].region))})"
            own = [row for row in queues if row["readerRegion"] == name]
            rooms = [_room(row) for row in own if row["backlogRecords"] or row["full"]]
            yield ", ".join([text, *rooms])


def _room(row: QueueAnswer) -> str:
    """The rows that a queue keeps for a region that does not run, and for how long there is room."""
    text = f"queue {row['stream']} keeps {row['backlogRecords']:,} tuples for it"
    if row["full"]:
        return f"{text} and is full: region {row['writerRegion']} is held back"
    left = row["fullInSeconds"]
    return text if left is None else f"{text} and has room for {duration(left)}"


def _full(states: States, queues: Sequence[QueueAnswer]) -> Iterator[str]:
    """The regions that wait since a queue is full whose reader runs."""
    for row in queues:
        state = states.state[row["readerRegion"]]
        if row["full"] and state not in _SAID:
            how = "reads too slowly" if state == "RUNNING" else f"is {state.lower()}"
            yield (
                f"region {row['writerRegion']} is held back: queue {row['stream']} is full, since region "
                f"{row['readerRegion']} {how}"
            )


def _behind(states: States, queues: Sequence[QueueAnswer]) -> Iterator[str]:
    """The queues and sources that wait for a slow region, and the operator that takes most of its time."""
    running = {name for name, state in states.state.items() if state == "RUNNING"}
    for row in queues:
        late = Verdict(row["verdict"]) not in {*_GOOD, Verdict.UNKNOWN, Verdict.SETTLING}
        if late and row["readerRegion"] in running and row["backlogRecords"]:
            text = (
                f"queue {row['stream']} waits for region {row['readerRegion']} "
                f"({row['backlogRecords']:,} tuples, the oldest {duration(row['backlogSeconds'])})"
            )
            text += _blamed(states.views[row["readerRegion"]])
            left = row["fullInSeconds"]
            if left is not None and not row["full"] and row["verdict"] == Verdict.FALLING_BEHIND:
                text += f", and is full in {duration(left)}"
            yield text
    readers = {row["reader"] for row in queues}
    held = {row["writerRegion"] for row in queues if row["full"]}
    for name, progress in states.progress.items():
        for one in progress["sources"] if name in running - held else ():
            if Verdict(one["verdict"]) in _SLOW and one["operator"] not in readers:
                why = f" ({one['problem']})" if one["problem"] else ""
                yield f"source {one['operator']} waits for region {name}{why}{_blamed(states.views[name])}"


def _blamed(view: RegionView) -> str:
    """The operator with the longest step of the last window's path; empty before the first window."""
    path = view.watch.critical_path()
    step = max(path["path"], key=lambda one: one["latencyMs"] or 0.0, default=None)
    if step is None or not path["windowLatencyMs"]:
        return ""
    took, whole = milliseconds(step["latencyMs"] or 0.0), milliseconds(path["windowLatencyMs"])
    return f", where {step['operator']} takes {took} of a window of {whole}"


# The progress of an application of several regions: what waits in sources and in queues.


def joined_progress(states: States, queues: Sequence[QueueAnswer]) -> ProgressAnswer:
    """The progress of all regions. `window` is of the one whose window takes longest.

    `sources` are those of the application: readers of queues are in `queues`.
    """
    readers = {row["reader"] for row in queues}
    shown = max(states.progress.values(), key=lambda one: (one["running"], one["elapsedSeconds"] or 0.0))
    whole: ProgressAnswer = joined(list(states.progress.values()))
    sources = [row for row in whole["sources"] if row["operator"] not in readers]
    return {
        **shown,
        "operators": whole["operators"],
        "containers": whole["containers"],
        "sources": sources,
        "application": _application(states, sources, queues),
        "queues": list(queues),
    }


def _application(
    states: States, sources: Sequence[SourceAnswer], queues: Sequence[QueueAnswer]
) -> BacklogAnswer:
    """The backlog over all sources and queues."""
    to_read = [_seconds(row) for row in queues]
    running = [one["application"] for name, one in states.progress.items() if states.state[name] in _RUNS]
    verdict = worst(Verdict(one["verdict"]) for one in (*running, *queues))
    bases = [one["basis"] for one in running if one["basis"] not in {"unknown", "schedule"}]
    oldest = (one["oldest"] for one in running)
    waiting = (*sources, *queues)
    ends = [row["caughtUpAt"] for row in waiting if row["verdict"] == Verdict.CATCHING_UP]
    found: BacklogAnswer = {
        "backlogRecords": total([*map(_records, sources), *(row["backlogRecords"] for row in queues)]),
        "backlogSeconds": greatest([*(row["backlogSeconds"] for row in sources), *to_read]),
        "basis": max(bases, key=_BASES.index, default="exact" if queues else "unknown"),
        "caughtUpAt": greatest_if_known(ends) if verdict is Verdict.CATCHING_UP else None,
        "asOf": least([one["asOf"] for one in running]),
        "stuckOutputs": list(chain.from_iterable(one["stuckOutputs"] for one in running)),
        "stuckStores": list(chain.from_iterable(one["stuckStores"] for one in running)),
        "unreachable": list(chain.from_iterable(one["unreachable"] for one in running)),
        "verdict": verdict.value,
        "windowsBehind": greatest([one["windowsBehind"] for one in running]),
        "oldest": max(oldest, key=lambda one: one["value"] or 0.0, default=_NOT_KNOWN),
        "bottleneck": next((one["bottleneck"] for one in running if one["bottleneck"]), None),
    }
    if None in to_read or any(row.get("infinite") for row in sources):
        found["backlogSeconds"], found["infinite"] = None, True
    return found


def _records(row: SourceAnswer) -> float | None:
    """The records that wait at a source, each of which becomes a tuple."""
    records = row["backlogRecords"]
    return row["backlog"]["value"] if records is None and row["unit"] == "tuples" else records


def _seconds(row: QueueAnswer) -> float | None:
    """The time to read what waits in a queue; None: it has no end, as its reader does not run."""
    tuples, pace = row["backlogRecords"], row["readPerSecond"]
    return 0.0 if not tuples else tuples / pace if pace else None
