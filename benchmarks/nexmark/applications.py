"""Applications of the queries of Nexmark over files of events."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.nexmark.events import KINDS, OF_50
from benchmarks.nexmark.queries import QUERIES
from ridgeline import Application, Operator
from ridgeline.operators import FileReplayInput


def kinds_of(name: str) -> list[str]:
    """The kinds of events that a query reads."""
    return [kind for kind in inspect.signature(QUERIES[name]).parameters if kind in KINDS]


def application(
    name: str, folder: Path, events: int, sink: Callable[[], Operator], partitions: int = 1
) -> Application:
    """A query that reads so many events a window, with `partitions` of each step that may have several."""
    app = Application(f"nexmark-{name}", window=0)
    given: dict[str, Any] = {kind: app.read(kind, source(kind, folder, events)) for kind in kinds_of(name)}
    if "app" in inspect.signature(QUERIES[name]).parameters:
        given["app"] = app
    result = QUERIES[name](**given)
    for added in app.operators:
        if added.name not in (*given, "side") and added.operator.parallelizable:
            added.attributes["partitions"] = partitions
    result.write("sink", sink())
    return app


def source(kind: str, folder: Path, events: int) -> FileReplayInput[Any]:
    """Replays the files of a kind."""
    return FileReplayInput(
        path=folder / kind,
        schema=KINDS[kind],
        format="parquet",
        rows_per_window=events * OF_50[kind] // 50,
        timestamp="time",
        lateness=0,
    )
