"""Watermarks of an application of several regions: who holds back whom, across queues."""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline.measure.answers.watermarks import WatermarkAnswer, WatermarksAnswer
from ridgeline.plan.region import QueueEdge
from ridgeline.regions.view import RegionView

_NAMED = 8


def joined_watermarks(views: Sequence[RegionView], edges: Sequence[QueueEdge]) -> WatermarksAnswer:
    """The rows of all regions. Where the reader of a queue holds back, the inputs are named that do so there.

    These are what the writer of the queue waits for. A reader that is behind what was written is named too.
    """
    rows: dict[str, list[WatermarkAnswer]] = {}
    found: list[WatermarkAnswer] = []
    readers: dict[str, tuple[QueueEdge, list[WatermarkAnswer]]] = {}
    for view in views:
        names = {node.title: node.name for node in view.watch.topology.operators}
        for edge in edges:
            if edge.reader_region == view.name:
                titles = [title for title, name in names.items() if name == edge.reader]
                readers |= dict.fromkeys(titles, (edge, rows.get(edge.writer, [])))
        for row in view.watermarks()["operators"]:
            made: WatermarkAnswer = {
                **row,
                "heldBackBy": _through(row["heldBackBy"], readers, row["watermark"]),
                "idleInputs": _idle(row["idleInputs"], readers),
            }
            if row["operator"] in readers and row["state"] != "finished":
                made["heldBackBy"] = _through([row["operator"]], readers, row["watermark"])
            rows.setdefault(names.get(row["operator"], row["operator"]), []).append(made)
            found.append(made)
    return {"operators": found}


def _through(
    titles: Sequence[str],
    readers: dict[str, tuple[QueueEdge, list[WatermarkAnswer]]],
    watermark: float | None,
) -> list[str]:
    """The holders, with what is behind a queue in the place of its reader."""
    found: dict[str, None] = {}
    for title in titles:
        if title not in readers:
            found[title] = None
            continue
        edge, written = readers[title]
        marks = [row["watermark"] for row in written if row["watermark"] is not None]
        if marks and (watermark is None or min(marks) > watermark):
            found[f"queue {edge.stream}"] = None  # what is in it moves the watermark once it is read
            continue
        least = min(marks, default=None)
        holders = [one for row in written if row["watermark"] == least for one in row["heldBackBy"]]
        found |= dict.fromkeys(holders or [title])
    return list(found)[:_NAMED]


def _idle(titles: Sequence[str], readers: dict[str, tuple[QueueEdge, list[WatermarkAnswer]]]) -> list[str]:
    """The idle inputs, with those behind a queue in the place of its reader."""
    found: dict[str, None] = {}
    for title in titles:
        behind = [one for row in readers[title][1] for one in row["idleInputs"]] if title in readers else []
        found |= dict.fromkeys(behind or [title])
    return list(found)[:_NAMED]
