"""Ridgeline runs as processes of their own, to be killed."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import ridgeline
from support.manifests import last_of


class Driver:
    """`ridgeline run ...` in a session of its own; all it prints goes to a file."""

    def __init__(self, arguments, log, **environment):
        self.log = Path(log)
        path = os.pathsep.join(
            [str(Path(ridgeline.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
        )
        command = [sys.executable, "-m", "ridgeline.cli.main", "run", *map(str, arguments)]
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                command,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.log.parent,
                env={**os.environ, "PYTHONPATH": path, **environment},
                start_new_session=True,
            )

    @property
    def pid(self):
        return self.process.pid

    @property
    def exit_code(self):
        """None while it runs."""
        return self.process.poll()

    @property
    def text(self):
        """What it has printed so far."""
        return self.log.read_text(errors="replace")

    def kill(self):
        """SIGKILL to the driver alone; its JVM and workers notice by themselves."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def wait(self, seconds=300):
        """Wait for its end; the exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            message = f"the run has not ended after {seconds} s; it printed:\n{self.text[-3000:]}"
            raise AssertionError(message) from None

    def members(self):
        """Process ids of its session that are alive: the driver, its JVMs, Python daemons and workers."""
        return [pid for pid, session in sessions() if session == self.pid]

    def clean(self):
        """Kill whatever is left of it."""
        for pid in self.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


def sessions():
    """Process id and session id of all processes that are not zombies."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if fields[0] not in "ZX":
                    yield int(entry.name), int(fields[3])


def committed(checkpoint):
    """The last window in the journal, -1 before the first; also while a driver writes it."""
    last = last_of(checkpoint) if Path(checkpoint, "run.json").exists() else None
    return last.window_id if last else -1


def parent(pid):
    """The process id of a process's parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
