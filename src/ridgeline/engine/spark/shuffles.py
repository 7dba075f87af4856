"""The shuffles of windows, and how they are got rid of."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark import SparkContext

if TYPE_CHECKING:
    from ridgeline.engine.spark.java_object import JavaObject

_numbering = threading.Lock()


class Shuffles:
    """Drops a window's shuffle files and the driver's records of them, which stay until the JVM collects."""

    def __init__(self, context: SparkContext) -> None:
        self._scala = context._jsc.sc()  # noqa: SLF001  the only way to shuffles
        cleaner = self._scala.cleaner()
        self._cleaner: JavaObject | None = cleaner.get() if cleaner.isDefined() else None

    @property
    def can_drop(self) -> bool:
        """False if Spark is configured to drop nothing (`spark.cleaner.referenceTracking=false`)."""
        return self._cleaner is not None

    @staticmethod
    @contextmanager
    def numbering() -> Iterator[None]:
        """Keep other applications of this process from shuffling: ids in this block are one application's."""
        with _numbering:
            yield

    def next_id(self) -> int:
        """A number that no shuffle has, greater than all that have been given."""
        return int(self._scala.newShuffleId())

    def drop(self, shuffles: Iterable[int]) -> None:
        """Drop what these shuffles hold on all hosts, and wait for it: only then may a shuffle be run again.

        Errors are Spark's to log.
        """
        if self._cleaner is not None:
            for shuffle in shuffles:
                self._cleaner.doCleanupShuffle(shuffle, True)  # noqa: FBT003  Scala's: blocking
