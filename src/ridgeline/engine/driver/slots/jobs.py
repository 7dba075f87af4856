"""The Spark jobs that are slots: one job of one task for each, submitted and watched by one thread.

A task that dies is tried again by Spark itself. A job that has ended is reported once; a new one is asked
for by `start`. Only jobs of slots that are not connected are looked at, so a thousand slots that work cost
nothing.
"""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from queue import Empty, SimpleQueue

from pyspark import InheritableThread, SparkContext

from ridgeline.api.clock import Clock
from ridgeline.engine.spark.cluster import is_local
from ridgeline.engine.spark.cores import host_of_task
from ridgeline.engine.spark.java_object import ByteRdds, JavaObject, StageFunction
from ridgeline.engine.spark.profiles import make_profile
from ridgeline.stram.slot_resources import Need

_LOOK_SECONDS = 0.2
_REST_SECONDS = 60.0
_NAMING_SECONDS = 1.0
DESCRIPTION = "spark.job.description"
"""The local property with what Spark's UI shows of a job."""


@dataclass(frozen=True, slots=True)
class JobEnded:
    """Spark's job of a slot has ended: `error` is what it failed with, None if its task has left."""

    slot: int
    error: Exception | None


class SlotJobs:
    """Submits and cancels the jobs of slots. `take_ended` gives what has ended since.

    `properties(slot)` are the local properties of a slot's job, `need(slot)` what Spark must give it. `wake`
    is called once a job has ended. The thread of the jobs calls all of them, and alone changes which jobs
    there are.
    """

    def __init__(
        self,
        context: SparkContext,
        function: StageFunction,
        properties: Callable[[int], Mapping[str, str]],
        need: Callable[[int], Need],
        clock: Clock,
        wake: Callable[[], None],
    ) -> None:
        self._context = context
        self._rdds = ByteRdds(context)
        self._function = function
        self._properties = properties
        self._need = need
        settings = dict(context.getConf().getAll())
        self._profile = cache(lambda need: make_profile(need, str(context.master), settings))
        self._clock = clock
        self._wake = wake
        self._orders = SimpleQueue[Callable[[], object]]()
        """What the thread is to do next."""
        self._ended: deque[JobEnded] = deque()
        self._jobs: dict[int, JavaObject] = {}
        self._nodes: dict[str, str] = {}
        """Spark's names for hosts, by their own."""
        self._connected: set[int] = set()
        self._closing = False
        self._patience = math.inf
        self._thread = InheritableThread(target=self._serve, name="ridgeline-slots", daemon=True)
        self._thread.start()

    def start(self, slot: int, hosts: Sequence[str] = ()) -> None:
        """Submit a job for a slot that has none; it counts as not connected until `connected`.

        Spark takes one of `hosts` if a core is free there, else any.
        """
        self._orders.put(partial(self._submit, slot, hosts))

    def node(self, slot: int, host: str) -> str:
        """Spark's name for the host of a slot that has joined from `host`, "" if all are on this one.

        Spark is asked once a host; it says so within moments of the start of the task.
        """
        if is_local(str(self._context.master)):
            return ""
        job = self._jobs.get(slot)
        deadline = self._clock.monotonic() + _NAMING_SECONDS
        while host not in self._nodes and job is not None and self._clock.monotonic() < deadline:
            if node := host_of_task(self._context, job):
                self._nodes[host] = node
            else:
                self._clock.wait(_NAMING_SECONDS / 50)
        return self._nodes.get(host, host)

    def cancel(self, slot: int) -> None:
        """Have Spark end the task of a slot, if it has one. Its end is reported as any other."""
        self._orders.put(partial(self._cancel, slot))

    def connected(self, slot: int) -> None:
        """The slot has joined: its job needs no watching."""
        self._connected.add(slot)

    def disconnected(self, slot: int) -> None:
        """The connection to a slot is lost: its job is watched until the slot has joined again."""
        self._connected.discard(slot)
        self._orders.put(self._watched)  # it looks at once

    def take_ended(self) -> list[JobEnded]:
        """The jobs that have ended since the last call."""
        return [self._ended.popleft() for _ in range(len(self._ended))]

    def close(self, seconds: float) -> None:
        """Wait for the jobs to end, cancel those that do not, stop the thread; takes `seconds` at most."""
        self._connected.clear()
        self._patience = self._clock.monotonic() + seconds / 2
        self._closing = True
        self._orders.put(self._watched)
        self._thread.join(seconds)

    # The thread ---------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Carry out orders and look at the jobs that are watched, until closed and no job is left."""
        while not (self._closing and not self._jobs):
            with contextlib.suppress(Empty):
                order = self._orders.get(timeout=_LOOK_SECONDS if self._watched() else _REST_SECONDS)
                while True:
                    order()
                    order = self._orders.get_nowait()
            for slot in self._watched():
                self._look(slot)
            if self._closing and self._clock.monotonic() >= self._patience:
                for slot in list(self._jobs):
                    self._cancel(slot)
                self._patience = math.inf

    def _watched(self) -> list[int]:
        return [slot for slot in self._jobs if slot not in self._connected]

    def _submit(self, slot: int, hosts: Sequence[str]) -> None:
        """Give Spark the job. A job that Spark refuses has ended at once."""
        try:
            self._jobs[slot] = self._begun(slot, hosts)
        except Exception as error:  # noqa: BLE001  the run decides what it means
            self._end(slot, error)

    def _begun(self, slot: int, hosts: Sequence[str]) -> JavaObject:
        """The job of a slot, which has begun. Raises what Spark raises."""
        for name, text in self._properties(slot).items():
            self._context.setLocalProperty(name, text)
        rdd = self._rdds.preferring(hosts, self._function)
        profile = self._profile(self._need(slot))
        if profile is not None:
            rdd = rdd.withResources(profile)
        return rdd.toJavaRDD().collectAsync()

    def _cancel(self, slot: int) -> None:
        job = self._jobs.get(slot)
        if job is not None:
            with contextlib.suppress(Exception):  # it has ended meanwhile, or Spark has
                job.cancel(True)  # noqa: FBT003  Java's

    def _look(self, slot: int) -> None:
        """Report a job that has ended."""
        job = self._jobs[slot]
        try:
            if not job.isDone():
                return
            job.get()
        except Exception as error:  # noqa: BLE001  as above
            self._end(slot, error)
        else:
            self._end(slot, None)

    def _end(self, slot: int, error: Exception | None) -> None:
        self._jobs.pop(slot, None)
        self._ended.append(JobEnded(slot, error))
        self._wake()
