"""The options of every run on Spark, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from ridgeline.api.support.option import Option
from ridgeline.engine.spark.submitted import DEFAULT_MASTER


@dataclass(frozen=True)
class Options:
    """How to run: `windows` is the number of windows after which this run stops.

    `checkpoint` None makes a fresh folder. It is removed at the end if there is nothing to continue: all
    inputs have finished, or no window was committed.
    """

    master: Annotated[
        str | None,
        Option(
            metavar="URL",
            help="Where Spark runs: `local[4]`, `spark://host:7077`, `yarn`, `k8s://...`. Default: that "
            "of `spark-submit`, or `local[*]`.",
            repeated=False,  # the one that was chosen is
        ),
    ] = None
    conf: Annotated[
        Mapping[str, str],
        Option(
            metavar="KEY=VALUE",
            help="A setting of Spark: `--conf spark.executor.memory=4g`.",
            form="key=value",
            example="spark.executor.memory=4g",
        ),
    ] = field(default_factory=dict)
    checkpoint: Annotated[
        str | None,
        Option(
            metavar="DIR",
            help="Folder or URI for the run's state. One that holds a run: go on from there. Not given: "
            "a fresh folder, named at start.",
            repeated=False,  # the one of the run is
        ),
    ] = None
    windows: Annotated[
        int | None, Option(metavar="N", help="Stop after N windows committed in this run.", minimum=1)
    ] = None

    @property
    def where(self) -> str:
        """The master, where none was chosen all cores of this machine."""
        return self.master or DEFAULT_MASTER


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended. `ended`: all inputs had finished. `checkpoint`: the folder to continue from."""

    windows_committed: int
    last_window: int
    ended: bool
    checkpoint: str
