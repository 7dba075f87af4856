"""The shuffles of windows, and how they are got rid of."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from pyspark import SparkContext


class Shuffles:
    """Drops shuffle files and what the driver knows of them once a window is over; else they pile up until the JVM happens to collect.

    It is done beside what the driver does next, and waited for before the next window: a shuffle's number may be used again only then.
    """

    def __init__(self, context: SparkContext) -> None:
        self._scala = context._jsc.sc()  # noqa: SLF001  the only way to shuffles
        cleaner = self._scala.cleaner()
        self._cleaner: Any = cleaner.get() if cleaner.isDefined() else None
        self._thread = ThreadPoolExecutor(1, "ridgeline-shuffles")
        self._dropping: Future[None] | None = None

    @property
    def can_drop(self) -> bool:
        """False if Spark was told to drop nothing (`spark.cleaner.referenceTracking=false`)."""
        return self._cleaner is not None

    def next_id(self) -> int:
        """A number that no shuffle has, greater than all that have been given."""
        return int(self._scala.newShuffleId())

    def drop(self, shuffles: range) -> None:
        """Begin to drop what these shuffles hold on any host; errors are Spark's to log."""
        if self._cleaner is not None and shuffles:
            self._dropping = self._thread.submit(self._drop, shuffles)

    def _drop(self, shuffles: range) -> None:
        for shuffle in shuffles:
            self._cleaner.doCleanupShuffle(shuffle, True)  # noqa: FBT003  Scala's: blocking

    def wait(self) -> None:
        """Until all has been dropped."""
        dropping, self._dropping = self._dropping, None
        if dropping is not None:
            dropping.result()

    def close(self) -> None:
        """Wait, and end."""
        self._thread.shutdown(wait=True)
