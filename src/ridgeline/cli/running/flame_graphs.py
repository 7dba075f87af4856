"""Flame graphs of running Python processes, by py-spy if it is installed."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

INSTALL = "flame graphs need py-spy: `pip install 'ridgeline[profile]'`"
_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")
_PATIENCE_SECONDS = 10.0


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
        _, said = recording.process.communicate(timeout=_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        recording.process.kill()
        _, said = recording.process.communicate()
    if recording.path.is_file():
        return f"flame graph of the {recording.who}: {recording.path}"
    return f"no flame graph of the {recording.who}: {_reason(said)}"


def _reason(said: str) -> str:
    """What kept py-spy from recording, and what to do."""
    if "permission denied" in said.lower() or "not permitted" in said.lower():
        remedy = (
            "run as root, or `sudo sysctl kernel.yama.ptrace_scope=0`; in a container, give it the "
            "capability SYS_PTRACE"
        )
        return f"py-spy may not look into the process{_scope()}; {remedy}"
    lines = [line.removeprefix("Error:").strip() for line in said.splitlines() if line.startswith("Error")]
    return (
        f"py-spy says: {lines[0]}"
        if lines
        else "the run was over before py-spy had begun; give it more windows"
    )


def _scope() -> str:
    with contextlib.suppress(OSError):
        return f" (`{_SCOPE}` is {_SCOPE.read_text().strip()})"
    return ""
