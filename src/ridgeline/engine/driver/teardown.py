"""Calls `deactivate` and `teardown` of all operators in the workers at the end of a run, in bounded time."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Collection, Sequence

from ridgeline.api.errors import Failure
from ridgeline.api.operator import Operator
from ridgeline.engine.operator.failures import Failed
from ridgeline.engine.process import stacks
from ridgeline.plan.container_spec import ContainerSpec

_ROUNDS = 3
_SECONDS = 10.0
Process = tuple[str, int]
"""Host and process id."""


def wanted(specs: Sequence[ContainerSpec]) -> bool:
    """True if an operator overrides `deactivate` or `teardown`."""
    classes = {type(operator.operator) for spec in specs for operator in spec.operators}
    return any(
        kind.teardown is not Operator.teardown or kind.deactivate is not Operator.deactivate
        for kind in classes
    )


def tear_down(
    job: Callable[[], Sequence[bytes]], cancel: Callable[[], None], processes: Collection[Process]
) -> list[Failure]:
    """Run `job` (a `close_stage` in every slot) until all processes have torn their containers down.

    At most three times and for 10 s. Spark gives a task to the worker that has been idle for longest, so a
    job with a task for each slot reaches all. A process on this host that is not reached gets a signal and
    reports no failure; elsewhere its daemon sends the signal at its end. Returns the failures.
    """
    left = set(processes)
    failures: list[Failure] = []
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        cancel()

    timer = threading.Timer(_SECONDS, expire)
    timer.daemon = True
    timer.start()
    try:
        for _ in range(_ROUNDS):
            if expired.is_set() or not any(
                host != socket.gethostname() or stacks.lives(pid) for host, pid in left
            ):
                break
            with contextlib.suppress(Exception):  # cancelled, or Spark is gone
                for record in job():
                    failed = Failed.decode(record)
                    if failed is not None:
                        failures.append(failed.failure)
                    else:
                        host, pid = json.loads(record)
                        left.discard((host, pid))
    finally:
        timer.cancel()
    for host, pid in left:
        if host == socket.gethostname() and stacks.is_worker(pid):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGHUP)
    return failures
