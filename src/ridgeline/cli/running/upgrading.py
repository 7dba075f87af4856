"""The command `upgrade`: a running application gives way to another version of it, over the same state."""

from __future__ import annotations

import shlex
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.duration import parse_duration
from ridgeline.api.support.files import local_path
from ridgeline.cli import completing
from ridgeline.cli.configuration import configuration, load_configured, words_of
from ridgeline.cli.errors import NOT_VALID, CommandError
from ridgeline.cli.output import write
from ridgeline.cli.running.shadow_options import ShadowOptions
from ridgeline.cli.running.way_back import WayBack, command_of
from ridgeline.cli.settings import RunSettings
from ridgeline.cli.validating import judged, print_verdicts
from ridgeline.service import registry

if TYPE_CHECKING:
    from ridgeline.cli.remote.client import Client

_CLOCK = SystemClock()
_POLL_SECONDS = 0.5


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
    shadowed: ShadowOptions,
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
    from ridgeline.cli.running.starting import start
    from ridgeline.cli.supervising.link import link

    asked = any(settings.resume.values()) or settings.supervision.supervise
    settings = _whole(settings)
    if link() is not None:  # the process that the command below has started for the new version
        start(context, settings)
        return
    if settings.supervision.standby:
        msg = "`--standby` waits for a driver that dies, and an upgrade ends it; leave one of them out"
        raise CommandError(msg)
    beside = shadowed.wanted()
    seconds = _seconds("--within", within)
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
    back: WayBack | None = None
    if rollback_if is not None:
        back = WayBack(entry, command_of(client, entry, settings), rollback_if, seconds)
        settings = back.prepared(settings, configured.plan())
    if beside is not None:
        from ridgeline.cli.running.shadowing import Shadow

        plan = configured.plan()
        Shadow(client, entry, settings, beside, ["upgrade", *words_of(context)], plan).run()
        entry = _found(running, settings)  # its driver may have been started again meanwhile
        client = Client(entry.url, entry.token)
        if back is not None:
            back.entry = entry
    if check_only or (
        back is None and not asked and _is_changed_live(client, running, context, settings, entry.checkpoint)
    ):
        return
    _stop(client, running, entry)
    _start(context, settings, entry.checkpoint, back)


def _start(context: typer.Context, settings: RunSettings, checkpoint: str, back: WayBack | None) -> None:
    """Start the new version, watched or supervised as it is asked for. Raises typer.Exit with its code."""
    from ridgeline.cli.running.starting import start
    from ridgeline.cli.supervising.child import Signals
    from ridgeline.cli.supervising.command import supervisor_of

    supervised, words = settings.supervision.supervise, ["upgrade", *words_of(context)]
    if back is not None:
        if supervised:
            back.supervises = lambda signals: supervisor_of(context, settings, "upgrade", signals, back.given)
        back.watch(words)
    elif supervised:
        with Signals() as signals:
            given = {"checkpoint": checkpoint}
            code = supervisor_of(context, settings, "upgrade", signals, given).run(signals)
        if code:
            raise typer.Exit(code)
    else:
        start(context, settings)


def _seconds(option: str, text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise CommandError(f"`{option}`: {error}") from None


def _found(running: str, settings: RunSettings) -> registry.Entry:
    """The running application, whose checkpoint a run here can continue. Raises CommandError."""
    try:
        entry = registry.find(running)
    except RidgelineError as error:
        raise CommandError(str(error)) from None
    if not entry.id:
        raise CommandError(f"`{running}` is not in the registry of your applications; give its name or id")
    if entry.host != socket.gethostname():
        raise CommandError(
            f"`{running}` runs on the host `{entry.host}`; upgrade it there, where its checkpoint is"
        )
    given = settings.options.checkpoint
    if given is not None and given != entry.checkpoint and local_path(given) != entry.checkpoint:
        raise CommandError(
            f"`--checkpoint {given}` is not that of `{running}`, `{entry.checkpoint}`; leave it out"
        )
    return entry


def _whole(settings: RunSettings) -> RunSettings:
    """A specification is the whole of its version: changes that were made before while it ran are none of it.

    An upgrade before may have been such a change, which would come twice.
    """
    from ridgeline.plan.spec.form import form_of

    if form_of(settings.written.target) is None:
        return settings
    return replace(settings, resume={**settings.resume, "reset_changes": True})


def _is_changed_live(
    client: Client, running: str, context: typer.Context, settings: RunSettings, checkpoint: str
) -> bool:
    """Whether a specification was taken over while the application runs; says how to start it later.

    Code is not compared: an application that is a file of Python is always started again.
    """
    from ridgeline.cli.remote.change_request import ChangeSender, Waiting
    from ridgeline.cli.remote.changing import read_spec
    from ridgeline.plan.spec.form import form_of

    target = settings.written.target
    if form_of(target) is None or settings.written.given or context.args:
        return False
    try:
        ChangeSender(client, running, Waiting()).send("/changes", {"spec": read_spec(target)}, "upgrade")
    except CommandError as error:
        write(f"it cannot be taken over while it runs: {error}")
        return False
    words = ["ridgeline", "run", target, "--reset-changes", "--checkpoint", checkpoint]
    write(f"once it has ended, the new version is started by `{shlex.join(words)}`")
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
            raise RidgelineError(
                f"the process {entry.pid} of `{running}` has not ended; once it has, {again}"
            )
        _CLOCK.wait(_POLL_SECONDS)


__all__ = ["upgrade"]
