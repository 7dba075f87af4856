"""A window as one Spark job: ticks or the micro-batch -> stage 0 -> `partitionBy(container)` -> stage 1 -> ... -> reports."""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.core.rdd import RDD
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.serializers import NoOpSerializer

from ridgeline.api.clock import Clock
from ridgeline.api.errors import Failure, OperatorError
from ridgeline.engine import shipping
from ridgeline.engine.heartbeat import HeartbeatAddress
from ridgeline.engine.run import Ran
from ridgeline.engine.spec import container_specs
from ridgeline.engine.stage import PROPERTY, StageError, Task, commit_stage, fed_stage, ingest_stage, next_stage, source_stage, tick_stage
from ridgeline.engine.storage import Storage
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import StateVersion, WindowReport, WindowRequest

_JOB_ERRORS = (Py4JError, CapturedException)
"""What a job that failed raises: Spark's own exception, or what PySpark makes of it once there is a SparkSession."""


class SparkExecutor:
    """Runs the containers of a window as one RDD job. One thread at a time. Stage functions and first RDDs are made once."""

    def __init__(
        self,
        context: SparkContext,
        plan: Plan,
        storage: Storage,
        run_id: str,
        clock: Clock,
        heartbeats: HeartbeatAddress | None = None,
    ) -> None:
        self._context = context
        self._clock = clock
        self._scala = context._jsc.sc()  # noqa: SLF001  the only way to shuffles
        cleaner = self._scala.cleaner()
        self._cleaner = cleaner.get() if cleaner.isDefined() else None
        self._application = plan.logical.application
        self._storage = storage
        self._run_id = run_id
        self._heartbeats = heartbeats
        self._specs = container_specs(plan)
        self._plan = shipping.ship(storage, self._specs)
        self._stages = [[container.id for container in stage.containers] for stage in plan.execution.stages]
        self._next = [partial(next_stage, number) for number in range(len(self._stages))]
        self._commits = [spec.id for spec in self._specs if spec.wants_commit]
        self._ticks: dict[tuple[tuple[int, ...], int], RDD[Any]] = {}
        self._fixed_slots = context.defaultParallelism if re.match(r"local(\[|$)", str(context.master)) else None

    def run(self, request: WindowRequest, source: Any) -> Ran:
        """Run an attempt; `source` is a `SourceBatch` or None. Raises OperatorError once Spark's retries are used up."""
        begin = self._new_shuffle_id()
        task = Task(self._storage.uri, self._plan, self._run_id, request, self._slots(), heartbeats=self._heartbeats)
        if source is None:
            first = self._tick_rdd(tuple(self._stages[0]), task.slots)
        else:
            messages, schema = _messages(self._context, source)
            source.jobs += 1
            task = replace(task, source_containers=source.containers, source_schema=schema)
            several = len(source.containers) > 1
            first = self._fed_rdd(messages, task.slots) if several else self._source_rdd(messages, source.containers[0], task.slots)
        self._context.setLocalProperty(PROPERTY, task.encode())
        for number, containers in enumerate(self._stages[1:], 1):
            first = first.partitionBy(min(len(containers), task.slots), _itself).mapPartitionsWithIndex(self._next[number])
        launched = self._clock.wall()
        try:
            records = first.collect()
        except _JOB_ERRORS as error:
            raise OperatorError(self._failure(error, request.window_id)) from None
        finally:
            self._drop_shuffles(begin)
        received = self._clock.wall()
        reports: list[WindowReport] = [pickle.loads(payload) for _, (_, payload) in records]
        for report in reports:
            report.received = received
        return Ran(reports, launched)

    def committed(self, window_id: int, states: Mapping[int, StateVersion]) -> None:
        """A one-stage job over the containers whose operators asked for it. Raises OperatorError."""
        task = Task(self._storage.uri, self._plan, self._run_id, WindowRequest(window_id, 0, 0, states=states), 1)
        self._context.setLocalProperty(PROPERTY, task.encode())
        try:
            self._context.parallelize(self._commits, len(self._commits)).mapPartitionsWithIndex(commit_stage).collect()
        except _JOB_ERRORS as error:
            raise OperatorError(self._failure(error, window_id)) from None

    def close(self) -> None:
        """Nothing to do: workers tear their containers down when Spark ends them."""

    def _slots(self) -> int:
        """How many tasks can run at the same time; on a cluster executors come and go."""
        if self._fixed_slots is None:
            return max(1, self._context.defaultParallelism)
        return self._fixed_slots

    def _tick_rdd(self, containers: tuple[int, ...], slots: int) -> RDD[Any]:
        key = (containers, slots)
        if key not in self._ticks:
            rdd = self._context.parallelize(containers, min(len(containers), slots))
            self._ticks[key] = rdd.mapPartitionsWithIndex(tick_stage)
        return self._ticks[key]

    def _source_rdd(self, messages: RDD[Any], containers: tuple[int, ...], slots: int) -> RDD[Any]:
        """One Spark source: its partitions are read by the tasks that run its containers; all other containers get a tick."""
        if messages.getNumPartitions() > len(containers):
            messages = messages.coalesce(len(containers))
        fed = containers[: messages.getNumPartitions()]
        rdd = messages.mapPartitionsWithIndex(source_stage)
        ticks = tuple(container for container in self._stages[0] if container not in fed)
        return self._context.union([rdd, self._tick_rdd(ticks, slots)]) if ticks else rdd

    def _fed_rdd(self, messages: RDD[Any], slots: int) -> RDD[Any]:
        """Several Spark sources, read as one union: a shuffle more takes the rows to their containers."""
        tasks = min(len(self._stages[0]), slots)
        return messages.mapPartitionsWithIndex(ingest_stage).partitionBy(tasks, _itself).mapPartitionsWithIndex(fed_stage)

    def _new_shuffle_id(self) -> int:
        return int(self._scala.newShuffleId())

    def _drop_shuffles(self, begin: int) -> None:
        """Remove the window's shuffle files at once; else they pile up until the JVM happens to collect."""
        if self._cleaner is not None:
            for shuffle in range(begin + 1, self._new_shuffle_id()):
                self._cleaner.doCleanupShuffle(shuffle, False)  # noqa: FBT003  Scala's

    def _failure(self, error: Exception, window_id: int) -> Failure:
        text = str(error)
        found = StageError.find(text)
        if found:
            return found
        java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
        message = str(java.getMessage()) if java is not None else text
        return Failure(self._application, "", 0, window_id, "the window's Spark job", _shortest(message), traceback=text)


@dataclass
class SourceBatch:
    """One micro-batch: the rows of all Spark sources as a DataFrame, and the containers that take the rows of each source.

    With several sources the frame is their union: a column with the source's number, then one struct column per source. `jobs` counts those
    that have read it.
    """

    frame: Any
    containers: tuple[tuple[int, ...], ...]
    jobs: int = 0


def _messages(context: SparkContext, source: SourceBatch) -> tuple[RDD[Any], bytes]:
    """The micro-batch's rows as Arrow record batch messages, and their schema as Arrow IPC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    messages: RDD[Any] = RDD(source.frame._jdf.toArrowBatchRdd().toJavaRDD(), context, NoOpSerializer())  # noqa: SLF001  no other way
    return messages, to_arrow_schema(source.frame.schema, timezone="UTC").serialize().to_pybytes()


def _itself(container: int) -> int:
    return container


def _shortest(message: str) -> str:
    """The cause in Spark's long message."""
    reason = re.search(r"Lost task [^:]*: (.*)", message) or re.search(r"(?:Exception|Error): (.*)", message)
    return (reason.group(1) if reason else message.split("\n", 1)[0])[:500]
