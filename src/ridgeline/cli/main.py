"""The `ridgeline` command."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from ridgeline.cli import checkpoint, history, options, tokens, validating
from ridgeline.cli.applications import commands as by_name
from ridgeline.cli.configuration import (
    OPTIONS_OF_APP,
    OWN_OPTIONS,
    ConfiguredCommand,
    Written,
    load_configured,
)
from ridgeline.cli.doctor import doctor
from ridgeline.cli.errors import reporting_errors
from ridgeline.cli.grouping import argument, command, option
from ridgeline.cli.library import library
from ridgeline.cli.other_names import OTHER_NAMES
from ridgeline.cli.output import finish, write
from ridgeline.cli.remote import (
    advising,
    changing,
    commands,
    inspecting,
    logs,
    promises,
    querying,
    recording,
)
from ridgeline.cli.running import upgrading
from ridgeline.cli.settings import RunSettings
from ridgeline.cli.shell import shell
from ridgeline.cli.starting.commands import init

if TYPE_CHECKING:
    from ridgeline.api.application import Application
    from ridgeline.cli.configuration import Configured
    from ridgeline.engine.driver.checkpoint.planning import Planner
    from ridgeline.plan.execution import Plan
    from ridgeline.regions.planning import Scope

_CHANGE = "Change, pause and end it"


class _Commands(TyperGroup):
    """The commands. Those of single edits are added when one is named that is none of the others.

    They are rows of the plan's package, which takes a quarter of the start of a command to import.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        self._add_edits()
        return super().list_commands(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first word names, which may be that of Apex or of before."""
        return super().resolve_command(ctx, [*OTHER_NAMES.get(args[0], args[:1]), *args[1:]])

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            self._add_edits()
        return super().get_command(ctx, cmd_name)

    def _add_edits(self) -> None:
        """Put them before the other commands of their title."""
        from ridgeline.cli.remote.editing import add_edit_commands

        edits = typer.Typer(rich_markup_mode=self.rich_markup_mode)
        add_edit_commands(edits, _CHANGE)
        titles = list(dict.fromkeys(map(_title, self.commands.values())))
        commands = {**get_group(edits).commands, **self.commands}
        self.commands = dict(sorted(commands.items(), key=lambda one: titles.index(_title(one[1]))))


def _title(command: Any) -> Any:
    """The title that a command is listed under."""
    return command.rich_help_panel


app = typer.Typer(
    name="ridgeline",
    cls=_Commands,
    help="Run streaming applications, written in Python, on Spark."
    "\n\nTry `ridgeline validate APP`, then `ridgeline run APP`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        with reporting_errors():
            from ridgeline.observe.identity import version

            write(f"ridgeline {version()}, pyspark {version('pyspark')}")
        raise typer.Exit


@app.callback()
def _ridgeline(
    version: Annotated[
        bool, option("Print the versions and exit.", "--version", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Options of all commands."""


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
    from ridgeline.cli.running.starting import start

    start(context, settings)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The values that are printed in the place of the plan."""

    config: Annotated[
        bool,
        option(
            "Print every value instead, where it was said, and what it stands in the place of.", "--config"
        ),
    ] = False
    operator: Annotated[
        str | None,
        option("With `--config`: only what is of this operator; `*` and `?` are wildcards.", metavar="NAME"),
    ] = None
    only_set: Annotated[
        bool, option("With `--config`: only what configuration sets, not defaults and code.", "--only-set")
    ] = False


def plan(
    context: typer.Context,
    written: Written,
    values: Shown,
    as_json: Annotated[bool, option("Print JSON instead of text.", "--json")] = False,
    spec: Annotated[
        str | None,
        option(
            "Write a specification instead: FILE ends in `.json` or `.yaml`. "
            "Of a running application: all changes are in it.",
            metavar="FILE",
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        option(
            "With the properties and changes that this checkpoint keeps, as `run` goes on with it.",
            metavar="DIR",
        ),
    ] = None,
) -> None:
    """Print an application's plan, or its configuration.

    The logical, physical and execution plan. Of one that runs, by its name, id or URL, as it is now.
    Properties that have their default are left out: `--config` has all. Secrets are masked.

    Nothing is started: neither Spark nor an operator.

    Examples: `ridgeline plan payments.py --attribute balances.partitions=4`,
    `ridgeline plan payments.py --config --conf-file site.yaml --only-set`

    Exit codes: 0 done, 2 application or configuration is not valid.
    """
    if values.config:
        from ridgeline.cli.dump_config import dump_config

        dump_config(context, written, operator=values.operator, only_set=values.only_set, as_json=as_json)
        return
    from ridgeline.cli.specifications import form_named, is_running, show_running, write_plan, write_running
    from ridgeline.plan.show.text import describe
    from ridgeline.plan.show.to_json import to_dict

    if spec is not None:
        form_named(spec)
    if is_running(written.target):
        options.nothing_given(
            written.target, [*written.given, *context.args, *([checkpoint] if checkpoint else [])]
        )
        if spec is None:
            show_running(written.target, as_json=as_json)
        else:
            write_running(written.target, spec)
        return
    configured = load_configured(context, written)
    if checkpoint is None:
        made = configured.plan()
    else:
        from ridgeline.engine.driver.checkpoint.planning import Planner

        planner = Planner(
            configured.plan,
            options.properties(written.properties or ()),
            known=lambda: configured.resolve().properties,
        )
        made = planner.first(checkpoint, configured.app.name)
    if spec is not None:
        write_plan(made.logical, spec)
        return
    parts = _region_plans(configured, made, checkpoint) if made.logical.regions else ()
    write(json.dumps(to_dict(made, parts), indent=2) if as_json else describe(made, parts))


def _region_plans(configured: Configured, whole: Plan, checkpoint: str | None) -> list[Plan]:
    """The plans of an application's regions, as they would run on a checkpoint."""
    from ridgeline.api.support.files import is_local, local_path
    from ridgeline.engine.driver.checkpoint.planning import Planner
    from ridgeline.engine.files.storage import LocalStorage
    from ridgeline.regions.planning import plan_regions, read_kept

    def planner_of(planned: Application, _scope: Scope) -> Planner:
        return Planner(replace(configured, app=planned).plan, {})

    root = "CHECKPOINT" if checkpoint is None else local_path(checkpoint) if is_local(checkpoint) else ""
    kept = read_kept(LocalStorage(root)) if checkpoint is not None and root else []
    planned = plan_regions(configured.app, whole, planner_of, root or str(checkpoint), kept)
    return [one.plan for one in planned]


def replay(
    file: Annotated[str, argument("What `ridgeline run --event-log FILE` has written.", "FILE")],
    window: Annotated[int | None, option("Only the window of this id, in full.", min=0, metavar="N")] = None,
    as_json: Annotated[bool, option("Print JSON: the last overview, or the window.", "--json")] = False,
) -> None:
    """Compute a run's figures again from its log.

    From the event log that `--event-log` has written.

    Example: `ridgeline replay run.jsonl --window 42`

    Exit codes: 0 done, 1 the log is damaged, 2 there is no such log or window.
    """
    from ridgeline.cli.remote.replay import replay as replay_log

    replay_log(file, window, as_json=as_json)


def _add(panel: str, *functions: Callable[..., None], without: Collection[str] = (), **settings: Any) -> None:
    """Add commands, which `ridgeline --help` lists under a title."""
    for function in functions:
        app.command(rich_help_panel=panel, **settings)(command(function, without=without))


_CONFIGURED: Mapping[str, Any] = {
    "cls": ConfiguredCommand,
    "context_settings": OWN_OPTIONS,
    "epilog": OPTIONS_OF_APP,
}
_RUN = "Write and run an application"
_WATCH = "Watch a running application"
_LOOK = "See what it is made of, its data, and what would help it"
_AFTER = "What a run has left, and who may do what"

_add(
    _RUN,
    run,
    **{
        **_CONFIGURED,
        "epilog": "`--help-all` shows those about web service, roles, store, checkpoint, cluster and log. "
        f"{OPTIONS_OF_APP} What stands behind `--` goes to the application in any case.",
    },
)
_add(_RUN, upgrading.upgrade, validating.validate, plan, **_CONFIGURED)
_add(_RUN, init, doctor, library, shell)
_add(_WATCH, by_name.ps, commands.status, commands.top, commands.page)
_add(_WATCH, commands.progress, commands.windows, commands.latency, commands.critical_path)
_add(_WATCH, commands.record_age, commands.metrics, commands.regions)
_add(_LOOK, commands.operators, logs.logs, commands.lines, advising.keys, advising.advise)
_add(_LOOK, promises.promises, querying.query)
app.add_typer(recording.group, name="record", rich_help_panel=_LOOK)
_add(_CHANGE, changing.change, changing.changes, changing.pause, changing.resume)
_add(_CHANGE, by_name.stop, inspecting.kill_container)
_add(_AFTER, replay, history.history)
app.add_typer(checkpoint.group, name="checkpoint", rich_help_panel=_AFTER)
app.add_typer(tokens.group, name="token", rich_help_panel=_AFTER)


def main() -> None:
    """The console script."""
    gc.freeze()  # what was imported stays: the collector need not go through it while more is imported
    try:
        app()
    finally:
        finish()
        gc.freeze()  # nor through all that there is at the end, which took a second


if __name__ == "__main__":
    main()
