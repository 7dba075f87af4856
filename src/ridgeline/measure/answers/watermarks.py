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


def _state(time: int, *, idle: bool) -> str:
    if time >= LATEST:
        return "finished"
    if idle:
        return "idle"
    return "running" if time > EARLIEST else "waiting"


def _some(titles: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """The first of them, each once."""
    return tuple(islice(dict.fromkeys(chain.from_iterable(titles)), _NAMED))
