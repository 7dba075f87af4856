"""Answers about watermarks: how far event time has come at each operator, and who holds it back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, islice
from typing import Annotated

from typing_extensions import TypedDict

from ridgeline.api.times import EARLIEST, LATEST
from ridgeline.measure.answers.regions import InRegionAnswer
from ridgeline.measure.status import OperatorStatus
from ridgeline.measure.topology import Topology, for_neighbours

_LEAST_FAR = ("finished", "idle", "running", "waiting")
"""The state of several operators is the last of these that one of them has."""
_NAMED = 8
"""Inputs that a row names: where all partitions wait for the same, their number says no more."""


class WatermarkAnswer(InRegionAnswer, TypedDict):
    """The watermark of a physical operator after its last committed window."""

    operator: Annotated[str, "Title of the physical operator."]
    id: Annotated[int, "Id of the physical operator."]
    state: Annotated[str, "`waiting` for a first record, `running`, `idle` or `finished`."]
    watermark: Annotated[
        float | None,
        "No older record is to come; seconds since 1970. Null unless one has come, and at the end.",
    ]
    lagSeconds: Annotated[float | None, "How far it is behind the clock; negative: ahead of it."]
    heldBackBy: Annotated[list[str], "The partitions of inputs that it waits for, at most 8 of them."]
    idleInputs: Annotated[list[str], "The partitions of inputs upstream that are idle, at most 8 of them."]
    lateRecords: Annotated[int, "Records that came too late, since the start."]
    recordsAhead: Annotated[
        int, "Records of an input too far ahead of the clock to move it, since the start."
    ]


class WatermarksAnswer(TypedDict):
    """The watermarks of all operators that have one."""

    operators: Annotated[list[WatermarkAnswer], "In topological order; none without a `lateness` upstream."]


def watermarks_answer(
    statuses: Mapping[int, OperatorStatus], topology: Topology, now: float
) -> WatermarksAnswer:
    """The watermarks of all operators that have one; `now`: the clock they are compared with."""
    marks = {number: one.watermark for number, one in statuses.items() if one.watermark is not None}
    holders: dict[int, tuple[str, ...]] = {}
    idle: dict[int, tuple[str, ...]] = {}

    def held(producers: tuple[int, ...]) -> tuple[str, ...]:
        active = [
            one for one in producers if one in marks and not marks[one].idle and marks[one].left != LATEST
        ]
        least = min((marks[one].left for one in active), default=0)
        return _some(holders[one] for one in active if marks[one].left == least)

    def idling(producers: tuple[int, ...]) -> tuple[str, ...]:
        return _some(idle[one] for one in producers if one in marks)

    held_above, idle_above = (
        for_neighbours(topology.upstream, held),
        for_neighbours(topology.upstream, idling),
    )
    rows: list[WatermarkAnswer] = []
    for node in topology.operators:
        mark = marks.get(node.id)
        if mark is None:
            continue
        source = not any(one in marks for one in topology.upstream[node.id])
        own = (node.title,)
        holders[node.id] = own if source else held_above(node.id)
        idle[node.id] = (own if mark.idle else ()) if source else idle_above(node.id)
        time = mark.left if source else mark.entered
        known = EARLIEST < time < LATEST
        status = statuses[node.id]
        rows.append(
            {
                "operator": node.title,
                "id": node.id,
                "state": _state(time, idle=mark.idle),
                "watermark": time / 1e6 if known else None,
                "lagSeconds": now - time / 1e6 if known else None,
                "heldBackBy": [] if source or time == LATEST else list(holders[node.id]),
                "idleInputs": list(idle[node.id]),
                "lateRecords": status.counts["lateRecords"],
                "recordsAhead": status.counts["recordsAhead"],
            }
        )
    return {"operators": rows}


def watermarks_together(
    statuses: Mapping[int, OperatorStatus], topology: Topology, now: float
) -> WatermarksAnswer:
    """As `watermarks_answer` with a row for each label of operators, which names no others.

    It has the least watermark, its lag, and sums. It is idle or finished if all of its operators are.
    """
    marks = {number: one.watermark for number, one in statuses.items() if one.watermark is not None}
    follows = for_neighbours(topology.upstream, lambda producers: any(one in marks for one in producers))
    rows: dict[str, WatermarkAnswer] = {}
    times: dict[str, int] = {}
    for node in topology.operators if marks else ():
        mark = marks.get(node.id)
        if mark is None:
            continue
        label, counts = node.label, statuses[node.id].counts
        row = rows.get(label)
        if row is None:
            row = rows[label] = _nothing_known(label, node.id)
        time = mark.entered if follows(node.id) else mark.left
        row["state"] = max(row["state"], _state(time, idle=mark.idle), key=_LEAST_FAR.index)
        if EARLIEST < time < LATEST:
            times[label] = min(time, times.get(label, time))
        row["lateRecords"] += counts["lateRecords"]
        row["recordsAhead"] += counts["recordsAhead"]
    for label, time in times.items():
        rows[label]["watermark"], rows[label]["lagSeconds"] = time / 1e6, now - time / 1e6
    return {"operators": list(rows.values())}


def _nothing_known(label: str, first: int) -> WatermarkAnswer:
    """The row of a label that no operator of it has added to. `first`: the id of its first operator."""
    return {
        "operator": label,
        "id": first,
        "state": _LEAST_FAR[0],
        "watermark": None,
        "lagSeconds": None,
        "heldBackBy": [],
        "idleInputs": [],
        "lateRecords": 0,
        "recordsAhead": 0,
    }


def _state(time: int, *, idle: bool) -> str:
    if time >= LATEST:
        return "finished"
    if idle:
        return "idle"
    return "running" if time > EARLIEST else "waiting"


def _some(titles: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """The first of them, each once."""
    return tuple(islice(dict.fromkeys(chain.from_iterable(titles)), _NAMED))
