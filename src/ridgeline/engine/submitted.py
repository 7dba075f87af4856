"""What `spark-submit` gave to this driver: its master and its settings."""

from __future__ import annotations

import os
from collections.abc import Mapping

_GATEWAY = "PYSPARK_GATEWAY_PORT"
"""The environment variable by which `spark-submit` tells a Python program where its JVM listens."""
DEFAULT_MASTER = "local[*]"


def submitted() -> dict[str, str]:
    """The settings of the `spark-submit` that started this process; {} if none did. The first call imports pyspark: half a second."""
    if _GATEWAY not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # noqa: SLF001  connects to the JVM that runs already
    return dict(SparkConf().getAll())


def chosen_master(master: str | None, conf: Mapping[str, str]) -> str:
    """The master given explicitly, else that of the settings, else that of `spark-submit`, else all cores of this machine."""
    return master or conf.get("spark.master") or submitted().get("spark.master") or DEFAULT_MASTER
