"""No Java process outlives a driver that was killed: a guard ends it, if it does not end by itself.

Java ends when its standard input does, so with the driver. But it may take long over it: it stops Spark, and
writes its archive of classes for 20 s or more. That is right after an end in order, and harmful after a
kill: the next driver needs the cores. The guard is a shell that waits for the end of a pipe from the driver.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

GRACE_SECONDS = 5
"""How long a Java process may take to end after a driver that was killed."""
_SCRIPT = """
trap '' TERM INT HUP
started() { cut -d' ' -f22 "/proc/$1/stat" 2>/dev/null; }
known=$(started "$1")
read -r said && [ "$said" = done ] && exit 0
for second in $(seq "$2"); do
    [ "$(started "$1")" = "$known" ] || exit 0
    sleep 1
done
[ "$(started "$1")" = "$known" ] && kill -9 "$1"
"""
_guards: dict[int, IO[bytes]] = {}
"""The pipe of each guard, by the process that it guards."""


def guard(context: SparkContext) -> None:
    """Have the Java process of this context end with this process, however this one ends; Linux only."""
    process = getattr(getattr(context, "_gateway", None), "proc", None)
    if process is None or process.pid in _guards or not sys.platform.startswith("linux"):
        return
    command = ["sh", "-c", _SCRIPT, "ridgeline-guard", str(process.pid), str(GRACE_SECONDS)]
    with contextlib.suppress(OSError):  # there is no shell: Java ends in its own time
        shell = subprocess.Popen(  # noqa: S603  a constant, and numbers
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        assert shell.stdin is not None  # noqa: S101  as asked for
        _guards[process.pid] = shell.stdin
        _shells.append(shell)


_shells: list[subprocess.Popen[bytes]] = []
"""Kept, so that Python does not warn of a process that still runs."""


def _ends_in_order(own: int = os.getpid()) -> None:
    """Send all guards home."""
    for pipe in _guards.values() if os.getpid() == own else ():
        with contextlib.suppress(OSError):
            pipe.write(b"done\n")
            pipe.close()
    for shell in _shells if os.getpid() == own else ():
        with contextlib.suppress(subprocess.TimeoutExpired):
            shell.wait(1.0)


atexit.register(_ends_in_order)
