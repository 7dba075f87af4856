"""Start a run by the command line, supervised if it is asked for."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import typer

from ridgeline.cli.configuration import configuration, words_of
from ridgeline.cli.errors import make_console
from ridgeline.cli.settings import RunSettings
from ridgeline.cli.supervising.link import link

if TYPE_CHECKING:
    from ridgeline.cli.supervising.child import Signals
    from ridgeline.cli.supervising.supervisor import Supervisor

_log = logging.getLogger(__name__)


def start_supervised(context: typer.Context, settings: RunSettings, command: str) -> None:
    """Run an application, or supervise processes of the same command that do.

    Raises RidgelineError, typer.Exit.
    """
    if link() is not None or not settings.supervision.supervise:
        from ridgeline.cli.running.starting import start

        start(context, settings)
        return
    from ridgeline.cli.supervising.child import Signals

    settings = settings.beside(configuration(context).run.conf, context.args)
    with Signals() as signals:
        code = supervisor_of(context, settings, command, signals).run(signals)
    if code:
        raise typer.Exit(code)


def supervisor_of(
    context: typer.Context,
    settings: RunSettings,
    command: str,
    signals: Signals,
    given: Mapping[str, Any] | None = None,
) -> Supervisor:
    """The supervisor of processes of this command. `given`: what each driver is to know."""
    from ridgeline.cli.supervising.announcing import Announcer
    from ridgeline.cli.supervising.supervisor import Supervisor

    words, say = [command, *words_of(context)], saying(settings)
    announcer = Announcer(signals, say, lambda: _use_store(settings))
    return Supervisor(words, settings.supervision.policy(), say, announcer, given)


def _use_store(settings: RunSettings) -> None:
    """Reach the store as the driver does."""
    from ridgeline.cli.applications.submitting import use_store

    use_store(settings)


def saying(settings: RunSettings) -> Callable[[str], None]:
    """A function that prints a line to standard error, and writes it to the log between two drivers."""
    console = make_console()

    def say(text: str) -> None:
        from ridgeline.engine.process.log_channel import open_channel

        console.print(f"supervisor: {text}", markup=False)
        with contextlib.suppress(Exception), open_channel(settings.logs.settings()):  # a full disk is no end
            if settings.logs.log_file is not None:
                _log.warning("%s", text)

    return say
