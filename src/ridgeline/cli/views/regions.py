"""The regions of an application, and the queues between them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ridgeline.cli.tables import Columns, fitted
from ridgeline.cli.views.lists import STATES
from ridgeline.cli.views.queues import queues_table
from ridgeline.cli.views.verdict import sentence_line
from ridgeline.measure.answers.regions import RegionAnswer, RegionsAnswer
from ridgeline.measure.wording.units import count, duration, milliseconds


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
