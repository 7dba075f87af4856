"""Run an application on Spark from beginning to end."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from rich.console import Console

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.errors import CheckpointError, RidgelineError
from ridgeline.api.operator import SparkSource
from ridgeline.api.support.files import is_local, local_path, use_s3
from ridgeline.api.support.masking import mask_text
from ridgeline.engine.driver.checkpoint.compactions import Compactions
from ridgeline.engine.driver.checkpoint.folder import Checkpoint, temporary_checkpoint
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.driver.checkpoint.planning import Planner, counted_on
from ridgeline.engine.driver.checkpoint.rewinding import rewound
from ridgeline.engine.driver.checkpoint.state_moves import check_states
from ridgeline.engine.driver.checkpoint.store_watch import OUTPUT_SILENT_SECONDS, StoreWatch
from ridgeline.engine.driver.heartbeats import Heartbeats
from ridgeline.engine.driver.outputs import OutputStores, publisher_contexts
from ridgeline.engine.driver.run.committing import Commits
from ridgeline.engine.driver.run.options import Options, Outcome
from ridgeline.engine.driver.run.reporter import Observe
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.engine.driver.slots.spark_errors import SparkGoneError, gone, has_ended
from ridgeline.engine.driver.spark_source.offset_log import SparkLog
from ridgeline.engine.files.patience import PatientDriverStorage, PatientLocalStorage
from ridgeline.engine.files.storage import DriverStorage
from ridgeline.engine.process.garbage import collect_after, short_pauses
from ridgeline.engine.process.plan_distribution import installed_modules
from ridgeline.engine.spark.cores import count_cores, extra_cores, held_cores, local_cores
from ridgeline.engine.spark.s3 import s3_settings
from ridgeline.engine.spark.session import PRELOAD, quieten_executors, start_context
from ridgeline.engine.spark.shared_context import borrow, give_back
from ridgeline.engine.spark.worker_check import WorkerCheck
from ridgeline.plan.execution import Plan
from ridgeline.stram.placement import RESERVED_CORES, most_slots

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


_log = logging.getLogger(__name__)
FAULT = "fault.json"
"""The file of a checkpoint for the last fault of a driver. Nothing reads it, and no run needs it."""


class Claim:
    """Takes the name of an application in a store, before the checkpoint is taken over; this one does not."""

    def before_spark(self, checkpoint: str) -> None:
        """Take the name if that needs no Spark. Raises RidgelineError if another application has it."""

    def with_spark(self, checkpoint: str) -> None:
        """Take the name unless this driver has it. Raises as `before_spark`."""


_NO_CLAIM = Claim()


def launch(  # noqa: PLR0913, PLR0915  an embedding program replaces any of these
    plan: Plan,
    options: Options,
    *,
    observe: Observe | None = None,
    stop: threading.Event | None = None,
    console: Console | None = None,
    clock: Clock | None = None,
    context: SparkContext | None = None,
    started: Callable[[ApplicationRun], None] | None = None,
    heartbeats: Heartbeats | None = None,
    settle: Callable[[], bool] | None = None,
    planner: Planner | None = None,
    share: int = 0,
    page: str = "",
    claim: Claim = _NO_CLAIM,
) -> Outcome:
    """Run a plan on Spark until its inputs have finished, `windows` are committed or `stop` is set; blocks.

    `observe` gets every event, `started(run)` is called before the first window. `context` is a
    SparkContext to use (it stays); else that of this process is shared, or one started and stopped.
    `heartbeats`: takes what containers send while a window takes long (nothing at recording level OFF); the
    watchdog needs it. `settle`: as for `ApplicationRun`. `planner`: has made the plan, and makes it again if
    the checkpoint keeps other properties than it had found; without one the run keeps none. `share`: as of
    `SparkSlots`. `page`: the address of the run's page, which Spark's UI shows beside its jobs; "" for none.
    `claim`: takes the application's name, before the checkpoint is taken over. Raises
    RidgelineError and its subclasses; what was committed stays, and a run with the same checkpoint continues.
    """
    clock, observe = clock or SystemClock(), observe or (lambda _event: None)
    stop = stop or threading.Event()
    console = console or Console()
    uri = options.checkpoint or temporary_checkpoint(plan.logical.application)
    uri = local_path(uri) if is_local(uri) else uri
    own_context = context is None
    stores, watching = OutputStores(clock), contextlib.ExitStack()
    storage: PatientLocalStorage | PatientDriverStorage
    checkpoint: Checkpoint | None = None
    run: ApplicationRun | None = None
    orderly = dumped = False
    from ridgeline.engine.driver.slots.executor import SlotExecutor
    from ridgeline.engine.driver.slots.spark_slots import SparkSlots

    try:
        claim.before_spark(uri)
        if is_local(uri):  # refused before Spark is started for it
            storage = PatientLocalStorage(uri, clock)
            checkpoint = Checkpoint(storage, plan.logical.application, beside=True)
            plan = _settled(planner, plan, checkpoint)
            if planner is None or planner.from_window is None:
                check_states(plan, checkpoint, planner)
        if context is None:
            context = start_spark([plan], options, uri)
        check = (
            None
            if local_cores(str(context.master)) is not None  # workers are children of this process
            else WorkerCheck(context, uri if is_local(uri) else None, console.print)
        )
        claim_by(claim, uri, context)
        if checkpoint is None:
            storage = PatientDriverStorage(hadoop_storage(uri, context), clock)
            checkpoint = Checkpoint(storage, plan.logical.application, beside=True)
            plan = _settled(planner, plan, checkpoint)
        opened = publisher_contexts(
            plan.logical.application, checkpoint, clock, console, partial(_session, context)
        )
        plan = rewound(checkpoint, plan, planner, clock, opened, partial(_check_sources, checkpoint))
        slots = SparkSlots(context, checkpoint.epoch, clock, stop, share, page)
        _log.info("containers live in slots", extra={"application": plan.logical.application})
        executor = SlotExecutor(
            slots,
            plan,
            checkpoint.storage,
            checkpoint.run_id,
            checkpoint.epoch,
            clock=clock,
            observe=observe,
            heartbeats=heartbeats,
        )
        several = plan.logical.attributes["windows_in_flight"] > 1  # one waits for its commit anyway
        run = ApplicationRun(
            plan,
            checkpoint,
            executor,
            clock,
            opened,
            observe,
            Compactions.in_background,
            settle,
            commits=Commits(ThreadPoolExecutor(1, "ridgeline-commit") if several else None, executor.wake),
            planner=planner,
            stores=stores,
        )
        first = run.next_window
        if check is not None:
            check.wait(stop)
            quieten_executors(context)
        if started:
            started(run)
        begun = run

        def ending() -> bool:
            """Whether the run is to end, so that no store is waited for without a limit."""
            return stop.is_set() or begun.ending

        stores.be_patient(ending)
        storage.be_patient(ending)
        watching.enter_context(StoreWatch(stores, clock, observe, OUTPUT_SILENT_SECONDS))
        with short_pauses(), StoreWatch(storage, clock, observe), contextlib.ExitStack() as driven:
            driven.callback(storage.hurry)
            collect_after(reports=len(plan.physical.operators))
            _drive(run, context, clock, stop, options.windows)
        orderly = True
        return Outcome(run.next_window - first, run.master.committed, run.master.ended, uri)
    except Exception as error:
        if checkpoint is not None and (fenced := checkpoint.taken_over(error)) is not None:
            raise fenced from error
        lost = None if context is None else gone(context, error)
        dumped = lost is None and _dump_fault(run, error)
        if lost is None or isinstance(error, SparkGoneError):
            raise
        raise lost from None
    finally:
        try:
            _end(run, checkpoint, context, orderly=orderly, stops=own_context)
        finally:
            watching.close()
            if (
                options.checkpoint is None
                and not dumped
                and (run is None or run.master.committed < 0 or (orderly and run.master.ended))
            ):
                shutil.rmtree(uri, ignore_errors=True)


def _dump_fault(run: ApplicationRun | None, error: Exception) -> bool:
    """Write the last events and instructions of STRAM into the checkpoint, and name the file in a note.

    Returns False if there is no file: for an expected error, or where it cannot be written.
    """
    if run is None or isinstance(error, RidgelineError):
        return False
    storage = run.checkpoint.storage
    try:
        storage.write(FAULT, json.dumps(run.debug_dump(error), indent=1).encode())
    except Exception:  # noqa: BLE001  the error of which the driver dies comes first
        _log.warning("the last events and instructions could not be written", exc_info=True)
        return False
    path = mask_text(f"{storage.uri}/{FAULT}")
    error.add_note(f"the last events and instructions of the driver are in `{path}`")
    return True


def _settled(planner: Planner | None, plan: Plan, checkpoint: Checkpoint) -> Plan:
    """The plan with what the checkpoint, which is owned now, keeps. Raises RidgelineError."""
    if planner is None:
        return counted_on(plan, checkpoint.last())
    plan = planner.settled(checkpoint.last())
    if planner.resume_note:
        _log.info("%s", planner.resume_note, extra={"application": plan.logical.application})
    return plan


def _check_sources(checkpoint: Checkpoint, plan: Plan, window: Manifest) -> None:
    """Before a rewind: raise CheckpointError if Spark sources cannot begin again after a window."""
    operators = plan.logical.operators
    names = [operator.name for operator in operators if isinstance(operator.operator, SparkSource)]
    known = window.offsets
    if not names and known is None:
        return
    what = f"cannot rewind `{mask_text(checkpoint.storage.uri)}` to window {window.window_id}"
    if known is None or list(known.sources) != names:
        found = "none" if known is None else ", ".join(f"`{name}`" for name in known.sources)
        raise CheckpointError(f"{what}: its Spark sources were {found}; run it with these, in this order")
    SparkLog(checkpoint.storage, names).check_back(known, what)


def start_spark(plans: Sequence[Plan], options: Options, uri: str, runs: int = 1) -> SparkContext:
    """The SparkContext of this process, or a new one as the plans need it, for `runs` beside each other.

    Raises RidgelineError. `give_back` it.
    """
    modules = dict.fromkeys(name for plan in plans for name in installed_modules(plan))
    conf = {f"spark.executorEnv.{PRELOAD}": ",".join(modules), **options.conf}
    slots = sum(map(most_slots, plans))
    operators = [operator for plan in plans for operator in plan.logical.operators]
    start = partial(
        start_context,
        plans[0].logical.application,
        options.where,
        conf,
        streaming=any(isinstance(operator.operator, SparkSource) for operator in operators),
        local_checkpoint=is_local(uri),
        widest=slots + RESERVED_CORES,
        slots=slots,
        least=runs,
    )
    return borrow(options.where, options.conf, start)


def claim_by(claim: Claim, uri: str, context: SparkContext) -> None:
    """Take the name, and use Spark's settings of S3 from now on. Raises RidgelineError."""
    use_s3(s3_settings(context))
    claim.with_spark(uri)


def slot_shares(context: SparkContext, plans: Sequence[Plan]) -> list[int]:
    """How many slots each of several plans may have that run beside each other: one at least.

    The others go to those with the most containers for each slot. Raises RidgelineError if there are too few.
    """
    wanted = [most_slots(plan) for plan in plans]
    cores = count_cores(context, sum(wanted) + RESERVED_CORES)
    free = cores - held_cores(context) - RESERVED_CORES
    if free < len(plans):
        what = f"{len(plans)} regions need {len(plans) + RESERVED_CORES} cores: one each for a slot, "
        what += f"{RESERVED_CORES} for Spark's own jobs; {max(0, free + RESERVED_CORES)} are free"
        raise RidgelineError(f"{what}; give Spark more cores, or decouple fewer streams")
    shares = [1] * len(plans)
    for _ in range(min(free, sum(wanted), max(len(plans), cores - extra_cores(context))) - len(plans)):
        fullest = max(range(len(plans)), key=lambda one: wanted[one] / shares[one])
        shares[fullest] += 1
    return shares


def _end(
    run: ApplicationRun | None,
    checkpoint: Checkpoint | None,
    context: SparkContext | None,
    *,
    orderly: bool,
    stops: bool,
) -> None:
    """Close what has been opened. Failures are suppressed if Spark's process has ended, which is reported."""
    if context is None:
        if checkpoint is not None:
            checkpoint.close()
        return
    with contextlib.suppress(Exception) if has_ended(context) else contextlib.nullcontext():
        try:
            if run is not None:
                run.close(orderly=orderly)
            elif checkpoint is not None:
                checkpoint.close()
        finally:
            if stops:
                give_back(context)


def hadoop_storage(uri: str, context: SparkContext) -> DriverStorage:
    """The storage of a checkpoint that is not on a local disk.

    Raises CheckpointError if it cannot be reached.
    """
    from ridgeline.engine.spark.hadoop import HadoopStorage

    use_s3(s3_settings(context))
    try:
        return HadoopStorage(uri, context)
    except CheckpointError:
        raise
    except Exception as error:
        cause = getattr(error, "java_exception", error)
        remedy = "Spark needs the file system's client (`--conf spark.jars.packages=...`)"
        raise CheckpointError(
            f"checkpoint folder `{mask_text(uri)}` cannot be reached: {mask_text(str(cause))}; {remedy}"
        ) from error


def _drive(
    run: ApplicationRun, context: SparkContext, clock: Clock, stop: threading.Event, windows: int | None
) -> None:
    """Run windows by the trigger that the plan needs, until a limit is reached; blocks."""
    from ridgeline.engine.driver.run.triggers import Limits, QueryTrigger, TickTrigger
    from ridgeline.engine.driver.slots.spark_slots import StoppedWaitingError

    limits = Limits(run, windows, stop)
    if limits.reached:
        return
    with contextlib.suppress(StoppedWaitingError):  # no window has begun
        if any(isinstance(operator.operator, SparkSource) for operator in run.plan.logical.operators):
            QueryTrigger(run, _session(context), f"{run.checkpoint.storage.uri}/spark", clock).drive(limits)
        else:
            TickTrigger(run, clock, stop).drive(limits)


def _session(context: SparkContext) -> SparkSession:
    """The SparkSession of a SparkContext, made at the first use."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    return SparkSession(context) if active is None else active
