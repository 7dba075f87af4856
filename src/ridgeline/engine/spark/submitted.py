"""The master and the settings that `spark-submit` gave to this driver."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

_YARN_CONTAINER = re.compile(r"container_(?:e\d+_)?(\d+_\d+)_\d+_\d+")
_GATEWAY = "PYSPARK_GATEWAY_PORT"
"""The environment variable in which `spark-submit` passes the port of its JVM to a Python program."""
DEFAULT_MASTER = "local[*]"


def submitted() -> dict[str, str]:
    """The settings of the `spark-submit` that started this process; {} if none did.

    The first call imports pyspark: half a second.
    """
    if _GATEWAY not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # noqa: SLF001  connects to the JVM that runs already
    return dict(SparkConf().getAll())


def chosen_master(master: str | None, conf: Mapping[str, str]) -> str:
    """The explicit master, else that of settings, this process's Spark or `spark-submit`; else all cores."""
    active = active_context()
    running = None if active is None else str(active.master)
    return master or conf.get("spark.master") or running or submitted().get("spark.master") or DEFAULT_MASTER


def active_context() -> SparkContext | None:
    """The SparkContext of this process, None if there is none. Imports nothing."""
    pyspark = sys.modules.get("pyspark")
    return None if pyspark is None else pyspark.SparkContext._active_spark_context  # noqa: SLF001  there is no other way


def spark_id() -> str:
    """The id of this process's application at its cluster; "" without a cluster."""
    context = active_context()
    return "" if context is None or str(context.master).startswith("local") else str(context.applicationId)


def yarn_id() -> str:
    """The id on YARN of the application whose master this process is in; "" elsewhere.

    Each attempt of YARN to run the application has the same one.
    """
    found = _YARN_CONTAINER.fullmatch(os.environ.get("CONTAINER_ID", ""))
    return "" if found is None else f"application_{found[1]}"
