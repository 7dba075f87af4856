"""The Spark of a standby, started before it is needed: a start takes most of what a takeover may take."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Self

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.files import is_local as is_local_place
from ridgeline.engine.spark.cluster import is_local

if TYPE_CHECKING:
    from pyspark import SparkContext

    from ridgeline.cli.settings import RunSettings
    from ridgeline.plan.execution import Plan


class WarmSpark:
    """Starts Spark for a plan on `local[N]`, and forks its workers once. The run uses the same Spark.

    On a standalone cluster it starts the Java process only: cores would be taken from the driver that runs.
    It starts nothing on other clusters, nor where Java has to fetch files (`--archives`).
    """

    def __init__(self, plan: Plan, settings: RunSettings) -> None:
        self._plan = plan
        self._settings = settings
        self._context: SparkContext | None = None
        self._begun = False

    def start(self) -> None:
        """Start it at the first call. Raises RidgelineError if Spark does not start."""
        if self._begun or self._plan.logical.regions:
            return
        self._begun = True
        place = self._settings.options.checkpoint or ""
        options, plans = self._settings.launched(), [self._plan]
        if self._settings.master.startswith("spark://"):
            from ridgeline.engine.driver.run.launch import rehearse_spark

            rehearse_spark(plans, options, place)
        if not is_local(self._settings.master):
            return
        from ridgeline.engine.driver.run.launch import hadoop_storage, start_spark

        self._context = start_spark(plans, options, place)
        if not is_local_place(place):
            hadoop_storage(place, self._context).names("")  # the client of the store takes seconds to load
        cores = self._context.defaultParallelism
        self._context.parallelize(range(cores), cores).map(_same).count()

    def check(self) -> None:
        """Raise RidgelineError if its Java process has ended."""
        from ridgeline.engine.driver.slots.spark_errors import has_ended

        if self._context is not None and has_ended(self._context):
            msg = "the Java process of this standby has ended; start it again, or add `--supervise`"
            raise RidgelineError(msg)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._context is not None:
            from ridgeline.engine.driver.slots.spark_errors import has_ended
            from ridgeline.engine.spark.shared_context import give_back

            with suppress(Exception) if has_ended(self._context) else nullcontext():
                give_back(self._context)


def _same(value: int) -> int:
    return value
