"""Processes that end with the one that started them, however that ends, and ports that stay theirs."""

import contextlib
import fcntl
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ridgeline.testing.services.watcher import born, descendants, kill_tree, signal_tree

PYTHON = (sys.executable, "-E", "-S", "-s")
"""For files of the standard library alone."""
_BEGIN = 'echo $$ > "$0" && exec "$@"'
"""Notes the number of the process for the watcher, before it becomes a server."""
_LEAST, _END = 10_000, 30_000
"""Ports below those that systems give to outgoing connections."""


class Started:
    """A process in a session of its own; its output goes to the end of the file `log`, its input is empty.

    Its number is in `NAME.pid` of its folder while it runs.
    """

    def __init__(
        self, command: Sequence[str], log: Path, *, folder: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self._note = log.with_suffix(".pid")
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - what the caller names
                ["/bin/sh", "-c", _BEGIN, str(self._note), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=folder,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        self.pid = self._process.pid

    @property
    def code(self) -> int | None:
        """Its return code; None while it runs. Those left in its group are killed."""
        if self._process.returncode is None and self._process.poll() is not None:
            self._end_rest()
        return self._process.returncode

    def send(self, number: signal.Signals) -> Mapping[int, str]:
        """Send a signal to it alone; the numbers of its descendants, with when they began."""
        below = self._below()
        os.kill(self.pid, number)
        return below

    def send_all(self, number: signal.Signals) -> None:
        """Send a signal to it and all its descendants."""
        if self.code is None:
            signal_tree(self.pid, number)

    def kill(self) -> Mapping[int, str]:
        """End it and all its descendants by SIGKILL; returns when it is gone.

        Its descendants may be there for some time yet: these are their numbers, with when they began.
        """
        if self.code is not None:
            return {}
        below = self._below()
        kill_tree(self.pid)
        self._process.wait()
        self._end_rest()
        return below

    def _below(self) -> Mapping[int, str]:
        return {pid: born(pid) for pid in descendants(self.pid)}

    def _end_rest(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._note.unlink(missing_ok=True)


def alive(processes: Mapping[int, str]) -> list[int]:
    """Those that are still there, of processes by their number with when they began."""
    return [pid for pid, birth in processes.items() if birth and born(pid) == birth]


def kill_all(processes: Mapping[int, str]) -> None:
    """Kill those that are still there."""
    for pid in alive(processes):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Ports:
    """Free ports of 127.0.0.1. A lock on a file for each keeps other services off them until `release`."""

    def __init__(self) -> None:
        self._locks: list[int] = []

    def take(self) -> int:
        """A port on which no process listens."""
        folder = Path(tempfile.gettempdir(), f"ridgeline-ports-{os.getuid()}")
        folder.mkdir(mode=0o700, exist_ok=True)
        luck = random.SystemRandom()
        while True:
            port = luck.randrange(_LEAST, _END)
            lock = os.open(folder / str(port), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            with contextlib.suppress(OSError), socket.socket() as probe:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                probe.bind(("127.0.0.1", port))
                self._locks.append(lock)
                return port
            os.close(lock)

    def release(self) -> None:
        """Give all of them back."""
        while self._locks:
            os.close(self._locks.pop())
