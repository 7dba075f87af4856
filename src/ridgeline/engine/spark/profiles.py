"""Resource profiles: what Spark gives a slot beyond one core (Spark's stage-level scheduling)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.resource import ExecutorResourceRequests, ResourceProfileBuilder, TaskResourceRequests

from ridgeline.api.errors import RidgelineError
from ridgeline.engine.spark.cluster import is_dynamic, is_local
from ridgeline.engine.spark.java_object import JavaObject
from ridgeline.stram.slot_resources import NEEDS, Need

_GPU = "gpu"
_GPUS_OF_EXECUTOR = "spark.executor.resource.gpu.amount"
_OVERHEAD_MB = 384
"""Spark's own least overhead of an executor, which a profile's replaces."""


def given_by(master: str, settings: Mapping[str, str]) -> frozenset[str]:
    """Which of the attributes `memory_mb`, `vcores` and `gpus` Spark can give a slot.

    Tasks of a local Spark share one process. Executors that are there from the start have the memory that
    they have; with dynamic allocation Spark starts some that fit.
    """
    if is_local(master):
        return frozenset()
    return frozenset(NEEDS) if is_dynamic(settings) else frozenset({"vcores", "gpus"})


def check_need(need: Need, master: str, settings: Mapping[str, str]) -> None:
    """Raise RidgelineError if no executor that Spark has could run a slot with this need."""
    if is_local(master) or is_dynamic(settings):
        return
    cores = settings.get("spark.executor.cores", "")
    if cores.isdigit() and int(cores) < need.vcores:
        msg = f"a slot needs {need.vcores} cores (`vcores`); executors have {cores}; "
        msg += f"give `--conf spark.executor.cores={need.vcores}`"
        raise RidgelineError(msg)
    gpus = settings.get(_GPUS_OF_EXECUTOR, "0")
    if gpus.isdigit() and int(gpus) < need.gpus:
        msg = f"a slot needs {need.gpus} GPUs (`gpus`); executors have {gpus}; "
        msg += f"give `--conf {_GPUS_OF_EXECUTOR}={need.gpus}` and Spark's settings to find them"
        raise RidgelineError(msg)


def make_profile(need: Need, master: str, settings: Mapping[str, str]) -> JavaObject | None:
    """Spark's profile for a slot's task; None if it needs one core only.

    Without dynamic allocation it is of the task alone: executors stay as they are. With it Spark starts
    executors for it, of one slot each.
    """
    if need == Need():
        return None
    task = TaskResourceRequests().cpus(_cores(need, settings))
    if need.gpus:
        task = task.resource(_GPU, need.gpus)
    builder = ResourceProfileBuilder().require(task)
    if is_dynamic(settings):
        builder = builder.require(_executor(need, master, settings))
    profile: Any = builder.build
    return profile._java_resource_profile  # noqa: SLF001  PySpark has no other way to it


def _executor(need: Need, master: str, settings: Mapping[str, str]) -> ExecutorResourceRequests:
    """An executor for one slot. Its Python process has memory beside the JVM's heap.

    A standalone cluster counts the heap only, so there the heap is larger by what Python needs.
    """
    executor = ExecutorResourceRequests().cores(_cores(need, settings))
    if need.memory_mb and master.startswith("spark:"):
        executor = executor.memory(
            f"{_megabytes(settings.get('spark.executor.memory', '1g')) + need.memory_mb}m"
        )
    elif need.memory_mb:
        executor = executor.memoryOverhead(f"{_OVERHEAD_MB + need.memory_mb}m")
    if need.gpus:
        script = settings.get("spark.executor.resource.gpu.discoveryScript", "")
        vendor = settings.get("spark.executor.resource.gpu.vendor", "")
        executor = executor.resource(_GPU, need.gpus, script, vendor)
    return executor


def _cores(need: Need, settings: Mapping[str, str]) -> int:
    """The cores of a slot's task: no fewer than those of Spark's other tasks."""
    return max(need.vcores, int(settings.get("spark.task.cpus", "1")))


def _megabytes(text: str) -> int:
    """Spark's sizes, such as `2g`, in MB."""
    digits = text.strip().lower().removesuffix("b")
    unit = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}.get(digits[-1:], 0)
    return int(int(digits.rstrip("kmgt")) * (unit or 1))
