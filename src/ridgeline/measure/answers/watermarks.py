"""Answers about watermarks: how far event time has come at each operator, and who holds it back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, islice
from typing import Annotated, NamedTuple

from typing_extensions import TypedDict

from ridgeline.api.times import EARLIEST, LATEST
from ridgeline.measure.answers.regions import InRegionAnswer
from ridgeline.measure.events import WatermarkReading
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
        "No record older than this is to come; seconds since 1970. Null before the first, and at the end.",
    ]
    lagSeconds: Annotated[float | None, "How far the watermark is behind the clock; negative: ahead of it."]
    heldBackBy: Annotated[list[str], "The partitions of inputs that it waits for, at most 8 of them."]
    idleInputs: Annotated[list[str], "The partitions of inputs upstream that are idle, at most 8 of them."]
    lateRecords: Annotated[int, "Records that came too late, since the start."]
    recordsAhead: Annotated[int, "Records too far ahead of the clock to move the watermark, since the start."]


class WatermarksAnswer(TypedDict):
    """The watermarks of all operators that have one."""

    operators: Annotated[list[WatermarkAnswer], "In topological order; none without a `lateness` upstream."]


class Mark(NamedTuple):
    """What is known of an operator's watermark. `now`: the clock that it is compared with."""

    reading: WatermarkReading
    late: int
    ahead: int
    now: float


_NO_QUEUES: Mapping[int, str] = {}


def watermarks_answer(
    marks: Mapping[int, Mark], topology: Topology, queues: Mapping[int, str] = _NO_QUEUES
) -> WatermarksAnswer:
    """The watermarks of all operators that have one.

    `queues`: of operators that read a queue between regions, its stream. They have a watermark of their own;
    what holds it back is in the queue, or behind it: what its writers wait for.
    """
    holders: dict[int, tuple[str, ...]] = {}
    idle: dict[int, tuple[str, ...]] = {}

    def held(producers: tuple[int, ...]) -> tuple[str, ...]:
        lefts = {
            one: marks[one].reading.left
            for one in producers
            if one in marks and not marks[one].reading.idle and marks[one].reading.left != LATEST
        }
        return _some(holders[one] for one, left in lefts.items() if left == min(lefts.values()))

    def idling(producers: tuple[int, ...]) -> tuple[str, ...]:
        return _some(idle[one] for one in producers if one in marks)

    held_above = for_neighbours(topology.upstream, held)
    idle_above = for_neighbours(topology.upstream, idling)
    rows: list[WatermarkAnswer] = []
    for node in topology.operators:
        if (mark := marks.get(node.id)) is None:
            continue
        reading, own, above = mark.reading, (node.title,), topology.upstream[node.id]
        reads_queue = node.id in queues
        source = reads_queue or not any(one in marks for one in above)
        time = reading.left if source else reading.entered
        if reads_queue:
            times = [marks[one].reading.entered for one in above if one in marks]
            written = min((one for one in times if _is_known(one)), default=EARLIEST)
            in_queue = written > time or (_is_known(written) and not _is_known(time))
            queue = (f"queue {queues[node.id]}",)  # what is in it moves the watermark once it is read
            holders[node.id] = queue if in_queue else held_above(node.id) or own
            idle[node.id] = (idle_above(node.id) or own) if reading.idle else ()
        else:
            holders[node.id] = own if source else held_above(node.id)
            idle[node.id] = (own if reading.idle else ()) if source else idle_above(node.id)
        known, free = _is_known(time), time == LATEST or (source and not reads_queue)
        rows.append(
            {
                "operator": node.title,
                "id": node.id,
                "state": _state(time, idle=reading.idle),
                "watermark": time / 1e6 if known else None,
                "lagSeconds": mark.now - time / 1e6 if known else None,
                "heldBackBy": [] if free else list(holders[node.id]),
                "idleInputs": list(idle[node.id]),
                "lateRecords": mark.late,
                "recordsAhead": mark.ahead,
            }
        )
    return {"operators": rows}


def _is_known(time: int) -> bool:
    return EARLIEST < time < LATEST


def _state(time: int, *, idle: bool) -> str:
    if time >= LATEST:
        return "finished"
    if idle:
        return "idle"
    return "running" if time > EARLIEST else "waiting"


def _some(titles: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """The first of them, each once."""
    return tuple(islice(dict.fromkeys(chain.from_iterable(titles)), _NAMED))
