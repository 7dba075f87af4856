"""The queues between regions, and what waits before each sink."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ridgeline.cli.tables import Columns, fitted
from ridgeline.cli.views.backlog import size
from ridgeline.cli.views.verdict import STYLES, end
from ridgeline.measure.answers.progress import ProgressAnswer, SinkBacklogAnswer
from ridgeline.measure.answers.regions import QueueAnswer
from ridgeline.measure.wording.units import UNKNOWN, count, duration, rate, soon


def queue_parts(progress: ProgressAnswer, width: int, at: float | None) -> list[RenderableType]:
    """The queues and the backlogs of sinks; nothing without regions. `at`: STRAM's clock, if known."""
    queues = progress.get("queues", [])
    if not queues:
        return []
    return [Text(), queues_table(queues, width), Text(), sinks_table(progress.get("sinks", []), width, at)]


def sinks_table(sinks: Sequence[SinkBacklogAnswer], width: int, at: float | None) -> Table:
    """A row for each output operator, with what waits before it in all sources and queues."""
    columns: Columns = {
        "before sink": [Text(one["operator"], "bold") for one in sinks],
        "region": [Text(one.get("region", "")) for one in sinks],
        "waits": [Text(count(one["backlogRecords"])) for one in sinks],
        "in time": [Text(_seconds(one["backlogSeconds"])) for one in sinks],
        "caught up": [Text(end(one["caughtUpAt"], at) or UNKNOWN) for one in sinks],
        "verdict": [Text(one["verdict"], STYLES.get(one["verdict"], "dim")) for one in sinks],
    }
    return fitted(columns, width, ("in time", "caught up"), left=("before sink", "region", "verdict"))


def _seconds(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else duration(seconds)


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
