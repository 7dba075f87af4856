"""A window as one Spark job: ticks or a micro-batch -> stage 0 -> shuffle -> stage 1 -> ... -> reports."""

from __future__ import annotations

import contextlib
import pickle
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from pyspark import SparkContext

from ridgeline.api.clock import Clock
from ridgeline.api.errors import Failure, OperatorError
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.heartbeat_port import HeartbeatPort
from ridgeline.engine.driver.slots.shared_folder import BlockSharing
from ridgeline.engine.driver.slots.source_batch import SourceBatch
from ridgeline.engine.driver.slots.spark_errors import cause, gone, is_clusters, job_text, worker_died
from ridgeline.engine.driver.teardown import Process, tear_down, wanted
from ridgeline.engine.driver.watchdog import Hangs, Watchdog
from ridgeline.engine.operator.failures import Failed
from ridgeline.engine.process import plan_distribution
from ridgeline.engine.process.black_box import death_of, deaths
from ridgeline.engine.spark.byte_rdds import ByteRdds, StageFunction
from ridgeline.engine.spark.cluster import slots_to_come
from ridgeline.engine.spark.java_object import JavaObject
from ridgeline.engine.spark.shared_context import has_several_users
from ridgeline.engine.spark.shuffles import Shuffles
from ridgeline.engine.spark.worker_check import WorkerError, explain
from ridgeline.engine.worker.stage import (
    PROPERTY,
    Task,
    close_stage,
    commit_stage,
    fed_stage,
    ingest_stage,
    next_stage,
    source_stage,
    tick_stage,
)
from ridgeline.plan.container_spec import container_specs
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import StateVersion, WindowReport, WindowRequest
from ridgeline.stram.control import AttemptFailed, ContainerReported, ExecutorEvent
from ridgeline.stram.patience import Patience

_PROCESSES_KEPT = 10_000
"""How many worker processes are remembered at most, to tear their containers down at the end of the run."""


class SparkExecutor:
    """Runs the containers of a window as one RDD job. One thread at a time.

    Stage functions never change. Where windows begin with ticks, the RDDs do not change either. The same
    chain runs for each window, since Spark computes a stage again once its shuffle's output is dropped.

    Failures of the cluster count as no attempt for `patience_seconds`; `stop` ends the waits between them.
    """

    capacity = 1
    slots = None
    waits = False

    def __init__(
        self,
        context: SparkContext,
        plan: Plan,
        checkpoint: Checkpoint,
        clock: Clock,
        heartbeats: HeartbeatPort | None = None,
        *,
        patience_seconds: float = 0.0,
        stop: threading.Event | None = None,
    ) -> None:
        self._context = context
        self._clock = clock
        self._patience, self._stop = Patience(patience_seconds), stop
        self._rdds = ByteRdds(context)
        self._shuffles = Shuffles(context)
        self._application = plan.logical.application
        self._storage = checkpoint.storage
        self._epoch = checkpoint.epoch
        self._run_id = checkpoint.run_id
        self._heartbeats = heartbeats
        self._sharing = BlockSharing(context)
        hangs = Hangs(plan, checkpoint.run_id)
        self._watchdog = (
            Watchdog(hangs, heartbeats.workers, lambda _stuck: self._rdds.cancel(), clock)
            if heartbeats is not None
            else None
        )
        self._take(plan)
        self._cleaner = ThreadPoolExecutor(1, "ridgeline-cleaner")
        self._cleaning: Future[None] | None = None
        self._settings = dict(context.getConf().getAll())
        self._slots_to_come = slots_to_come(self._settings, max(map(len, self._stages)))
        self._processes: dict[Process, None] = {}
        self._happened: list[ExecutorEvent] = []
        self._fixed_slots = (
            context.defaultParallelism if re.match(r"local(\[|$)", str(context.master)) else None
        )

    def _take(self, plan: Plan) -> None:
        """Have the containers of a plan. Raises RidgelineError, OSError."""
        specs = container_specs(plan)
        self._plan = plan_distribution.distribute(self._storage, specs, epoch=self._epoch)
        self._specs = specs
        self._stages = [[container.id for container in stage.containers] for stage in plan.execution.stages]
        self._next = [partial(next_stage, number) for number in range(len(self._stages))]
        self._commits = [spec.id for spec in self._specs if spec.wants_commit]
        self._ticks: dict[tuple[tuple[int, ...], int, StageFunction], JavaObject] = {}
        self._chains: dict[int, tuple[JavaObject, range]] = {}

    def open(self) -> None:
        """Nothing has to be there before the first window."""

    def prepare(self, plan: Plan) -> None:
        """Nothing has to be there before: a window is a job of its own."""

    def check(self, plan: Plan) -> None:
        """Spark has places for any plan, one container after the other."""

    prepared = True

    def abandon(self) -> None:
        """Nothing was taken."""

    def change(self, plan: Plan) -> None:
        """As `WindowExecutor.change`. Workers find the plan with the next task that they get."""
        self._wait_for_cleaning()
        self._take(plan)
        if self._watchdog is not None:
            self._watchdog.follow(plan)
        self._slots_to_come = slots_to_come(self._settings, max(map(len, self._stages)))

    def begin(self, request: WindowRequest, source: SourceBatch | None) -> float:
        """Run an attempt to its end; returns when its job was given to Spark (wall clock)."""
        self._wait_for_cleaning()
        self._clock.wait(self._patience.wait_until - self._clock.monotonic(), self._stop)
        place = self._sharing.place(request.attempt)
        task = Task(
            self._storage.uri,
            self._plan,
            self._run_id,
            request,
            self._slots(),
            heartbeats=None if self._heartbeats is None else self._heartbeats.address,
            place=place,
        )
        shuffles: range | None
        begin = 0
        if source is None:
            reports, shuffles = self._tick_chain(task.slots)
        else:
            source.jobs += 1
            task = replace(task, source_containers=source.containers, source_schema=source.schema)
            with self._shuffles.numbering():
                begin = self._shuffles.next_id()
                reports, shuffles = self._chain(self._source_rdd(source, task.slots), task.slots), None
                if has_several_users(self._context):  # else all shuffles until the window's end are its own
                    reports.toDebugString()
                    shuffles = range(begin + 1, self._shuffles.next_id())
        self._context.setLocalProperty(PROPERTY, task.encode())
        launched = self._clock.wall()
        try:
            try:
                records = self._collect(reports, request)
            finally:
                self._cleaning = self._cleaner.submit(
                    self._clean, range(begin, self._shuffles.next_id()) if shuffles is None else shuffles
                )
            self._happened += self._outcome(records, request)
            self._patience.went_on()
        except OperatorError as error:  # once Spark's retries are used up
            failure = self._patience.failed(error.failure, self._clock.monotonic())
            self._happened.append(AttemptFailed(request.window_id, request.attempt, failure))
        return launched

    def poll(self, seconds: float) -> list[ExecutorEvent]:
        """What became of the attempt that was begun last."""
        happened, self._happened = self._happened, []
        return happened

    def wake(self) -> None:
        """Nothing waits in `poll`."""

    def _outcome(self, records: Iterable[bytes], request: WindowRequest) -> list[ContainerReported]:
        """The reports of all containers. Raises OperatorError if one has failed or has not reported."""
        received = self._clock.wall()
        found: list[WindowReport] = []
        failed: list[Failed] = []
        for record in (record for records_of_task in records for record in pickle.loads(records_of_task)):
            failure = Failed.decode(record)
            if failure is not None:
                failed.append(failure)
            else:
                report = pickle.loads(record)
                report.window.received = received
                self._processes[report.window.host, report.window.pid] = None
                found.append(report)
        while len(self._processes) > _PROCESSES_KEPT:
            del self._processes[next(iter(self._processes))]
        if failed:
            raise OperatorError(self._root(failed))
        missing = {spec.id for spec in self._specs} - {report.window.container for report in found}
        if missing:
            fault = f"containers {sorted(missing)} did not report"
            raise OperatorError(Failure(self._application, "", 0, request.window_id, "window", fault))
        return [ContainerReported(report) for report in found]

    def _root(self, failed: Sequence[Failed]) -> Failure:
        """The failure to report of several: the earliest stage's, and of these the first container's."""
        stages = {spec.id: spec.stage for spec in self._specs}
        return min(failed, key=lambda one: (stages[one.container], one.container)).failure

    def _collect(self, rdd: JavaObject, request: WindowRequest) -> list[bytes]:
        """Run a job. Raises OperatorError if it fails, WorkerError or SparkGoneError if it always would."""
        watchdog = self._watchdog
        try:
            with watchdog.watching(request) if watchdog is not None else contextlib.nullcontext():
                return self._rdds.collect(rdd)
        except Exception as error:  # noqa: BLE001  every error fails the window
            if watchdog is not None and watchdog.failure is not None:
                raise OperatorError(watchdog.failure) from None
            if unable := explain(job_text(error), str(self._context.master)):
                raise WorkerError(unable) from None
            raise gone(self._context, error) or OperatorError(self._failure(error, request)) from None

    def committed(self, window_id: int, states: Mapping[int, StateVersion]) -> None:
        """Call `committed` of the operators that override it, in a job of one stage. Raises OperatorError."""
        if not self._commits:
            return
        request = WindowRequest(window_id, 0, 0, states=dict(states))
        task = Task(self._storage.uri, self._plan, self._run_id, request, 1)
        self._context.setLocalProperty(PROPERTY, task.encode())
        records = self._collect(
            self._ticks_of(tuple(self._commits), len(self._commits), commit_stage), request
        )
        failed = [failure for record in records if (failure := Failed.decode(record)) is not None]
        if failed:
            raise OperatorError(self._root(failed))

    def close(self) -> list[Failure]:
        """Tear the containers down in all workers, and remove the blocks of windows.

        Returns what failed in `deactivate` and `teardown`.
        """
        failures: list[Failure] = []
        if self._watchdog is not None:
            self._watchdog.close()
        if self._heartbeats is not None:
            self._heartbeats.close()
        self._cleaner.shutdown(wait=True)
        if self._processes and wanted(self._specs):
            failures = tear_down(self._close_containers, self._rdds.cancel, self._processes)
        self._sharing.close()
        return failures

    def _close_containers(self) -> list[bytes]:
        """One round of `close_stage`, in every slot."""
        slots = self._slots()
        task = Task(self._storage.uri, self._plan, self._run_id, WindowRequest(0, 0, 0), slots)
        self._context.setLocalProperty(PROPERTY, task.encode())
        return self._rdds.collect(self._ticks_of(tuple(range(slots)), slots, close_stage))

    def _clean(self, shuffles: range) -> None:
        """Remove the shuffles and blocks of an attempt, in a thread. The next attempt waits for it."""
        self._shuffles.drop(shuffles)
        self._sharing.clean()

    def _wait_for_cleaning(self) -> None:
        cleaning, self._cleaning = self._cleaning, None
        if cleaning is not None:
            cleaning.result()

    def _slots(self) -> int:
        """How many tasks can run at the same time. On a cluster it changes with the executors."""
        if self._fixed_slots is None:
            return max(1, self._slots_to_come, self._context.defaultParallelism)
        return self._fixed_slots

    def _tick_chain(self, slots: int) -> tuple[JavaObject, range]:
        """All stages that follow ticks, and their shuffles; kept if the shuffles can be dropped."""
        if slots not in self._chains:
            with self._shuffles.numbering():
                begin = self._shuffles.next_id()
                chain = self._chain(self._tick_rdd(tuple(self._stages[0]), slots), slots)
                chain.toDebugString()  # which gives its shuffles their numbers
                made = chain, range(begin + 1, self._shuffles.next_id())
            if not self._shuffles.can_drop:
                return made
            self._chains = {slots: made}
        return self._chains[slots]

    def _chain(self, rdd: JavaObject, slots: int) -> JavaObject:
        """Append all later stages to the first one."""
        for number, containers in enumerate(self._stages[1:], 1):
            rdd = self._rdds.run(self._rdds.shuffled(rdd, min(len(containers), slots)), self._next[number])
        return rdd

    def _tick_rdd(self, containers: tuple[int, ...], slots: int) -> JavaObject:
        return self._ticks_of(containers, min(len(containers), slots), tick_stage)

    def _ticks_of(self, containers: tuple[int, ...], tasks: int, function: StageFunction) -> JavaObject:
        key = (containers, tasks, function)
        if key not in self._ticks:
            self._ticks[key] = self._rdds.numbers(containers, tasks, function)
        return self._ticks[key]

    def _source_rdd(self, source: SourceBatch, slots: int) -> JavaObject:
        """The first stage.

        One Spark source: the tasks that run its containers read its partitions; all other containers get a
        tick.

        Several, read as one union: a shuffle more takes the rows to their containers.
        """
        messages, partitions = source.messages()
        if len(source.containers) > 1:
            tasks = min(len(self._stages[0]), slots)
            return self._rdds.run(
                self._rdds.shuffled(self._rdds.run(messages, ingest_stage), tasks), fed_stage
            )
        fed = source.containers[0][:partitions]
        rdd = self._rdds.run(messages, source_stage)
        ticks = tuple(container for container in self._stages[0] if container not in fed)
        return rdd.union(self._tick_rdd(ticks, slots)) if ticks else rdd

    def _failure(self, error: Exception, request: WindowRequest) -> Failure:
        """Why a job failed, where no container has reported a failure."""
        text = job_text(error)
        died = deaths(self._run_id, request.window_id, request.attempt) if worker_died(text) else []
        operators = {operator.id: operator for spec in self._specs for operator in spec.operators}
        for death in died:
            operator = operators[death.turn.operator]
            return death_of(
                self._application,
                operator,
                request.window_id,
                [one for one in died if one.turn == death.turn],
            )
        what = cause(text)
        if worker_died(text):
            names = ", ".join(
                f"`{name}`" for name in dict.fromkeys(operator.name for operator in operators.values())
            )
            how = "killed (is the host out of memory?), or ended by `os._exit` or a crash in native code"
            what = f"a worker process died while it ran one of {names}: it was {how}"
        return Failure(
            self._application,
            "",
            0,
            request.window_id,
            "the window's Spark job",
            what,
            traceback=str(error),
            cluster=is_clusters(text),
        )
