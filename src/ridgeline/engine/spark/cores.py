"""How many tasks Spark can run at a time, and how many of these places slots hold."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ridgeline.engine.spark.cluster import cores_allowed, slots_to_come
from ridgeline.engine.spark.java_object import JavaObject
from ridgeline.stram.placement import HostCapacities, HostCapacity

if TYPE_CHECKING:
    from pyspark import SparkContext


EXTRA_CORES = "spark.ridgeline.slots.extraCores"
"""How many task slots of `local[N]` were added for slots, so that Spark's own jobs have N."""
_ATTEMPTS = 4
"""Tries of a task before its job fails: Spark's default on clusters, given to `local[N]`, which has 1."""
_LOCAL = re.compile(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*(\d+)\s*)?\])?")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]")


def local_cores(master: str) -> int | None:
    """The N of `local[N]`, of `*` the cores that this process may use; None for any other master."""
    match = _LOCAL.fullmatch(master)
    if match is None:
        return None
    return len(os.sched_getaffinity(0)) if match.group(1) == "*" else int(match.group(1) or 1)


def with_retries(master: str, extra: int = 0) -> str:
    """`local[2]` as `local[2,4]`, so that tasks are retried; any other master as it is.

    `extra`: task slots to add to those of `local[N]`.
    """
    match = _LOCAL.fullmatch(master)
    if match is None or (match.group(2) and not extra):
        return master
    cores = (local_cores(master) or 1) + extra if extra else match.group(1) or 1
    return f"local[{cores},{match.group(2) or _ATTEMPTS}]"


def extra_cores(context: SparkContext) -> int:
    """The task slots that were added for slots when Spark was started."""
    return int(context.getConf().get(EXTRA_CORES, "0"))


def most_cores(master: str, settings: Mapping[str, str]) -> int | None:
    """How many tasks Spark may ever run at a time by its settings; None if these say nothing."""
    if (match := _LOCAL_CLUSTER.fullmatch(master)) is not None:
        return int(match.group(1)) * int(match.group(2))
    return None if local_cores(master) is not None else cores_allowed(master, settings)


def count_cores(context: SparkContext, wanted: int, without: Collection[str] = ()) -> int:
    """How many tasks Spark can run at a time: now, or where it adds executors, once `wanted` tasks wait.

    Executors on hosts of `without` do not count. Asks the JVM: a few milliseconds.
    """
    master = str(context.master)
    cores = local_cores(master)
    if cores is not None:
        return cores
    settings = dict(context.getConf().getAll())
    promised = slots_to_come(settings, wanted)
    if (match := _LOCAL_CLUSTER.fullmatch(master)) is not None:
        promised = int(match.group(1)) * int(match.group(2))
    return max(present_cores(context, without), promised)


def present_cores(context: SparkContext, without: Collection[str] = ()) -> int:
    """How many tasks the executors that are there now can run at a time. Asks the JVM."""
    return sum(
        int(executor.maxTasks())
        for executor in executors(context)
        if not without or host_in(str(executor.hostPort())) not in without
    )


def host_in(place: str) -> str:
    """The host of `host:port`. An executor that has just come has no port yet."""
    host, _, port = place.rpartition(":")
    return host if host and port.isdigit() else place


def executors(context: SparkContext) -> Iterator[Any]:
    """The entries of Spark's status store on executors that are there now. Asks the JVM."""
    found: Any = context._jsc.sc().statusStore().executorList(True)  # noqa: FBT003, SLF001  Scala's
    for executor in (found.apply(index) for index in range(found.size())):
        if executor.id() != "driver":
            yield executor


_lock = threading.Lock()
_held: dict[int, int] = {}
"""Task slots that slots of this process's applications hold, by the context's identity."""


def held_cores(context: SparkContext) -> int:
    """How many places slots hold now."""
    with _lock:
        return _held.get(id(context), 0)


def hold_cores(context: SparkContext, cores: int) -> None:
    """Slots of an application take places; negative: they give them back."""
    with _lock:
        left = _held.get(id(context), 0) + cores
        _held[id(context)] = left
        if not left:
            del _held[id(context)]


# Spark's hosts: what they have for tasks, and which of them runs the task of a job.

_ATTEMPTS_LOOKED_AT = 100
_RUNNING = "RUNNING"


def capacities(context: SparkContext) -> HostCapacities:
    """The tasks that each host's executors can run at a time, and its rack. Asks the JVM: milliseconds.

    Hosts are named as executors are registered, which is how preferred locations name them.
    """
    spark: Any = context._jsc.sc()  # noqa: SLF001  PySpark has no other way to it
    places: dict[str, int] = {}
    for executor in executors(context):
        host = host_in(str(executor.hostPort()))
        places[host] = places.get(host, 0) + int(executor.maxTasks())
    return {host: HostCapacity(number, _rack(spark, host)) for host, number in places.items()}


def host_of_task(context: SparkContext, job: JavaObject) -> str:
    """The host that runs the one task of a job now, "" if Spark does not say so yet. Asks the JVM."""
    store: Any = context._jsc.sc().statusStore()  # noqa: SLF001  as above
    for number in job.jobIds():
        info = context.statusTracker().getJobInfo(int(number))
        for stage in info.stageIds if info is not None else ():
            tasks = store.taskList(stage, 0, _ATTEMPTS_LOOKED_AT)
            for task in (tasks.apply(index) for index in range(tasks.size())):
                if str(task.status()) == _RUNNING:
                    return str(task.host())
    return ""


def _rack(spark: Any, host: str) -> str:
    """The rack that Hadoop's topology names on YARN; "" elsewhere."""
    rack = spark.taskScheduler().getRackForHost(host)
    return str(rack.get()) if rack.isDefined() else ""
