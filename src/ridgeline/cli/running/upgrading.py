"""The command `upgrade`: a running application gives way to another version of it, over the same state."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError, did_you_mean
from ridgeline.api.support.duration import parse_duration
from ridgeline.api.support.files import local_path
from ridgeline.api.support.masking import MASK
from ridgeline.cli import completing
from ridgeline.cli.configuration import configuration, load_configured
from ridgeline.cli.errors import FAILED, KILLED_BY, NOT_VALID, CommandError, reporting_errors
from ridgeline.cli.output import write
from ridgeline.cli.settings import RunSettings
from ridgeline.cli.validating import judged, print_verdicts
from ridgeline.service import registry

if TYPE_CHECKING:
    from ridgeline.cli.remote.client import Client
    from ridgeline.plan.execution import Plan

_CLOCK = SystemClock()
_POLL_SECONDS = 0.5
_FASTEST_WINDOW_SECONDS = 0.02
"""How long a window takes at least, for how many are kept where windows follow each other at once."""
_MARGIN = 50
_FROM_WINDOW = "--from-window"


def upgrade(
    context: typer.Context,
    running: Annotated[
        str,
        typer.Argument(
            metavar="RUNNING",
            help="Name or id of the running application.",
            show_default=False,
            autocompletion=completing.applications,
        ),
    ],
    settings: RunSettings,
    rollback_if: Annotated[
        str | None,
        typer.Option(
            metavar="PROMISE",
            help="Go back to the version before if this promise of APP is broken, or the run fails, within "
            "`--within`.",
            show_default=False,
        ),
    ] = None,
    within: Annotated[
        str, typer.Option(metavar="TIME", help="How long `--rollback-if` looks at the new version.")
    ] = "10m",
    shadow: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Not there yet: refused.", show_default=False),
    ] = None,
    check_only: Annotated[
        bool, typer.Option("--check-only", help="Say what would become of its state, and change nothing.")
    ] = False,
) -> None:
    """Let a running application give way to APP, a version of it, with its checkpoint.

    Plan and state are checked first: if a state would be refused, nothing is changed. A specification is
    taken over at a window border while the application runs, if all differences can be. Otherwise the
    application is stopped after the windows under way, and APP runs in this terminal. Options are those of
    `run`: give those that the version before had.

    Example: `ridgeline upgrade payments payments_v2.py --master local[2] --rollback-if latency_p99:store`

    Exit codes: as `run`; 2 also if a state would be refused.
    """
    if shadow is not None:
        msg = "`--shadow` is not there yet: no second version runs beside the first one; compare both on the "
        msg += "same input with `ridgeline compare OLD NEW`"
        raise CommandError(msg)
    if settings.supervision.supervise:
        msg = "`--supervise` is not there yet for upgrades: stop the version before, and start the new one "
        raise CommandError(msg + "by `ridgeline run --supervise`")
    seconds = _seconds(within)
    entry = _found(running, settings)
    settings = replace(settings, options=replace(settings.options, checkpoint=entry.checkpoint))
    settings.beside(configuration(context).run.conf, context.args)  # refused while the version before runs
    configured = load_configured(context, settings.written)
    if configured.app.name != entry.name:
        msg = f"`{running}` is the application `{entry.name}`, and APP is `{configured.app.name}`; its state "
        raise CommandError(msg + "belongs to the one: give a version of it")
    found = list(judged(configured, settings.written, entry.checkpoint, settings.resume))
    for folder, window, verdicts in found:
        print_verdicts(folder, window, verdicts)
    if any(one.outcome == "refused" for _, _, verdicts in found for one in verdicts):
        write(f"nothing was changed: `{running}` runs on")
        raise typer.Exit(NOT_VALID)
    from ridgeline.cli.remote.client import Client

    client = Client(entry.url, entry.token)
    back: _Back | None = None
    if rollback_if is not None:
        back = _Back(entry, _command_of(client, entry, settings), rollback_if, seconds)
        settings = back.prepared(settings, configured.plan())
    if check_only or (back is None and _is_changed_live(client, running, context, settings)):
        return
    _stop(client, running, entry)
    from ridgeline.cli.running.starting import start

    if back is None:
        start(context, settings)
    else:
        back.watch(lambda: start(context, settings))


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        msg = f"`--within`: {error}"
        raise CommandError(msg) from None


def _found(running: str, settings: RunSettings) -> registry.Entry:
    """The running application, whose checkpoint a run here can continue. Raises CommandError."""
    try:
        entry = registry.find(running)
    except RidgelineError as error:
        raise CommandError(str(error)) from None
    if not entry.id:
        msg = f"`{running}` is not in the registry of your applications; give its name or id"
        raise CommandError(msg)
    if entry.host != socket.gethostname():
        msg = f"`{running}` runs on the host `{entry.host}`; upgrade it there, where its checkpoint is"
        raise CommandError(msg)
    given = settings.options.checkpoint
    if given is not None and given != entry.checkpoint and local_path(given) != entry.checkpoint:
        msg = f"`--checkpoint {given}` is not that of `{running}`, `{entry.checkpoint}`; leave it out"
        raise CommandError(msg)
    return entry


def _is_changed_live(client: Client, running: str, context: typer.Context, settings: RunSettings) -> bool:
    """Whether a specification was taken over while the application runs.

    Code is not compared: an application that is a file of Python is always started again.
    """
    from ridgeline.cli.remote.change_request import ChangeSender, Waiting
    from ridgeline.cli.remote.changing import read_spec
    from ridgeline.plan.spec.form import form_of

    target = settings.written.target
    if form_of(target) is None or settings.written.given or context.args or any(settings.resume.values()):
        return False
    try:
        ChangeSender(client, running, Waiting()).send("/changes", {"spec": read_spec(target)}, "upgrade")
    except CommandError as error:
        write(f"it cannot be taken over while it runs: {error}")
        return False
    return True


def _stop(client: Client, running: str, entry: registry.Entry) -> None:
    """End the application after the windows under way, and wait until its process is gone.

    Raises RidgelineError if that takes more than a minute.
    """
    from ridgeline.cli.remote.change_request import ChangeSender, Waiting

    waiting = Waiting()
    ChangeSender(client, running, waiting).end("/shutdown", "upgrade")
    deadline = _CLOCK.monotonic() + waiting.timeout
    while any(one.id == entry.id for one in registry.running()):
        if _CLOCK.monotonic() > deadline:
            again = (
                f"`ridgeline run` with `--checkpoint {shlex.quote(entry.checkpoint)}` starts the new version"
            )
            msg = f"the process {entry.pid} of `{running}` has not ended; once it has, {again}"
            raise RidgelineError(msg)
        _CLOCK.wait(_POLL_SECONDS)


# Back to the version before ---------------------------------------------------------------------------------


def _command_of(client: Client, entry: registry.Entry, settings: RunSettings) -> Sequence[str]:
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
class _Back:
    """The way back to the version before. `words`: of its command; `seconds`: how long it is open."""

    entry: registry.Entry
    words: Sequence[str]
    promise: str
    seconds: float
    broken: str = ""
    _deadline: float = math.inf
    """When the way is closed; it is open while the new version starts."""

    def prepared(self, settings: RunSettings, plan: Plan) -> RunSettings:
        """The settings with so many windows kept that the last one of the version before is among them.

        Raises CommandError if nothing can be watched.
        """
        promises = {one.name: one for one in plan.logical.promises}
        if self.promise not in promises:
            msg = f"APP makes no promise `{self.promise}`; {did_you_mean(self.promise, promises)}"
            raise CommandError(msg)
        if self.seconds <= (over := promises[self.promise].over):
            msg = f"`--within` is {self.seconds:g} s, and `{self.promise}` is about {over:g} s; give more"
            raise CommandError(msg)
        if settings.service.no_service:
            msg = "`--rollback-if` asks the web service; leave `--no-service` out"
            raise CommandError(msg)
        width = max(plan.logical.window_seconds, _FASTEST_WINDOW_SECONDS)
        kept = max(plan.logical.attributes["windows_kept"], int(self.seconds / width) + _MARGIN)
        attributes = [*(settings.written.attributes or ()), f"windows_kept={kept}"]
        return replace(settings, written=replace(settings.written, attributes=attributes))

    def watch(self, run: Any) -> None:
        """Run the new version; the one before from its last window if the new one does not hold.

        Raises typer.Exit.
        """
        from ridgeline.engine.driver.checkpoint.planning import read_last
        from ridgeline.engine.files.storage import LocalStorage

        last = read_last(LocalStorage(self.entry.checkpoint), self.entry.name)
        over = threading.Event()
        watcher = threading.Thread(target=self._look, args=(over,), name="upgrade", daemon=True)
        watcher.start()
        try:
            with reporting_errors():
                run()
        except typer.Exit as error:
            if error.exit_code not in {FAILED, NOT_VALID} or _CLOCK.monotonic() > self._deadline:
                raise
            self.broken = self.broken or ("it did not start" if self._deadline == math.inf else "it failed")
        except SystemExit:  # of its own code: the engine raises none
            if _CLOCK.monotonic() > self._deadline:
                raise
            self.broken = self.broken or "it exited by itself"
        finally:
            over.set()
            watcher.join()
        if not self.broken or last is None:
            return
        words = [*self.words, _FROM_WINDOW, str(last.window_id)]
        write(f"{self.broken}: back to the version before, `{shlex.join(words)}`")
        sys.stdout.flush()
        code = _run_again(words[1:], self.entry.folders[0])
        if code:
            raise typer.Exit(code)

    def _look(self, over: threading.Event) -> None:
        """Ask the new version for its promise until it is broken, or the time is over."""
        from ridgeline.cli.remote.client import Client

        while not over.wait(_POLL_SECONDS) and _CLOCK.monotonic() < self._deadline:
            entry = next((one for one in registry.running() if one.pid == os.getpid()), None)
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


__all__ = ["upgrade"]
