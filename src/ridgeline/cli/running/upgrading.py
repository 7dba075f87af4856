"""The command `upgrade`: a running application gives way to another version of it, over the same state."""

from __future__ import annotations

import shlex
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.files import local_path
from ridgeline.cli import completing
from ridgeline.cli.configuration import configuration, load_configured
from ridgeline.cli.errors import NOT_VALID, CommandError
from ridgeline.cli.grouping import argument
from ridgeline.cli.output import write
from ridgeline.cli.settings import RunSettings
from ridgeline.cli.validating import judged, verdict_lines
from ridgeline.service import registry

if TYPE_CHECKING:
    from ridgeline.cli.remote.client import Client


def upgrade(
    context: typer.Context,
    running: Annotated[str, argument(autocompletion=completing.applications)],
    settings: RunSettings,
) -> None:
    """Let a new version take the place of a running one.

    APP, the version, goes on with its checkpoint. Plan and state are checked first: if a state would be
    refused, nothing is changed. Then the application is stopped after the windows under way, and APP runs in
    this terminal. Options are those of `run`: give those that the version before had.

    Example: `ridgeline upgrade payments payments_v2.py --master local[2]`

    Exit codes: as `run`; 2 also if a state would be refused.

    Args:
        context: That of the command.
        running: Name or id of the running application.
        settings: Those of the run.
    """
    from ridgeline.cli.remote.client import Client
    from ridgeline.cli.running.starting import run

    entry = _found(running, settings)
    settings = replace(_whole(settings), options=replace(settings.options, checkpoint=entry.checkpoint))
    settings.beside(configuration(context).run.conf, context.args)  # refused while the version before runs
    configured = load_configured(context, settings.written)
    if configured.app.name != entry.name:
        raise CommandError(
            f"`{running}` is the application `{entry.name}`, and APP is `{configured.app.name}`; its state "
            "belongs to the one: give a version of it"
        )
    found = list(judged(configured, settings.written, entry.checkpoint, settings.resume))
    write("\n".join(line for one in found for line in verdict_lines(*one)))
    if any(one.outcome == "refused" for _, _, verdicts in found for one in verdicts):
        write(f"nothing was changed: `{running}` runs on")
        raise typer.Exit(NOT_VALID)
    _stop(Client(entry.url, entry.token), running, entry)
    run(context, settings)


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
    """A specification is the whole of its version: changes that were made while it ran are none of it."""
    from ridgeline.plan.spec.form import form_of

    if form_of(settings.written.target) is None:
        return settings
    return replace(settings, resume={**settings.resume, "reset_changes": True})


def _stop(client: Client, running: str, entry: registry.Entry) -> None:
    """End the application after the windows under way, and wait until its process is gone.

    Raises RidgelineError if that takes more than a minute.
    """
    from ridgeline.cli.applications.resolving import await_end
    from ridgeline.cli.remote.change_request import ChangeSender

    sender = ChangeSender(client, running)
    sender.end("/shutdown", "upgrade")
    if not await_end(entry, sender.timeout):
        again = f"`ridgeline run` with `--checkpoint {shlex.quote(entry.checkpoint)}` starts the new version"
        raise RidgelineError(f"the process {entry.pid} of `{running}` has not ended; once it has, {again}")


__all__ = ["upgrade"]
