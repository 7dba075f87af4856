"""The regions of an application, and the queues between them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ridgeline.cli.tables import Columns, fitted
from ridgeline.cli.units import UNKNOWN, count, duration, milliseconds, rate, soon
from ridgeline.cli.views.backlog import size
from ridgeline.cli.views.lists import STATES
from ridgeline.cli.views.verdict import STYLES, sentence_line
from ridgeline.measure.answers.regions import QueueAnswer, RegionAnswer, RegionsAnswer


def regions_parts(answer: RegionsAnswer, width: int) -> list[RenderableType]:
    """All of `/regions`: the verdict, the regions, and their queues."""
    queues = [queue for region in answer["regions"] for queue in region["reads"]]
    errors = [
        Text(f"{region['name']}: {region['error']}", "bold red")
        for region in answer["regions"]
        if region["error"]
    ]
    parts: list[RenderableType] = [sentence_line(answer["sentence"])] if answer["sentence"] else []
    return [*parts, regions_table(answer["regions"], width), *errors, queues_table(queues, width)]


def regions_table(regions: Sequence[RegionAnswer], width: int) -> Table:
    """A row for each region."""
    columns: Columns = {
        "region": [Text(one["name"], "bold") for one in regions],
        "state": [Text(one["state"], STATES.get(one["state"], "")) for one in regions],
        "width": [Text(duration(one["windowSeconds"])) for one in regions],
        "committed": [Text(count(one["committedWindow"])) for one in regions],
        "latency": [Text(milliseconds(one["latencyMs"])) for one in regions],
        "operators": [Text(", ".join(one["operators"])) for one in regions],
    }
    return fitted(columns, width, ("width", "latency"), left=("region", "state", "operators"))


def queues_table(queues: Sequence[QueueAnswer], width: int) -> Table:
    """A row for each reader of a queue."""
    columns: Columns = {
        "queue": [Text(one["stream"], "bold") for one in queues],
        "from": [Text(one["writerRegion"]) for one in queues],
        "to": [Text(one["readerRegion"]) for one in queues],
        "tuples": [Text(count(one["backlogRecords"])) for one in queues],
        "bytes": [Text(size(one["backlogBytes"])) for one in queues],
        "oldest": [Text(duration(one["backlogSeconds"])) for one in queues],
        "written/s": [Text(rate(one["writtenPerSecond"])) for one in queues],
        "read/s": [Text(rate(one["readPerSecond"])) for one in queues],
        "room for": [_room(one) for one in queues],
        "verdict": [Text(one["verdict"], STYLES.get(one["verdict"], "dim")) for one in queues],
    }
    return fitted(
        columns, width, ("written/s", "read/s", "bytes", "from"), left=("queue", "from", "to", "verdict")
    )


def _room(queue: QueueAnswer) -> Text:
    """How long there will be room at the present rate."""
    if queue["full"]:
        return Text("full", "bold red")
    left = queue["fullInSeconds"]
    return Text(UNKNOWN if left is None else soon(left))
