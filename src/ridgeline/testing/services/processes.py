"""Processes that end with the one that started them, however that ends."""

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ridgeline.testing.services.watcher import born, descendants, kill_tree, signal_tree

HERE = Path(__file__).parent
PYTHON = (sys.executable, "-E", "-S", "-s")
"""For files of the standard library alone."""
_GATE = 'read -r go && exec "$@"'
"""Waits for a line, so that the watcher knows a process before that becomes a server."""


class _Watcher:
    """The process that ends the others when this one is gone, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._process: subprocess.Popen[bytes] | None = None

    def note(self, line: str) -> None:
        """Write a line to the watcher, as it says."""
        with self._lock:
            if self._process is None or self._owner != os.getpid():
                command = [*PYTHON, str(HERE / "watcher.py"), str(os.getpid())]
                null = subprocess.DEVNULL
                self._process = subprocess.Popen(  # noqa: S603 - our own file
                    command, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True
                )
                self._owner = os.getpid()
            stdin = self._process.stdin
            assert stdin is not None  # noqa: S101 - a pipe
            stdin.write(os.fsencode(f"{line}\n"))
            stdin.flush()

    def end(self) -> None:
        """Let it end what is left, and wait for that."""
        with self._lock:
            if self._process is not None and self._owner == os.getpid():
                self._process.communicate()
                self._process = None


_WATCHER = _Watcher()
atexit.register(_WATCHER.end)


class TemporaryFolder:
    """A new folder, which is removed when this process is gone. Its name begins with `name`."""

    def __init__(self, name: str) -> None:
        self.path = Path(tempfile.gettempdir(), f"{name}-{uuid.uuid4().hex[:12]}")
        _WATCHER.note(f"+ {self.path}")
        self.path.mkdir(mode=0o700)

    def remove(self) -> None:
        """Remove it now."""
        shutil.rmtree(self.path, ignore_errors=True)
        _WATCHER.note(f"- {self.path}")


class Started:
    """A process in a session of its own. It is killed, with its descendants, when this process is gone.

    Its output goes to the end of the file `log`, its input is empty. With `commands`, `ask` writes to its
    input and reads its output.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        cwd: Path,
        environment: Mapping[str, str] | None = None,
        commands: bool = False,
    ) -> None:
        gate = _GATE if commands else f"{_GATE} </dev/null"
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - what the caller names
                ["/bin/sh", "-c", gate, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if commands else output,
                stderr=output,
                cwd=cwd,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        self.pid = self._process.pid
        _WATCHER.note(f"+ {self.pid}")
        self._write("go")
        if not commands:
            self._close_pipes()

    def _write(self, line: str) -> None:
        stdin = self._process.stdin
        assert stdin is not None  # noqa: S101 - a pipe
        with contextlib.suppress(BrokenPipeError):
            stdin.write(f"{line}\n".encode())
            stdin.flush()

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def answer(self) -> str:
        """The next line that it writes; empty once it has ended."""
        stdout = self._process.stdout
        assert stdout is not None  # noqa: S101 - a pipe
        return stdout.readline().decode().strip()

    def ask(self, command: str) -> str:
        """Write it a line; the line that it answers."""
        self._write(command)
        return self.answer()

    @property
    def code(self) -> int | None:
        """Its return code; None while it runs. Those left in its group are killed."""
        if self._process.returncode is None and self._has_ended(os.WNOHANG):
            self._reap()
        return self._process.returncode

    def stop(self, number: signal.Signals, is_late: Callable[[], bool]) -> None:
        """Send a signal to it alone; once it has ended or `is_late()` is true, kill all that is left."""
        if self.code is not None:
            return
        below = {pid: born(pid) for pid in descendants(self.pid)}
        os.kill(self.pid, number)
        while not self._has_ended(os.WNOHANG) and not is_late():
            pass
        self.kill()
        for pid, birth in below.items():
            if birth and born(pid) == birth:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

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
        below = {pid: born(pid) for pid in descendants(self.pid)}
        kill_tree(self.pid)
        self._has_ended(0)
        self._reap()
        return below

    def _has_ended(self, options: int) -> bool:
        # Its number stays taken until `_reap`, so no other process can have it when its group is killed.
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | options) is not None

    def _reap(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self._close_pipes()
        _WATCHER.note(f"- {self.pid}")
