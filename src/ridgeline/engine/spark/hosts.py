"""Spark's hosts: what they have for tasks, and which of them runs the task of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ridgeline.engine.spark.cores import executors, host_in
from ridgeline.engine.spark.java_object import JavaObject
from ridgeline.stram.placement import HostCapacities, HostCapacity

if TYPE_CHECKING:
    from pyspark import SparkContext

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
