"""Sections of a failed test's report: what the commands that it started have printed, and where they are."""

import contextlib
import os
import signal
import subprocess
import sys
import traceback
from itertools import islice
from pathlib import Path

from support.accounts.processes import FRAMES, WIDTH, account, descendants, processes, short, with_stacks
from support.waiting import PATIENCE_SECONDS

LINES = 60
"""Of each command: as much of its report as fits is shown of a run of continuous integration."""
_PRINTED = 25
_STARTED = []


class Command(subprocess.Popen):
    """A process in a session of its own, of which a failed test's report speaks until it is forgotten.

    `log`: the file that has what it prints.
    """

    def __init__(self, words, *, log=None, env=None, **named):
        environment = with_stacks(dict(os.environ) if env is None else env)
        super().__init__(list(map(str, words)), env=environment, start_new_session=True, **named)
        self._log = log
        _STARTED.append(self)

    def communicate(self, input=None, timeout=PATIENCE_SECONDS):
        """As Popen's; one that takes too long has an account of its processes."""
        try:
            return super().communicate(input, timeout)
        except subprocess.TimeoutExpired as error:
            printed = (error.stdout or b"") + (error.stderr or b"")
            error.add_note("\n".join(self.account(printed.decode(errors="replace"))))
            raise

    def members(self):
        """Its processes that are there: itself, JVMs, Python daemons and workers, also without it."""
        return [one for one in processes() if one.session == self.pid]

    def account(self, printed=""):
        """At most `LINES` lines: what it printed last, its processes and their stacks."""
        text = self._log.read_text(errors="replace") if self._log else printed
        lines = [line[:WIDTH] for line in text.splitlines()[-_PRINTED:]]
        return list(islice([*lines, *account(self.members())], LINES))

    def clean(self):
        """Kill whatever is left of it, and say nothing about it from now on."""
        for one in self.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)
        self.wait()
        self.forget()

    def forget(self):
        """Say nothing about it from now on; its JVM may still write the archive of classes."""
        _STARTED.remove(self)


def finished(words, **named):
    """Run a command to its end, as `subprocess.run` that captures text and checks nothing."""
    pipe = subprocess.PIPE
    with Command(words, stdout=pipe, stderr=pipe, text=True, **named) as process:
        try:
            stdout, stderr = process.communicate()
        except BaseException:
            process.clean()
            raise
        process.forget()
    return subprocess.CompletedProcess(words, process.returncode, stdout, stderr)


def sections(report):
    """Titles and texts for the report of a test that has failed."""
    for command in _STARTED:
        log = Path(command._log).name if command._log else "command"
        state = "runs" if command.poll() is None else f"ended with {command.returncode}"
        if lines := command.account():
            yield f"{log}: process {command.pid} {state}", "\n".join(lines)
    if "in vain" in report.longreprtext or "TimeoutExpired" in report.longreprtext:
        own = [one for one in descendants(os.getpid()) if one.session == os.getsid(0)]
        yield (
            "the test's own threads and processes",
            "\n".join(islice([*_own_threads(), *account(own)], LINES)),
        )


def _own_threads():
    for innermost in sys._current_frames().values():
        frames = islice(traceback.walk_stack(innermost), FRAMES)
        named = (short(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in frames)
        yield " < ".join(named)[:WIDTH]
