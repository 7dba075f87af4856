"""The SparkContext of this process, which all its applications share: Spark allows one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ridgeline.api.errors import RidgelineError
from ridgeline.engine.spark.cores import extra_cores, with_retries
from ridgeline.engine.spark.submitted import active_context

if TYPE_CHECKING:
    from pyspark import SparkContext

_lock = threading.Lock()
_users: dict[int, int] = {}
"""Applications that run on a context that one of them has started, by the context's identity."""


def borrow(master: str, conf: Mapping[str, str], start: Callable[[], SparkContext]) -> SparkContext:
    """The context that this process has already, else a new one. `give_back` it.

    Raises RidgelineError if the existing one is on another master or has other settings, and what
    `start` raises.
    """
    with _lock:
        active = active_context()
        if active is None:
            active = start()
            _users[id(active)] = 1
            return active
        _check(active, master, conf)
        if id(active) in _users:
            _users[id(active)] += 1
        return active


def java_version() -> str:
    """The version of the Java that Spark runs on in this process; "" if it does not run."""
    active = active_context()
    machine = None if active is None else active._jvm  # noqa: SLF001  there is no other way
    return "" if machine is None else str(machine.java.lang.System.getProperty("java.version"))


def redact(context: SparkContext, *names: str) -> None:
    """Keep the values of these local properties out of Spark's event log.

    Spark redacts there what its own settings have too, if `spark.redaction.regex` takes the name for a
    secret. Other local properties it writes as they are (`EventLoggingListener.redactProperties`). So the
    names become settings, without a value.
    """
    settings = context._jsc.sc().conf()  # noqa: SLF001  `getConf` is a copy
    for name in names:
        settings.set(name, "")


def give_back(context: SparkContext) -> None:
    """An application has ended.

    The last one on a context that an application started stops it; another program's stays.
    """
    with _lock:
        left = _users.get(id(context))
        if left is None:
            return
        if left > 1:
            _users[id(context)] = left - 1
            return
        del _users[id(context)]
        context.stop()


def _check(active: SparkContext, master: str, conf: Mapping[str, str]) -> None:
    """Refuse another master or other settings than this process's Spark has. Raises RidgelineError."""
    remedy = "leave it out to share that Spark, end what uses it first, or start this application in "
    remedy += "another process"
    if with_retries(str(active.master)) not in {
        with_retries(master),
        with_retries(master, extra_cores(active)),
    }:
        msg = f"Spark runs in this process already, on `{active.master}`, and there can be one only; "
        msg += f"`{master}` was given: {remedy}"
        raise RidgelineError(msg)
    settings = active.getConf()
    other = sorted(
        name for name, value in conf.items() if name != "spark.master" and settings.get(name) != value
    )
    if other:
        msg = f"Spark runs in this process already, with another `{other[0]}` or none, and there can be "
        msg += f"one only: {remedy}"
        raise RidgelineError(msg)
