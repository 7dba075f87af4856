"""Micro-batches for slots: a Spark job whose tasks hand the rows to the slots that host the sources."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ridgeline.api.clock import Clock
from ridgeline.api.errors import Failure, RidgelineError
from ridgeline.api.operator import SparkSource
from ridgeline.engine.container.feed import fed_by
from ridgeline.engine.driver.slots.jobs import DESCRIPTION
from ridgeline.engine.driver.slots.spark_errors import is_clusters, job_text
from ridgeline.engine.exchange.network import Peer
from ridgeline.engine.slot import feed_task
from ridgeline.engine.slot.feed_task import FeedTask
from ridgeline.engine.spark.java_object import ByteRdds, JavaObject
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import WindowRequest

if TYPE_CHECKING:
    from pyspark import SparkContext

    from ridgeline.engine.driver.slots.spark_slots import SparkSlots


LOOK_SECONDS = 0.1
"""How soon the failure of a job is seen."""
_CALLBACK = "the Spark job that reads its rows"


class SparkFeed:
    """A job of Spark over the partitions of a micro-batch, for one attempt at a window. One thread.

    `tasks`: how many read it. `sources`: the containers of each Spark source. `schema`: of its rows, as an
    Arrow IPC schema. Raises what Spark raises.
    """

    def __init__(self, context: SparkContext, rdds: ByteRdds, batch: SourceBatch, page: str = "") -> None:
        """`page`: as of `SparkSlots`."""
        self._context = context
        self._page = page
        self._batch = batch
        self._job: JavaObject | None = None
        messages, self.tasks = batch.messages()
        self._rdd = rdds.run(messages, feed_task.feed_stage, feed_task.WholeInput())
        self.sources, self.schema = batch.containers, batch.schema

    def start(self, task: FeedTask) -> None:
        """Have the tasks read it and hand the rows to slots. Raises what Spark raises."""
        self._context.setLocalProperty(feed_task.PROPERTY, task.encode())
        text = f"window {task.window_id}: rows of Spark sources for the slots{self._page}"
        self._context.setLocalProperty(DESCRIPTION, text)
        self._batch.jobs += 1
        self._job = self._rdd.toJavaRDD().collectAsync()
        self._batch.reading.append(self._job)

    def lost(self) -> str | None:
        """None while tasks read; then the slot that one of them has lost, in words, or "".

        Raises what the tasks have failed with.
        """
        if self._job is None or not self._job.isDone():
            return None
        found = self._job.get()
        return found.get(0).decode() if found.size() else ""

    def cancel(self) -> None:
        """Have the tasks end. Waits for nothing."""
        if self._job is not None:
            self._job.cancel(True)  # noqa: FBT003  Java's


class Feeds:
    """The micro-batch that slots are fed with now, if any. One thread."""

    def __init__(self, plan: Plan, platform: SparkSlots, clock: Clock) -> None:
        self._application = plan.logical.application
        names = [one.name for one in plan.logical.operators if isinstance(one.operator, SparkSource)]
        self._operator = names[0] if len(names) == 1 else ""
        self._platform = platform
        self._clock = clock
        self._feed: SparkFeed | None = None
        self._request = WindowRequest(-1, 0, 0)
        self._look_at = 0.0
        """When the tasks are looked at next: Spark is asked."""

    def prepare(self, request: WindowRequest, source: Any) -> Mapping[int, tuple[int, ...]]:
        """The tasks that are to feed each container in an attempt; the attempt before is fed no more.

        `source`: what the window's trigger got from Spark; None for ticks. Raises FeedError if Spark cannot
        plan it.
        """
        self.stop()
        if source is None:
            return {}
        self._request = request
        try:
            self._feed = self._platform.open_feed(source)
        except Exception as error:
            raise self._failed(error) from error
        return fed_by(self._feed.sources, self._feed.tasks)

    def start(self, slots: Mapping[int, tuple[Peer, str]]) -> None:
        """The slots were sent the attempt that was prepared: let the tasks begin.

        `slots`: who hosts each container that is fed, and where that is reached. Raises FeedError.
        """
        feed, request = self._feed, self._request
        if feed is None:
            return
        certificate = self._platform.listen.certificate
        task = FeedTask(request.window_id, request.attempt, feed.sources, feed.schema, slots, certificate)
        try:
            feed.start(task)
        except Exception as error:
            raise self._failed(error) from error
        self._look_at = self._clock.monotonic() + LOOK_SECONDS

    def look(self) -> None:
        """Raise FeedError if the tasks of an attempt in flight have failed."""
        now = self._clock.monotonic()
        if self._feed is None or now < self._look_at:
            return
        self._look_at = now + LOOK_SECONDS
        try:
            lost = self._feed.lost()
        except Exception as error:
            raise self._failed(error) from error
        if lost is not None:
            self._feed = None
        if lost:
            raise FeedError(self._failure(lost))

    def over(self, window_id: int) -> None:
        """All containers have run the window: its tasks, which may just be ending, do not matter."""
        if self._request.window_id == window_id:
            self._feed = None

    def stop(self) -> None:
        """The attempt that is fed now is void."""
        feed, self._feed = self._feed, None
        if feed is not None:
            feed.cancel()

    @property
    def reading(self) -> bool:
        """True while tasks read, and containers may wait for rows."""
        return self._feed is not None

    @property
    def seconds(self) -> float:
        """How long may be waited until `look` is called."""
        return LOOK_SECONDS if self._feed is not None else math.inf

    def _failed(self, error: Exception) -> FeedError:
        self._feed = None
        cluster = is_clusters(job_text(error))
        return FeedError(self._failure(self._platform.reason(error), str(error), cluster=cluster))

    def _failure(self, what: str, trace: str = "", *, cluster: bool = False) -> Failure:
        who = self._application, self._operator, 0, self._request.window_id
        return Failure(*who, _CALLBACK, what, traceback=trace, cluster=cluster)


class FeedError(RidgelineError):
    """A micro-batch could not be read, or not be handed to slots: the attempt at its window has failed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


# One micro-batch of the query, as the executors read it.


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
