"""Start an application by the command line: plan it with what its checkpoint keeps, and run it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from ridgeline.api.errors import (
    ApplicationKilledError,
    CheckpointError,
    FencedError,
    NameTakenError,
    StateError,
    UntrustedError,
)
from ridgeline.cli import options
from ridgeline.cli.configuration import OPTIONS_OF_APP, Configured, Written, configuration, load_configured
from ridgeline.cli.errors import AGAIN, FAILED, NOT_VALID, exit_code, reporting_errors
from ridgeline.cli.settings import RunSettings
from ridgeline.engine.files.folder_lock import FolderInUseError

if TYPE_CHECKING:
    from ridgeline.api.application import Application
    from ridgeline.cli.running.run_command import RunCommand
    from ridgeline.engine.driver.checkpoint.resuming import ResumeOptions
    from ridgeline.engine.driver.run.options import Outcome
    from ridgeline.engine.process.log_channel import LogSettings
    from ridgeline.regions.planning import MakePlanner, Scope


def run(context: typer.Context, settings: RunSettings) -> None:
    """Run an application on Spark until its inputs end.

    Ctrl-C or SIGTERM ends it after the windows under way. Those that take longer than a second are void. What
    is committed is published, and the same command with `--checkpoint` continues from there. While it runs,
    `ridgeline top`, `critical-path`, `progress` and other commands show where its time goes.

    Example: `ridgeline run payments.py --master local[2] --checkpoint state -D payments.count=1000 --windows
    20`

    If what it prints is read by another program (`| head`) that goes away, the run ends after its windows as
    on Ctrl-C.

    Exit codes: 0 finished or stopped, 1 failed for good, 2 not valid, 3 failed, and the same command may get
    further. By 1 end a `kill`, a damaged checkpoint, and a driver that another one has replaced. A second
    Ctrl-C ends it with 130, a second SIGTERM with 143. If nobody reads its output any more it ends with 141.
    """
    from ridgeline.engine.process.log_channel import open_channel

    with reporting_errors(code=run_code):
        running = _prepared(context, settings)

    def code(error: Exception) -> int:
        found = run_code(error)
        return FAILED if found == AGAIN and running.asked_to_end() else found

    with reporting_errors(running.print_how_to_continue, code), open_channel(_log(settings)):
        running.run()


run.epilog = (  # type: ignore[attr-defined]
    "`--help-all` shows those about web service, roles, store, checkpoint, cluster and log. "
    f"{OPTIONS_OF_APP} What stands behind `--` goes to the application in any case."
)


def run_code(error: Exception) -> int:
    """The exit code of a run: 2 not valid, 3 the same command may get further, 1 it would end likewise.

    A driver that another one has fenced off ends with 1: started again, it would take the folder back.
    """
    code = exit_code(error)
    if code == NOT_VALID:
        return code
    if isinstance(error, FolderInUseError | NameTakenError):
        return AGAIN
    if isinstance(error, CheckpointError) and not isinstance(error, FencedError):
        return AGAIN if isinstance(error.__cause__, OSError) else FAILED
    final = ApplicationKilledError, FencedError, StateError, UntrustedError
    return FAILED if isinstance(error, final) else AGAIN


def _prepared(context: typer.Context, settings: RunSettings) -> RunCommand:
    """A run that is planned. Raises RidgelineError."""
    from ridgeline.cli.running.run_command import RunCommand
    from ridgeline.plan.spec.form import form_of
    from ridgeline.regions.planning import WHOLE
    from ridgeline.service.origin import Origin, effective
    from ridgeline.settings.listing import Row, run_rows

    settings = settings.beside(configuration(context).run.conf, context.args)
    application = load_configured(context, settings.written)
    settings = settings.stored(application.app.name)
    planner_of = planners(application, settings.written, settings.resume)
    planner = planner_of(application.app, WHOLE)
    first = planner.first(settings.options.checkpoint, application.app.name)

    def run_several(**surroundings: Any) -> Outcome:
        from ridgeline.service.regions.running import RegionsRun

        return RegionsRun(application.app, first, planner_of, **surroundings).run()

    def rows() -> list[Row]:
        resolved = application.resolve(planner.found)
        source = "code" if form_of(settings.written.target) is None else "specification"
        return [*run_rows(configuration(context).run), *effective(application.app, resolved, source)]

    return RunCommand(planner, first, settings, run_several, Origin(settings.command, rows))


def _log(settings: RunSettings) -> LogSettings | None:
    """The log, whose lines name the traces of windows if there are any."""
    from ridgeline.service.export.traces import traces_of

    made = settings.logs.settings()
    return None if made is None else replace(made, traced=traces_of(settings.service) is not None)


def planners(configured: Configured, written: Written, resume: ResumeOptions) -> MakePlanner:
    """A function that makes the planner of an application, whole or as one region of it.

    It has the properties that the command line gives, as far as they are of the region.
    """
    from ridgeline.engine.driver.checkpoint.planning import Planner
    from ridgeline.regions.planning import resume_of

    given = options.properties(written.properties or ())

    def planner_of(planned: Application, scope: Scope) -> Planner:
        own = replace(configured, app=planned)
        return Planner(
            own.plan,
            {name: value for name, value in given.items() if name in scope},
            known=lambda: own.resolve().properties,
            resume=resume_of(resume, scope),
        )

    return planner_of
