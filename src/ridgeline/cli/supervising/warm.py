"""The Spark of a standby, started before it is needed: a start takes most of what a takeover may take."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.files import is_local as is_local_place
from ridgeline.engine.spark.cluster import cores_allowed, is_dynamic, is_local
from ridgeline.engine.spark.submitted import java_settings
from ridgeline.service.store.entry import RUNNING, STARTING

if TYPE_CHECKING:
    from pyspark import SparkContext

    from ridgeline.cli.settings import RunSettings
    from ridgeline.plan.execution import Plan
    from ridgeline.service.store.entry import StoreEntry

_STARTING_SECONDS = 30.0
"""A driver that starts for longer may wait for the cores that a standby holds."""
_AGAIN_SECONDS = 120.0
"""How long a standby without executors waits until it tries again to get them."""
_REGISTERED = "spark.scheduler.maxRegisteredResourcesWaitingTime"
_REGISTERED_TIME = "20s"
_LACKS = "the driver that runs lacks cores, so its executors are given back"
_CLOCK = SystemClock()


class WarmSpark:
    """Starts Spark for a plan, and forks its workers once. The run uses the same Spark.

    On `local[N]` it starts all of it. On a standalone cluster it starts the Java process, and `WarmExecutors`
    do the rest. It starts nothing on other clusters. `say`: prints a line.
    """

    def __init__(self, plan: Plan, settings: RunSettings) -> None:
        self.say: Callable[[str], None] = print
        self._plan = plan
        self._settings = settings
        self._context: SparkContext | None = None
        self._executors: WarmExecutors | None = None
        self._begun = False

    def start(self) -> None:
        """Start it at the first call. Raises RidgelineError if Spark does not start."""
        if self._begun:
            return
        self._begun = True
        master = self._settings.master
        if master.startswith("spark://"):
            from ridgeline.engine.driver.run.launch import rehearse_spark

            rehearse_spark([self._plan], self._settings.launched(), self._place)
            self._executors = WarmExecutors(self._start, self._fill, self._settings, self.say)
        if is_local(master):
            self._context = context = self._start({})
            self._fill(context)
            cores = context.defaultParallelism
            context.parallelize(range(cores), cores).map(_same).count()

    def look(self, entry: StoreEntry) -> None:
        """Ask for executors or give them back, as the driver with that entry stands. Never waits for them.

        Raises RidgelineError if its Java process has ended, or its workers could run no window.
        """
        from ridgeline.engine.driver.slots.spark_errors import java_has_ended

        if self._begun and java_has_ended():
            raise RidgelineError(
                "the Java process of this standby has ended; start it again, or add `--supervise`"
            )
        if self._executors is not None:
            self._executors.look(entry)

    def take(self) -> None:
        """It is to be used now: executors are given back no more."""
        if self._executors is not None:
            self._executors.take()

    @property
    def is_late(self) -> bool:
        """Whether it has no executors, which another standby may have: that one is to go first."""
        return self._executors is not None and not self._executors.held

    @property
    def _place(self) -> str:
        return self._settings.options.checkpoint or ""

    def _start(self, more: dict[str, str]) -> SparkContext:
        """Spark as the run starts it, with `more` settings, which those of the user win over."""
        from ridgeline.engine.driver.run.launch import start_spark

        options, runs = self._settings.launched(), max(1, len(self._plan.logical.regions))
        options = replace(options, conf={**more, **options.conf})
        return start_spark([self._plan], options, self._place, runs)

    def _fill(self, context: SparkContext) -> None:
        """Load the client of the store, which takes seconds."""
        from ridgeline.engine.driver.run.launch import hadoop_storage

        if not is_local_place(self._place):
            hadoop_storage(self._place, context).names("")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._executors is not None:
            self._executors.close()
        if self._context is not None:
            _end(self._context)


class WarmExecutors:
    """Executors of a standalone cluster for a standby, with their Python started.

    They take as many cores as a driver does, by `spark.cores.max`. Without it they would take all that come
    free, so there are none. If not all are free, or the driver that runs lacks cores, they are given back,
    and asked for again minutes later. A standby without executors starts them when it takes over.
    """

    def __init__(
        self,
        start: Callable[[dict[str, str]], SparkContext],
        fill: Callable[[SparkContext], None],
        settings: RunSettings,
        say: Callable[[str], None],
    ) -> None:
        """`start`: gives a Spark with more settings. `fill`: loads in it what else the run needs."""
        conf = {**java_settings(), **settings.launched().conf}
        self._start, self._fill, self._say = start, fill, say
        self._wanted = None if is_dynamic(conf) else cores_allowed(settings.master, conf)
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._hurry = threading.Event()
        """Set if executors are to be given back before their Python has started."""
        self._thread: threading.Thread | None = None
        self._context: SparkContext | None = None
        self._taken = False
        self._fault: RidgelineError | None = None
        self._next = 0.0
        self._starting: tuple[int, float] | None = None
        """The start of a driver that is at its start, and since when that is seen."""
        self._said = ""
        if self._wanted is None:
            why = "Spark asks for executors as tasks need them"
            why = why if is_dynamic(conf) else "`spark.cores.max` is not given"
            self._say_once(f"{why}, so its executors start when it takes over")

    @property
    def held(self) -> bool:
        """Whether it has executors."""
        return self._context is not None

    def look(self, entry: StoreEntry) -> None:
        """As `WarmSpark.look`."""
        if self._fault is not None:
            raise self._fault
        self._taken = False  # if it was to be used, another standby was quicker
        if self._wanted is None:
            return
        now = _CLOCK.monotonic()
        short = entry.short or self._starts_long(entry, now)
        if self._thread is not None and self._thread.is_alive():
            if short:
                self._hurry.set()
        elif self._context is not None:
            if short:
                self._give_back(_LACKS)
            elif _is_stopped(self._context):
                self._give_back("its Spark was stopped, so its executors start when it takes over")
        elif entry.state == RUNNING and not short and now >= self._next:
            self._hurry.clear()
            self._thread = threading.Thread(target=self._ask, name="standby-executors", daemon=True)
            self._thread.start()

    def take(self) -> None:
        """As `WarmSpark.take`. A start that is under way is the start of the run."""
        with self._lock:
            self._taken = True
        if self._context is not None and _is_stopped(self._context):
            _end(self._context)
            self._context = None

    def close(self) -> None:
        """End what is left of it."""
        self._ended.set()
        self._hurry.set()
        with self._lock:
            context, self._context = self._context, None
        if context is not None:
            _end(context)

    def _ask(self) -> None:
        """Start Spark, and keep it if it gets all cores. A thread of its own: the cluster may have none."""
        from ridgeline.engine.spark.worker_check import WorkerError

        context, why = None, ""
        try:
            context = self._start({_REGISTERED: _REGISTERED_TIME})
            why = self._prepared(context)
        except WorkerError as error:
            self._fault, why = error, str(error)
        except Exception as error:  # noqa: BLE001  the standby waits on, and starts its Spark later
            why = f"its executors do not start: {error}; they start when it takes over"
        with self._lock:
            self._next = _CLOCK.monotonic() + _AGAIN_SECONDS
            if self._ended.is_set() or (why and not self._taken):
                kept = None
            else:
                kept = self._context = context
        if why:
            self._say_once(why)
        elif kept is not None and not self._taken:
            self._say_once(f"it holds {self._wanted} cores of the cluster, with Python started")
        if kept is None and context is not None:
            _end(context)

    def _prepared(self, context: SparkContext) -> str:
        """Start Python on all executors; why not, "" if it is done. Raises WorkerError."""
        from ridgeline.engine.spark.cores import present_cores
        from ridgeline.engine.spark.worker_check import WorkerCheck

        free = present_cores(context)
        if self._taken:
            return ""
        if free < (self._wanted or 0):
            return (
                f"the cluster has {free} of {self._wanted} cores free for it, so its executors start when it "
                "takes over"
            )
        check = WorkerCheck(context, None, self._say)
        self._fill(context)
        check.wait(self._hurry)
        return _LACKS if self._hurry.is_set() else ""

    def _starts_long(self, entry: StoreEntry, now: float) -> bool:
        if entry.state != STARTING:
            self._starting = None
            return False
        if self._starting is None or self._starting[0] != entry.start:
            self._starting = entry.start, now
        return now - self._starting[1] >= _STARTING_SECONDS

    def _give_back(self, why: str) -> None:
        self._say_once(why)
        context, self._context = self._context, None
        self._next = _CLOCK.monotonic() + _AGAIN_SECONDS
        if context is not None:
            _end(context)

    def _say_once(self, text: str) -> None:
        """Say a text unless it was the last one."""
        if text != self._said:
            self._said = text
            self._say(text)


def _end(context: SparkContext) -> None:
    """Give Spark back. A Java process that has ended is no fault."""
    from ridgeline.engine.driver.slots.spark_errors import has_ended
    from ridgeline.engine.spark.shared_context import give_back

    with suppress(Exception) if has_ended(context) else nullcontext():
        give_back(context)


def _is_stopped(context: SparkContext) -> bool:
    """Whether Spark has stopped, as when its master has dropped it."""
    try:
        return bool(context._jsc.sc().isStopped())  # noqa: SLF001  PySpark has no other way
    except Exception:  # noqa: BLE001  it is of no use, whatever it is
        return True


def _same(value: int) -> int:
    return value
