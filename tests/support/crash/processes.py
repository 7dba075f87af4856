"""Ridgeline runs as processes of their own, to be killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import ridgeline
from support.accounts.reports import Command
from support.manifests import last_of
from support.waiting import PATIENCE_SECONDS, wait_until


class Driver:
    """`ridgeline run ...` in a session of its own; all it prints goes to a file."""

    def __init__(self, arguments, log, **environment):
        self.log = Path(log)
        path = os.pathsep.join(
            [str(Path(ridgeline.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
        )
        with self.log.open("ab") as out:
            self.process = Command(
                self.words(map(str, arguments)),
                log=self.log,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.log.parent,
                env={**os.environ, "PYTHONPATH": path, **environment},
            )

    def words(self, arguments):
        """The command."""
        return [sys.executable, "-m", "ridgeline.cli.main", "run", *arguments]

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

    def wait(self):
        """Wait for its end; the exit code."""
        return self.process.wait(PATIENCE_SECONDS)

    def until(self, condition, what):
        """Wait until something holds, or it has ended; whether it lives."""
        wait_until(lambda: condition() or self.exit_code is not None, what)
        return self.exit_code is None

    def until_windows(self, checkpoint, more):
        """Wait until so many windows more are committed, or it has ended; whether it lives."""
        before = committed(checkpoint)
        return self.until(lambda: committed(checkpoint) >= before + more, f"{more} windows more")

    def members(self):
        """Process ids of its session that are alive: the driver, its JVMs, Python daemons and workers."""
        return [one.pid for one in self.process.members() if one.state not in "ZX"]

    def clean(self):
        """Kill whatever is left of it."""
        self.process.clean()


def committed(checkpoint):
    """The last window in the journal, -1 before the first; also while a driver writes it."""
    last = last_of(checkpoint) if Path(checkpoint, "run.json").exists() else None
    return last.window_id if last else -1


def options(**given):
    """Words of a command line: `options(wait_in=4)` are `--wait-in 4`."""
    return [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", value)]


def parent(pid):
    """The process id of a process's parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def slots_of(driver):
    """The workers of a run: Python processes whose parent is a daemon of Spark's."""
    found = []
    for pid in driver.members():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_text()
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            above = Path(f"/proc/{parent}/cmdline").read_text()
        except OSError:
            continue
        if "spark.daemon" in command and "spark.daemon" in above:
            found.append(pid)
    return found
