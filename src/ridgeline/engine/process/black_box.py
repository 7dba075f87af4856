"""The operator in turn of a worker process, in a small mapped file that outlives the process.

A process that is killed, crashes in native code or calls `os._exit` says nothing more. The driver, if it runs
on the same host, reads from the file which operator was in turn. Noting that costs a window about a
microsecond an operator.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Sequence
from typing import NamedTuple

from ridgeline.api.errors import Failure
from ridgeline.engine.process import stacks
from ridgeline.plan.physical import PhysicalOperator

_SUFFIX = ".turn"
_BYTES = 256


class Turn(NamedTuple):
    """An operator (physical id) in turn in a container, in an attempt at a window of a run."""

    run_id: str
    window_id: int
    attempt: int
    container: int
    operator: int


class Death(NamedTuple):
    """A dead process, the operator in turn, and its stack from a crash ("" if it was killed or left)."""

    pid: int
    turn: Turn
    dump: str


class BlackBox:
    """The file of this process. `note` and `idle` raise nothing."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._map: mmap.mmap | None = None
        with contextlib.suppress(OSError):
            descriptor = os.open(
                stacks.folder() / f"{self._pid}{_SUFFIX}", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600
            )
            try:
                os.ftruncate(descriptor, _BYTES)
                self._map = mmap.mmap(descriptor, _BYTES)
            finally:
                os.close(descriptor)

    @property
    def of_this_process(self) -> bool:
        """False in a process that was forked since."""
        return self._pid == os.getpid()

    def note(self, turn: Turn) -> None:
        """It is this operator's turn."""
        if self._map is not None:
            line = f"{turn.window_id} {turn.attempt} {turn.container} {turn.operator} {turn.run_id}\n"
            text = line.encode()[:_BYTES]
            self._map[: len(text)] = text

    def idle(self) -> None:
        """No operator is in turn."""
        if self._map is not None:
            self._map[:1] = b"\n"


def turn_of(pid: int) -> Turn | None:
    """The operator in turn, or the last one, in a process of this user on this host; else None."""
    try:
        line = (stacks.folder() / f"{pid}{_SUFFIX}").read_bytes().partition(b"\n")[0]
        window, attempt, container, operator, run_id = line.decode().split(" ", 4)
        return Turn(run_id, int(window), int(attempt), int(container), int(operator))
    except (OSError, ValueError):
        return None


def death_of(application: str, operator: PhysicalOperator, window_id: int, died: Sequence[Death]) -> Failure:
    """The failure of an operator that was in turn when worker processes died."""
    dump = max(death.dump for death in died)
    times = " twice" if len(died) > 1 else ""
    reason = dump.partition("\n")[0].removeprefix("Fatal Python error: ")
    how = (
        f"crashed in native code: {reason}"
        if reason
        else "was killed (is the host out of memory?), or ended by `os._exit`"
    )
    name = operator.title if operator.unifier else operator.name
    text = f"its worker process died{times}: it {how}"
    return Failure(application, name, operator.partition, window_id, "its turn", text, traceback=dump)
