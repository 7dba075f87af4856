"""Start an application by the command line: plan it with what its checkpoint keeps, and run it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from ridgeline.cli import options
from ridgeline.cli.configuration import configuration, load_configured
from ridgeline.cli.errors import reporting_errors
from ridgeline.cli.settings import RunSettings

if TYPE_CHECKING:
    from ridgeline.api.application import Application
    from ridgeline.engine.driver.run.options import Outcome
    from ridgeline.regions.planning import Scope


def start(context: typer.Context, settings: RunSettings) -> None:
    """Run an application to its end, as `ridgeline run` does. Raises RidgelineError, typer.Exit."""
    from ridgeline.cli.running.run_command import RunCommand
    from ridgeline.engine.driver.checkpoint.planning import Planner
    from ridgeline.engine.process.log_channel import open_channel
    from ridgeline.plan.spec.form import form_of
    from ridgeline.regions.planning import WHOLE, resume_of
    from ridgeline.service.origin import Origin, effective
    from ridgeline.settings.listing import Row, run_rows

    settings = settings.beside(configuration(context).run.conf, context.args)
    application = load_configured(context, settings.written)

    def planner_of(planned: Application, scope: Scope = WHOLE) -> Planner:
        configured = replace(application, app=planned)
        given = options.properties(settings.written.properties or ())
        return Planner(
            configured.plan,
            {name: value for name, value in given.items() if name in scope},
            known=lambda: configured.resolve().properties,
            resume=resume_of(settings.resume, scope),
        )

    planner = planner_of(application.app)
    first = planner.first(settings.options.checkpoint, application.app.name)

    def run_several(**surroundings: Any) -> Outcome:
        from ridgeline.service.regions.running import run_regions

        return run_regions(application.app, first, planner_of, **surroundings)

    def rows() -> list[Row]:
        resolved = application.resolve(planner.found)
        source = "code" if form_of(settings.written.target) is None else "specification"
        return [*run_rows(configuration(context).run), *effective(application.app, resolved, source)]

    running = RunCommand(planner, first, settings, run_several, Origin(settings.command, rows))
    with reporting_errors(running.print_how_to_continue), open_channel(settings.logs.settings()):
        running.run()
