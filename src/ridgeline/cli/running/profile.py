"""`ridgeline run --profile`: flame graphs of the run's processes, by py-spy."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from ridgeline.cli.errors import CommandError
from ridgeline.measure.events import ContainerWindow, RunEvent, WindowCommitted

INSTALL = "flame graphs need py-spy: `pip install 'ridgeline[profile]'`"
_PATIENCE_SECONDS = 10.0
_WARM_WINDOWS = 10
_WARM_SECONDS = 5.0
"""Flame graphs begin after this number of windows or this time: until then processes start."""


class Profile:
    """Records the driver and the worker that was busy for longest, as `WHO.svg`.

    Told when by events (`apply`, in the windows' thread); then call `finish`.

    Args:
        folder: Where the files go; it is made. Files of a run before are replaced. Raises CommandError if
            that cannot be.
        seconds: How long flame graphs are recorded at most.
        own_host: Where this process runs: workers of other hosts cannot be looked into from here.
    """

    def __init__(self, folder: Path, seconds: int, own_host: str) -> None:
        self._folder = folder
        self._seconds = seconds
        self._own_host = own_host
        self._busy: dict[int, float] = {}
        self._first: float | None = None
        self._windows = 0
        self._recordings: dict[str, subprocess.Popen[str]] | None = None
        """By who is recorded; None before it begins."""
        self._lines: list[str] = []
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise CommandError(
                f"the profile cannot be written to `{folder}`: {error.strerror or error}; start the "
                "command in another folder"
            ) from None
        self._py_spy = find_py_spy()

    def apply(self, event: RunEvent) -> None:
        """Take an event in; once windows are warm, begin to record."""
        if self._recordings is not None or self._py_spy is None:
            return
        if isinstance(event, ContainerWindow):
            if event.host == self._own_host:
                self._busy[event.pid] = self._busy.get(event.pid, 0.0) + event.written - event.began
        elif isinstance(event, WindowCommitted):
            self._windows += 1
            self._first = event.at if self._first is None else self._first
            if self._windows >= _WARM_WINDOWS or event.at - self._first >= _WARM_SECONDS:
                self._recordings = {}
                self._record(self._py_spy, "driver", os.getpid())
                if self._busy:
                    self._record(self._py_spy, "worker", max(self._busy, key=lambda pid: self._busy[pid]))
                else:
                    there = "on a worker's: `py-spy record --pid PID -o worker.svg`"
                    self._lines.append(f"no flame graph of a worker: none runs on this host; {there}")

    def _record(self, py_spy: str, who: str, pid: int) -> None:
        """Begin to record a process. Returns at once."""
        path = self._folder / f"{who}.svg"
        path.unlink(missing_ok=True)  # of an earlier run: it would look like this one's
        words = [
            py_spy,
            "record",
            "--nonblocking",
            "--pid",
            pid,
            "--duration",
            self._seconds,
            "--output",
            path,
        ]
        try:
            process = subprocess.Popen(  # noqa: S603  py-spy and numbers
                list(map(str, words)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                umask=0o077,
                start_new_session=True,  # Ctrl-C is for the run, which ends the recording
            )
        except OSError as error:
            self._lines.append(
                f"no flame graph of the {who}: `{py_spy}` does not start: {error.strerror or error}"
            )
        else:
            assert self._recordings is not None  # noqa: S101  it has begun
            self._recordings[who] = process

    def finish(self) -> list[str]:
        """End the recordings, however the run has ended; a line for each file, and for what is missing."""
        if self._py_spy is None:
            return [INSTALL]
        if self._recordings is None:
            return [f"no flame graphs: they begin after {_WARM_WINDOWS} windows, or {_WARM_SECONDS:.0f} s"]
        for process in self._recordings.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
        return [*self._lines, *(self._result(who, process) for who, process in self._recordings.items())]

    def _result(self, who: str, process: subprocess.Popen[str]) -> str:
        try:
            _, printed = process.communicate(timeout=_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            _, printed = process.communicate()
        path = self._folder / f"{who}.svg"
        if path.is_file():
            return f"flame graph of the {who}: {path}"
        return f"no flame graph of the {who}: {_reason(printed)}"


def find_py_spy() -> str | None:
    """The path of py-spy, beside this Python or among the commands; None if it is not installed."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.is_file() else shutil.which("py-spy")


def _reason(printed: str) -> str:
    """The reason why py-spy did not record, and the remedy."""
    if "permission denied" in printed.lower() or "not permitted" in printed.lower():
        return (
            "py-spy may not look into the process; run as root, or `sudo sysctl kernel.yama.ptrace_scope=0`; "
            "in a container, give it the capability SYS_PTRACE"
        )
    for line in printed.splitlines():
        if line.startswith("Error"):
            return f"py-spy says: {line.removeprefix('Error:').strip()}"
    return "the run was over before py-spy had begun; give it more windows"
