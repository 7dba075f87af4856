"""`ridgeline run --profile`: flame graphs of the run's processes."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from ridgeline.cli.errors import CommandError
from ridgeline.measure.events import ContainerWindow, RunEvent, WindowCommitted

INSTALL = "flame graphs need py-spy: `pip install 'ridgeline[profile]'`"
_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")
_PATIENCE_SECONDS = 10.0
_WARM_WINDOWS = 10
_WARM_SECONDS = 5.0
"""Flame graphs begin after this number of windows or this time: until then processes start."""


class Profile:
    """Records a run, told when by its events (`apply`, in the windows' thread); then call `finish`.

    Args:
        folder: Where the files go; it is made. Files of a run before are replaced. Raises CommandError if
            that cannot be.
        seconds: How long flame graphs are recorded at most.
        own_host: Where this process runs: workers of other hosts cannot be looked into from here.
    """

    def __init__(self, folder: Path, seconds: int, own_host: str) -> None:
        self._own_host = own_host
        self._busy: dict[int, float] = {}
        self._first: float | None = None
        self._windows = 0
        self._lines: list[str] = []
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise CommandError(
                f"the profile cannot be written to `{folder}`: {error.strerror or error}; start the "
                "command in another folder"
            ) from None
        py_spy = find_py_spy()
        self.fault = INSTALL if py_spy is None else ""
        """Why there will be no flame graphs; empty if there can be."""
        self._graphs = FlameGraphs(py_spy, folder, seconds) if py_spy is not None else None
        self._recording = False

    def apply(self, event: RunEvent) -> None:
        """Take an event in; once windows are warm, begin to record."""
        if isinstance(event, ContainerWindow) and not self._recording:
            if event.host == self._own_host:
                self._busy[event.pid] = self._busy.get(event.pid, 0.0) + event.written - event.began
        elif isinstance(event, WindowCommitted):
            self._windows += 1
            self._first = event.at if self._first is None else self._first
            if not self._recording and (
                self._windows >= _WARM_WINDOWS or event.at - self._first >= _WARM_SECONDS
            ):
                self._record()

    def _record(self) -> None:
        """Record the driver and the worker that was busy for longest."""
        self._recording = True
        if self._graphs is None:
            return
        self._graphs.record("driver", os.getpid())
        if self._busy:
            self._graphs.record("worker", max(self._busy, key=lambda pid: self._busy[pid]))
        else:
            self._lines.append(
                "no flame graph of a worker: none runs on this host; on a worker's: `py-spy record --pid "
                "PID -o worker.svg`"
            )

    def finish(self) -> list[str]:
        """End the recordings, however the run has ended; a line for each file, and for what is missing."""
        if self._graphs is not None:
            self._lines += self._graphs.finish()
            if not self._recording and self._windows:
                self._lines.append(
                    f"no flame graphs: they begin after {_WARM_WINDOWS} windows, or {_WARM_SECONDS:.0f} s "
                    "after the first"
                )
        return [*self._lines, *filter(None, [self.fault])]


def find_py_spy() -> str | None:
    """The path of py-spy, beside this Python or among the commands; None if it is not installed."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.is_file() else shutil.which("py-spy")


@dataclass(slots=True)
class _Recording:
    who: str
    path: Path
    process: subprocess.Popen[str]


class FlameGraphs:
    """Records processes of this host into a folder: `WHO.svg` each, for at most `seconds`.

    One thread at a time.

    `finish` reports what is not recorded and stops all recordings. A recording also ends with the process
    that it looks at, and after `seconds`.
    """

    def __init__(self, py_spy: str, folder: Path, seconds: int) -> None:
        self._py_spy = py_spy
        self._folder = folder
        self._seconds = seconds
        self._recordings: list[_Recording] = []
        self._faults: list[str] = []

    def record(self, who: str, pid: int) -> None:
        """Begin to record a process. Returns at once."""
        path = self._folder / f"{who}.svg"
        path.unlink(missing_ok=True)  # of an earlier run: it would look like this one's
        words = [
            self._py_spy,
            "record",
            "--nonblocking",
            "--pid",
            str(pid),
            "--duration",
            str(self._seconds),
            "--output",
            str(path),
        ]
        try:
            process = subprocess.Popen(  # noqa: S603  py-spy and numbers
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                umask=0o077,
                start_new_session=True,  # Ctrl-C is for the run, which ends the recording
            )
        except OSError as error:
            self._faults.append(
                f"no flame graph of the {who}: `{self._py_spy}` does not start: {error.strerror or error}"
            )
        else:
            self._recordings.append(_Recording(who, path, process))

    def finish(self) -> list[str]:
        """End what still records; a line for each process: its file, or why there is none."""
        for recording in self._recordings:
            if recording.process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    recording.process.send_signal(signal.SIGINT)
        lines = [*self._faults, *(_result(recording) for recording in self._recordings)]
        self._recordings.clear()
        return lines


def _result(recording: _Recording) -> str:
    try:
        _, printed = recording.process.communicate(timeout=_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        recording.process.kill()
        _, printed = recording.process.communicate()
    if recording.path.is_file():
        return f"flame graph of the {recording.who}: {recording.path}"
    return f"no flame graph of the {recording.who}: {_reason(printed)}"


def _reason(printed: str) -> str:
    """The reason why py-spy did not record, and the remedy."""
    if "permission denied" in printed.lower() or "not permitted" in printed.lower():
        remedy = (
            "run as root, or `sudo sysctl kernel.yama.ptrace_scope=0`; in a container, give it the "
            "capability SYS_PTRACE"
        )
        return f"py-spy may not look into the process{_scope()}; {remedy}"
    lines = [line.removeprefix("Error:").strip() for line in printed.splitlines() if line.startswith("Error")]
    return (
        f"py-spy says: {lines[0]}"
        if lines
        else "the run was over before py-spy had begun; give it more windows"
    )


def _scope() -> str:
    with contextlib.suppress(OSError):
        return f" (`{_SCOPE}` is {_SCOPE.read_text().strip()})"
    return ""
