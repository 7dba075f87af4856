"""The verdict of an application of several regions in a sentence: whether it keeps up, and who does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ridgeline.measure.answers.operators import RecordAgesAnswer
from ridgeline.measure.answers.progress import ProgressAnswer
from ridgeline.measure.answers.regions import QueueAnswer
from ridgeline.measure.answers.windows import CriticalPathAnswer
from ridgeline.measure.progress.backlog import Verdict
from ridgeline.regions.paths import sinks_of
from ridgeline.regions.sums import failure_of, state_of
from ridgeline.regions.view import RegionView

_GOOD = {Verdict.KEEPING_UP, Verdict.PACED}
_PLACES = ("publish", "commit", "emit")
_SAID = {"FAILED", "STOPPED", "PAUSED"}
_OVER = {"FAILED", "STOPPED"}
_SHOWN = 4
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_LONGEST_REASON = 120


def sentence(
    views: Sequence[RegionView],
    progress: ProgressAnswer,
    queues: Sequence[QueueAnswer],
    ages: RecordAgesAnswer,
    path: CriticalPathAnswer,
    now: float,
) -> str:
    """The verdict, who is to blame for it, and how old results are at each sink.

    For example `falling behind: queue prices waits for region slow (1,200 tuples, the oldest 4.1 s), where
    store takes 980 ms of a window of 1.0 s; p99 of the age of results: 310 ms at board, 5.2 s at store`.
    """
    verdict = progress["application"]["verdict"]
    parts = [*because(views, queues, now), *_old(views, ages, path)]
    return f"{verdict}: {'; '.join(parts)}" if parts else verdict


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
            text = f"region {view.name} has failed ({_cut(failure_of(view.region))})"
        own = [row for row in queues if row["readerRegion"] == view.name]
        rooms = [_room(row, now) for row in own if row["backlogRecords"] or row["full"]]
        yield ", ".join([text, *rooms])


def _cut(reason: str) -> str:
    line = reason.strip().partition("\n")[0]
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]}..."


def _room(row: QueueAnswer, now: float) -> str:
    """The rows that a queue keeps for a region that does not run, and for how long there is room."""
    text = f"queue {row['stream']} keeps {row['backlogRecords']:,} tuples for it"
    if row["full"]:
        return f"{text} and is full: region {row['writerRegion']} is held back"
    return text if row["fullAt"] is None else f"{text} and has room for {span(row['fullAt'] - now)}"


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
            f"({row['backlogRecords']:,} tuples, the oldest {span(row['backlogSeconds'])})"
        )
        text += _blamed(view)
        if row["fullAt"] is not None and not row["full"] and row["verdict"] == Verdict.FALLING_BEHIND:
            text += f", and is full in {span(row['fullAt'] - now)}"
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
    took = (step["latencyMs"] or 0.0) / 1000
    return (
        f", where {step['operator']} takes {span(took)} of a window of {span(path['windowLatencyMs'] / 1000)}"
    )


def _old(views: Sequence[RegionView], ages: RecordAgesAnswer, path: CriticalPathAnswer) -> Iterator[str]:
    """How old results are at each sink; without times of records how long they take."""
    found: list[str] = []
    for view in views:
        if state_of(view.region) in _OVER:
            continue
        titles = {node.title: node.name for node in view.watch.topology.operators}
        for name in sinks_of(view):
            rows = [row for row in ages["operators"] if titles.get(row["operator"]) == name]
            for place in _PLACES:
                times = [row["p99Ms"] for row in rows if row["at"] == place and row["p99Ms"] is not None]
                if times:
                    found.append(f"{span(max(times) / 1000)} at {name}")
                    break
    if found:
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        yield f"p99 of the age of results: {', '.join(found[:_SHOWN])}{more}"
    elif path["windowLatencyMs"] is not None and path.get("region") in {
        view.name for view in views if state_of(view.region) not in _OVER
    }:
        yield f"results take {span(path['windowLatencyMs'] / 1000)} to {path['path'][-1]['operator']}"


def span(seconds: float) -> str:
    """A time with two or three digits.

    >>> [span(seconds) for seconds in (0.0421, 1.234, 75.2, 7384)]
    ['42 ms', '1.2 s', '1 min 15 s', '2 h 3 min']
    """
    if seconds < 1:
        return f"{max(0.0, 1000 * seconds):.0f} ms"
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE:.0f} min {seconds % _MINUTE:.0f} s"
    if seconds < _DAY:
        return f"{seconds // _HOUR:.0f} h {seconds % _HOUR // _MINUTE:.0f} min"
    return f"{seconds // _DAY:,.0f} d {seconds % _DAY // _HOUR:.0f} h"
