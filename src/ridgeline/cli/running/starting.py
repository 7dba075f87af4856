"""Start an application by the command line: plan it with what its checkpoint keeps, and run it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from ridgeline.api.errors import RidgelineError
from ridgeline.cli import options
from ridgeline.cli.arguments import Written
from ridgeline.cli.configuration import Configured, configuration, load_configured
from ridgeline.cli.errors import FAILED, FINAL, exit_code, reporting_errors
from ridgeline.cli.settings import RunSettings
from ridgeline.cli.supervising.link import NAMED, Link, failure_reported, link, mendable
from ridgeline.service.notifying import manager

if TYPE_CHECKING:
    from collections.abc import Callable

    from ridgeline.api.application import Application
    from ridgeline.cli.running.run_command import RunCommand
    from ridgeline.engine.driver.checkpoint.planning import Planner
    from ridgeline.engine.driver.checkpoint.resuming import ResumeOptions
    from ridgeline.engine.driver.run.options import Outcome
    from ridgeline.engine.process.log_channel import LogSettings
    from ridgeline.regions.planning import MakePlanner, Scope
    from ridgeline.service.store.entry import StoreEntry


def start(context: typer.Context, settings: RunSettings) -> None:
    """Run an application to its end, as `ridgeline run` does. Raises RidgelineError, typer.Exit.

    In a process of a supervisor it learns of failures, and of what is logged.
    """
    supervisor = link()
    if supervisor is not None:
        settings = settings.supervised(supervisor)
    if settings.supervision.standby:
        _start_as_standby(context, settings)
        return
    with reporting_errors(code=_code(settings)), failure_reported():
        running = _prepared(context, settings)
    _run(running, settings)


def _code(settings: RunSettings) -> Callable[[RidgelineError], int] | None:
    """Gives the exit code for an error; None: as always. A service manager has codes of its own."""
    standby = settings.supervision.standby
    return None if manager() is None else partial(_code_for_manager, standby=standby)


def _code_for_manager(error: RidgelineError, *, standby: bool) -> int:
    """The exit code for a service manager, which is to start again what may then get further."""
    code = exit_code(error)
    return FINAL if code == FAILED and not mendable(error, begun=True, standby=standby) else code


def _start_as_standby(context: typer.Context, settings: RunSettings) -> None:
    """Wait for the name, then run. A standby that another one has outrun waits again. Raises as `start`."""
    from ridgeline.api.errors import NameTakenError
    from ridgeline.cli.supervising.standby import Standby
    from ridgeline.cli.supervising.warm import WarmSpark
    from ridgeline.engine.files.folder_lock import FolderInUseError
    from ridgeline.service import measured  # noqa: F401  loaded before it is needed in a hurry

    reported = partial(failure_reported, standby=True)
    with reported():  # faults are shown now, and not when it is to take over
        application, checked, _, planner = _planned(context, settings)
        first = planner.first(checked.options.checkpoint, application.app.name)
    failed: Exception | None = None
    with WarmSpark(first, checked) as spark:
        standby = Standby(checked, checked.service.store_name or application.app.name, spark, first)
        while True:
            with reported():
                turn = standby.await_turn(failed)
                if not turn.takes:
                    return
                running = _prepared(context, settings, turn.before)
            try:
                _run(running, settings, passing=(NameTakenError, FolderInUseError))
            except (NameTakenError, FolderInUseError) as error:
                failed = error
                if running.asked_to_end():
                    standby.stop("a signal")
            else:
                return


def _run(running: RunCommand, settings: RunSettings, passing: tuple[type[Exception], ...] = ()) -> None:
    """Run to the end. Errors are printed, but for those of the types `passing`, which are raised."""
    from ridgeline.engine.process.log_channel import open_channel

    supervisor = link()
    passed: list[Exception] = []
    reported = failure_reported(running.asked_to_end, standby=settings.supervision.standby)
    ended = reporting_errors(running.print_how_to_continue, _code(settings))
    with ended, reported, open_channel(_log(settings)):
        try:
            _run_reported(running, supervisor)
        except passing as error:
            passed.append(error)
    if passed:
        raise passed[0]


def _run_reported(running: RunCommand, supervisor: Link | None) -> None:
    if supervisor is None:
        running.run()
        return
    with supervisor.logged():
        running.run()


def _planned(
    context: typer.Context, settings: RunSettings
) -> tuple[Configured, RunSettings, MakePlanner, Planner]:
    """The application, all settings, the maker of planners, and that of the whole. Raises RidgelineError."""
    from ridgeline.regions.planning import WHOLE

    settings = settings.beside(configuration(context).run.conf, context.args)
    application = load_configured(context, settings.written)
    settings = settings.stored(application.app.name)
    supervisor = link()
    if supervisor is not None:
        store = settings.service.store
        name = (store and settings.service.store_name) or application.app.name
        supervisor.report(NAMED, name=name, store=store, checkpoint=settings.options.checkpoint)
    planner_of = planners(application, settings.written, settings.resume)
    return application, settings, planner_of, planner_of(application.app, WHOLE)


def _prepared(context: typer.Context, settings: RunSettings, before: StoreEntry | None = None) -> RunCommand:
    """A run that is planned. `before`: the entry of a driver that it replaces. Raises RidgelineError."""
    from ridgeline.cli.running.run_command import RunCommand
    from ridgeline.plan.spec.form import form_of
    from ridgeline.service.origin import Origin, effective
    from ridgeline.settings.listing import Row, run_rows

    application, settings, planner_of, planner = _planned(context, settings)
    first = planner.first(settings.options.checkpoint, application.app.name)

    def run_several(**surroundings: Any) -> Outcome:
        from ridgeline.service.regions.running import run_regions

        return run_regions(application.app, first, planner_of, **surroundings)

    def rows() -> list[Row]:
        resolved = application.resolve(planner.found)
        source = "code" if form_of(settings.written.target) is None else "specification"
        return [*run_rows(configuration(context).run), *effective(application.app, resolved, source)]

    origin, supervisor = Origin(settings.command, rows), link()
    origin.replaces = before
    if supervisor is not None:
        origin.restarts, origin.restart_reason = supervisor.restarts, supervisor.reason
        origin.supervisor = supervisor.by
    return RunCommand(planner, first, settings, run_several, origin)


def _log(settings: RunSettings) -> LogSettings | None:
    """The log, whose lines name the traces of windows if there are any."""
    from ridgeline.service.export.traces import traces_of

    made = settings.logs.settings()
    return None if made is None else replace(made, traced=traces_of(settings.watched()) is not None)


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
