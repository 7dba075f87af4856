"""One micro-batch of the query, as the executors read it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from ridgeline.engine.spark.java_object import JavaObject


@dataclass
class SourceBatch:
    """One micro-batch: `rows` of all Spark sources as a Java Dataset, and their `schema` as Arrow IPC.

    `find_containers`: those that read each source, in the plan of now. With several sources `rows` is their
    union: a column with the source's number, then one struct column per source. `jobs` counts the Spark jobs
    that have read it. `reading`: those that may still run.
    """

    rows: JavaObject
    schema: bytes
    find_containers: Callable[[], tuple[tuple[int, ...], ...]]
    jobs: int = 0
    reading: list[JavaObject] = field(default_factory=list)

    @property
    def containers(self) -> tuple[tuple[int, ...], ...]:
        """The containers that read each source."""
        return self.find_containers()

    def messages(self) -> tuple[JavaObject, int]:
        """The RDD of its rows as Arrow messages, and how many partitions that has.

        Of one source it has at most as many as containers. Raises what Spark raises where it plans it.
        """
        messages = self.rows.toArrowBatchRdd()
        partitions = int(messages.getNumPartitions())
        if len(self.containers) == 1 and partitions > len(self.containers[0]):
            partitions = len(self.containers[0])
            messages = messages.toJavaRDD().coalesce(partitions).rdd()
        return messages, partitions

    def finish(self) -> None:
        """Wait for the jobs that read it: only then has Spark counted its rows."""
        for job in self.reading:
            with contextlib.suppress(Exception):  # the window is committed without it
                job.get()
        self.reading.clear()
