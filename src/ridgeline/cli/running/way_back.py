"""The way back of an upgrade: the new version runs in a process that is watched; the one before returns."""

from __future__ import annotations

import contextlib
import math
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError, did_you_mean
from ridgeline.api.support.masking import MASK
from ridgeline.cli.errors import KILLED_BY, CommandError
from ridgeline.cli.output import OUTPUT_GONE, write
from ridgeline.cli.settings import RunSettings
from ridgeline.service import registry

if TYPE_CHECKING:
    from ridgeline.cli.remote.client import Client
    from ridgeline.cli.supervising.child import Child, Signals
    from ridgeline.cli.supervising.supervisor import Supervisor
    from ridgeline.plan.execution import Plan

_CLOCK = SystemClock()
_POLL_SECONDS = 0.5
_FASTEST_WINDOW_SECONDS = 0.02
"""How long a window takes at least, for how many are kept where windows follow each other at once."""
_MARGIN = 50
_FROM_WINDOW = "--from-window"
_ASKED_FOR = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LEFT_SECONDS = 30.0
"""How long the folder of a process that was killed may stay in use by what it has left."""


def command_of(client: Client, entry: registry.Entry, settings: RunSettings) -> Sequence[str]:
    """The words of the command that continues the version before. Raises CommandError if it is of no use."""
    rows: list[dict[str, Any]] = client.get("/checkpoints", limit=1)["windows"]
    if not rows:
        msg = "the application has no window yet, or several regions: there is nothing to go back to; leave "
        raise CommandError(msg + "`--rollback-if` out")
    words = shlex.split(rows[0]["command"])
    words = words[: words.index(_FROM_WINDOW)]
    if words[:2] != ["ridgeline", "run"] or words[2] == "APP":
        msg = "the application was not started by `ridgeline run`, so its command is not known; "
        raise CommandError(msg + "leave `--rollback-if` out")
    if any(MASK in word for word in words):
        msg = "the application was given secrets, which no command shows, so it cannot be started again; "
        raise CommandError(msg + "give them by configuration, or leave `--rollback-if` out")
    old = Path(entry.folders[0], words[2].partition(":")[0])
    new = Path(settings.written.target.partition(":")[0])
    if old.exists() and new.exists() and old.samefile(new):
        msg = (
            f"`{new}` is the file that runs: the version before would be gone; keep each in a file of its own"
        )
        raise CommandError(msg)
    return words


@dataclass
class WayBack:
    """The way back to the version before.

    `words`: of its command. `promise`: the one of the new version that is watched. `seconds`: how long the
    way is open.
    """

    entry: registry.Entry
    words: Sequence[str]
    promise: str
    seconds: float
    broken: str = ""
    supervises: Callable[[Signals], Supervisor] | None = None
    """Makes the supervisor of the new version, which restarts it once the way back is closed."""
    attributes: list[str] = field(default_factory=list)
    """Attributes that the new version gets beside those of its command."""
    _deadline: float = math.inf
    """When the way is closed; it is open while the new version starts."""

    def prepared(self, settings: RunSettings, plan: Plan) -> RunSettings:
        """The settings with so many windows kept that the last one of the version before is among them.

        Raises CommandError if nothing can be watched.
        """
        promises = {one.name: one for one in plan.logical.promises}
        if self.promise not in promises:
            raise CommandError(
                f"APP makes no promise `{self.promise}`; {did_you_mean(self.promise, promises)}"
            )
        if self.seconds <= (over := promises[self.promise].over):
            raise CommandError(
                f"`--within` is {self.seconds:g} s, and `{self.promise}` is about {over:g} s; give more"
            )
        if settings.service.no_service:
            raise CommandError("`--rollback-if` asks the web service; leave `--no-service` out")
        width = max(plan.logical.window_seconds, _FASTEST_WINDOW_SECONDS)
        kept = max(plan.logical.attributes["windows_kept"], int(self.seconds / width) + _MARGIN)
        self.attributes = [f"windows_kept={kept}"]
        attributes = [*(settings.written.attributes or ()), *self.attributes]
        return replace(settings, written=replace(settings.written, attributes=attributes))

    @property
    def given(self) -> dict[str, Any]:
        """Fields of `Link` for drivers of the new version."""
        return {"checkpoint": self.entry.checkpoint, "attributes": self.attributes}

    def watch(self, words: Sequence[str]) -> None:
        """Run the new version by `ridgeline WORDS`; the one before from its last window if that fails.

        Raises typer.Exit with the exit code of the version that ran last.
        """
        from ridgeline.cli.supervising.child import Child, Signals
        from ridgeline.cli.supervising.supervisor import exit_code, show_cursor
        from ridgeline.engine.driver.checkpoint.planning import read_last
        from ridgeline.engine.files.storage import LocalStorage

        last = read_last(LocalStorage(self.entry.checkpoint), self.entry.name)
        over = threading.Event()
        with Signals() as signals:
            supervisor = None if self.supervises is None else self.supervises(signals)
            child = Child(words, self.given, signals) if supervisor is None else supervisor.start(signals)
            watcher = threading.Thread(
                target=self._look, args=(child.process.pid, over), name="upgrade", daemon=True
            )
            watcher.start()
            code = child.wait()
            ended = _CLOCK.monotonic()
            over.set()
            watcher.join()
            why = "" if signals.count and not self.broken else self._why_back(child, code, ended)
            if not why or last is None:
                if supervisor is not None:
                    code = supervisor.run(signals, child)
                if code:
                    raise typer.Exit(exit_code(code))
                return
            if supervisor is not None:
                supervisor.leave()
            show_cursor()
            again = [*self.words, _FROM_WINDOW, str(last.window_id)]
            write(f"{why}: back to the version before, `{shlex.join(again)}`")
            sys.stdout.flush()
            self._wait_for_folder(signals.stopped)
            if signals.count:
                write("stopped before it was started; the command above starts it")
                return
        code = _run_again(again[1:], self.entry.folders[0])
        if code:
            raise typer.Exit(code)

    def _why_back(self, child: Child, code: int, ended: float) -> str:
        """Why the version before is started again; "" if it is not. `ended`: when the new one did."""
        from ridgeline.cli.supervising.supervisor import reason_of

        if self.broken or ended > self._deadline or code == OUTPUT_GONE:
            return self.broken
        if (code == 0 and child.ended) or -code in _ASKED_FOR or code - KILLED_BY in _ASKED_FOR:
            return ""
        if code >= 0 and not child.failed:
            return "it exited by itself"
        if code < 0:
            return f"it {reason_of(child, code)}"
        return "it did not start" if self._deadline == math.inf else "it failed"

    def _wait_for_folder(self, stopped: threading.Event) -> None:
        """Wait until no process that a killed driver has left uses the checkpoint, but not for ever."""
        from ridgeline.engine.files.folder_lock import FolderInUseError, locked

        deadline = _CLOCK.monotonic() + _LEFT_SECONDS
        while _CLOCK.monotonic() < deadline:
            try:
                lock = locked(self.entry.checkpoint)
            except FolderInUseError:
                if _CLOCK.wait(_POLL_SECONDS, stopped):
                    return
            else:
                if lock is not None:
                    lock.release()
                return

    def _look(self, pid: int, over: threading.Event) -> None:
        """Ask the new version for its promise until it is broken, or the time is over."""
        from ridgeline.cli.remote.client import Client

        while not over.wait(_POLL_SECONDS) and _CLOCK.monotonic() < self._deadline:
            entry = next((one for one in registry.running() if one.pid == pid), None)
            if entry is None:
                continue
            if self._deadline == math.inf:
                self._deadline = _CLOCK.monotonic() + self.seconds
            client = Client(entry.url, entry.token)
            with contextlib.suppress(RidgelineError):  # it begins, or ends
                rows = client.get("/promises")["promises"]
                if any(row["promise"] == self.promise and row["kept"] is False for row in rows):
                    self.broken = f"the promise `{self.promise}` is broken"
                    client.post("/shutdown", who="upgrade", note=self.broken)
                    return


def _run_again(words: Sequence[str], folder: str) -> int:
    """Run the version before in a process of its own, as in this terminal; its exit code."""
    child = subprocess.Popen([sys.executable, "-m", "ridgeline", *words], cwd=folder)  # noqa: S603  ours
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the child, too
    signal.signal(signal.SIGTERM, lambda number, _frame: child.send_signal(number))
    code = child.wait()
    return code if code >= 0 else KILLED_BY - code
