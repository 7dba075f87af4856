"""The `ridgeline` command."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any

import typer

from ridgeline.cli import comparing, options
from ridgeline.cli.arguments import (
    OPTIONS_OF_APP,
    OWN_OPTIONS,
    App,
    AppName,
    Attributes,
    ConfSet,
    Properties,
)
from ridgeline.cli.attributes import list_attributes
from ridgeline.cli.checkpoints import checkpoints
from ridgeline.cli.configuration import ConfFiles, ConfiguredCommand, NoConfig, configuration, load_configured
from ridgeline.cli.errors import reporting_errors
from ridgeline.cli.grouping import command
from ridgeline.cli.output import finish, write
from ridgeline.cli.packages import get_package_info, list_applications
from ridgeline.cli.remote import advising, changing, commands, deciding, keys, promises, querying, recording
from ridgeline.cli.settings import (
    DEFAULT_HOST,
    DEFAULT_PROFILE,
    DEFAULT_PROFILE_SECONDS,
    ProfileSettings,
    RunSettings,
    Service,
)
from ridgeline.engine.driver.execution_kind import Execution
from ridgeline.engine.process.log_channel import LogFormat, LogLevel

app = typer.Typer(
    name="ridgeline",
    help="Run streaming applications, written in Python, on Spark."
    "\n\nTry `ridgeline validate APP`, then `ridgeline run APP`.",
    no_args_is_help=True,
    add_completion=False,
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
        bool,
        typer.Option(
            "--version", help="Print the versions and exit.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Options of all commands."""


def run(  # noqa: PLR0913, PLR0917  options
    context: typer.Context,
    target: App,
    app_name: AppName = None,
    conf_set: ConfSet = None,
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where Spark runs: `local[4]`, `spark://host:7077`, `yarn`, `k8s://...`. Default: that "
            "of `spark-submit`, or `local[*]`.",
            show_default=False,
        ),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="A setting of Spark: `--conf spark.executor.memory=4g`.",
            show_default=False,
        ),
    ] = None,
    archives: Annotated[
        str | None,
        typer.Option(
            metavar="FILE[#FOLDER]",
            help="A packed environment (`venv-pack`, `conda-pack`) for workers of a cluster: it is unpacked "
            "beside each executor, and its Python runs them.",
            show_default=False,
        ),
    ] = None,
    execution: Annotated[
        Execution | None,
        typer.Option(
            case_sensitive=False,
            help="What runs windows: `slots`, long Spark tasks in which containers live, or `jobs`, a Spark "
            "job for each window. Default: what RIDGELINE_EXECUTION says, or slots.",
            show_default=False,
        ),
    ] = None,
    tls_cert: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The certificate (PEM) for TLS between the hosts of a cluster; needs `--tls-key`. Default: "
            "one is made for the run.",
            show_default=False,
        ),
    ] = None,
    tls_key: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The key of `--tls-cert` (PEM, no password).", show_default=False),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Folder or URI for the run's state. One that holds a run: go on from there. Not given: "
            "a fresh folder, named at start.",
            show_default=False,
        ),
    ] = None,
    reset_properties: Annotated[
        bool,
        typer.Option(
            "--reset-properties",
            help="Forget the properties that `-D` gave to runs before, which the checkpoint keeps: take the "
            "application's own.",
        ),
    ] = False,
    reset_changes: Annotated[
        bool,
        typer.Option(
            "--reset-changes",
            help="Forget the changes of the plan that were made while runs before ran, which the checkpoint "
            "keeps: take the application as it is written.",
        ),
    ] = False,
    drop_state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Go on without the state of an operator that the application has no more, or without one "
            "state of it: `operator.state`.",
            show_default=False,
        ),
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OLD=NEW",
            help="Give the state of the operator OLD of the run before to the operator NEW. Of one state: "
            "`operator.old=operator.new`.",
            show_default=False,
        ),
    ] = None,
    from_window: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="W",
            help="Start again from window W, which the checkpoint keeps; outputs take back what came after.",
            show_default=False,
        ),
    ] = None,
    properties: Properties = None,
    attributes: Attributes = None,
    windows: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Stop after N windows committed in this run.", show_default=False
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print nothing but errors and what operators print.")
    ] = False,
    event_log: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Write all events to FILE, `.jsonl` or `.parquet`, for `ridgeline replay FILE`.",
            show_default=False,
        ),
    ] = None,
    log_level: Annotated[
        LogLevel | None,
        typer.Option(
            case_sensitive=False,
            help="Write what is logged, from this level on, to standard error or to `--log-file`.",
            show_default=False,
        ),
    ] = None,
    log_file: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Append what is logged to PATH, from `--log-level` on (default: INFO). Workers of a "
            "cluster write to their own standard error.",
            show_default=False,
        ),
    ] = None,
    log_format: Annotated[
        LogFormat,
        typer.Option(case_sensitive=False, help="`text`, or `json`: one JSON object a line."),
    ] = LogFormat.TEXT,
    otlp_endpoint: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Send metrics to an OpenTelemetry collector, `http://localhost:4318`; needs the extra "
            "`ridgeline[otel]`.",
            show_default=False,
        ),
    ] = None,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile",
            help="Say at the end where a window's time goes, and write flame graphs of the driver and "
            "of a worker (by py-spy).",
        ),
    ] = False,
    profile_folder: Annotated[
        str,
        typer.Option(
            metavar="FOLDER", help="Where `--profile` writes its files; those of a run before are replaced."
        ),
    ] = DEFAULT_PROFILE,
    profile_seconds: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="How long flame graphs are recorded at most, from when windows are warm."
        ),
    ] = DEFAULT_PROFILE_SECONDS,
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, metavar="N", help="Port of the web service; 0: a free one, named at start."
        ),
    ] = 0,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Where the web service listens. Elsewhere than on a loopback address it asks for a token.",
        ),
    ] = DEFAULT_HOST,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN",
            envvar="RIDGELINE_TOKEN",
            help="What the web service asks for. Not given: one is made where it is needed, and shown "
            "at start.",
            show_default=False,
        ),
    ] = None,
    read_token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN",
            envvar="RIDGELINE_READ_TOKEN",
            help="A second token for the web service, with which everything can be read and nothing changed.",
            show_default=False,
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A name by which requests may ask for the web service, such as a proxy's.",
            show_default=False,
        ),
    ] = None,
    no_service: Annotated[bool, typer.Option("--no-service", help="Start no web service.")] = False,
    conf_file: ConfFiles = None,
    no_config: NoConfig = False,
) -> None:
    """Run an application on Spark until its inputs have finished.

    Ctrl-C or SIGTERM ends it after the windows under way: all results are published, and the same command
    with `--checkpoint` continues from there. While it runs, `ridgeline top`, `critical-path`, `progress` and
    other commands show where its time goes.

    Example: `ridgeline run payments.py --master local[2] --checkpoint state -D payments.count=1000 --windows
    20`

    If what it prints is read by another program (`| head`) that goes away, the run ends after its windows as
    on Ctrl-C.

    Exit codes: 0 finished or stopped, also by `shutdown-app`, 1 the application failed or `kill-app` has
    ended it, 2 not valid. A second Ctrl-C ends it with 130, a second SIGTERM with 143. If nobody reads its
    output any more it ends with 141.
    """
    with reporting_errors():
        from ridgeline.engine.spark.submitted import chosen_master

        configured = configuration(context)
        spark = configured.run.conf | options.settings(conf or ())
        master = options.check_master(chosen_master(master, spark))
        if archives is not None:
            from ridgeline.engine.spark.archives import archive_settings

            spark |= archive_settings(archives, master, spark)
        settings = RunSettings(
            target,
            master,
            conf or (),
            checkpoint,
            properties or (),
            attributes or (),
            windows,
            quiet,
            context.args,
            service=None if no_service else Service(host, port, token, allow_host or (), read_token),
            event_log=event_log,
            otlp=otlp_endpoint,
            tls_cert=tls_cert,
            tls_key=tls_key,
            profile=ProfileSettings(profile_folder, profile_seconds) if profile else None,
            log=options.log_settings(log_level, log_file, log_format),
            execution=execution,
            spark=spark,
            conf_files=conf_file or (),
            no_config=no_config,
            app_name=app_name,
            conf_set=conf_set,
            archives=archives,
            from_window=from_window,
        )
        options.check_reset(reset_properties, checkpoint)
        options.check_reset(reset_changes, checkpoint, "--reset-changes")
        options.check_reset(bool(drop_state), checkpoint, "--drop-state")
        options.check_reset(bool(rename), checkpoint, "--rename")
        options.check_reset(from_window is not None, checkpoint, "--from-window")
        renamed = options.renamed(rename or ())
        application = load_configured(context, target, properties, attributes)
        from ridgeline.cli.running.run_command import Run
        from ridgeline.engine.driver.checkpoint.planning import Planner
        from ridgeline.engine.process.log_channel import open_channel

        planner = Planner(
            application.plan,
            options.properties(settings.properties),
            known=lambda: application.resolve().properties,
            reset=reset_properties,
            reset_changes=reset_changes,
            dropped=drop_state or (),
            renamed=renamed,
        )
        going = Run(planner, planner.first(checkpoint, application.app.name), settings)
        with reporting_errors(going.print_how_to_continue), open_channel(settings.log):
            going.run()


def plan(  # noqa: PLR0913, PLR0917  options
    context: typer.Context,
    target: App,
    app_name: AppName = None,  # noqa: ARG001  read by `load_configured`
    conf_set: ConfSet = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    unfold: Annotated[bool, typer.Option("--unfold", help="Show what modules are made of.")] = False,
    spec: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Write a specification instead: FILE ends in `.json`, `.yaml`, `.toml` or `.properties`. "
            "APP may be the name, id or URL of a running application: all changes are in it.",
            show_default=False,
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="With the properties and changes that this checkpoint keeps, as `run` goes on with it.",
            show_default=False,
        ),
    ] = None,
    properties: Properties = None,
    attributes: Attributes = None,
    conf_file: ConfFiles = None,
    no_config: NoConfig = False,  # noqa: ARG001  read by `ConfiguredCommand`
) -> None:
    """Print an application's logical, physical and execution plan.

    In the logical plan a module is one operator; in the others it is what it is made of.

    Nothing is started: neither Spark nor an operator.

    Example: `ridgeline plan payments.py --attribute balances.partitions=4`
    """
    with reporting_errors():
        from ridgeline.plan.show.text import describe
        from ridgeline.plan.show.to_json import to_dict

        given = [*(properties or ()), *(attributes or ()), *(conf_file or ()), *(conf_set or ())]
        if spec is not None:
            from ridgeline.cli.specifications import form_named, is_running, write_running

            form_named(spec)
            if is_running(target):
                options.nothing_given(target, [*given, *context.args, *([checkpoint] if checkpoint else [])])
                write_running(target, spec)
                return
        configured = load_configured(context, target, properties, attributes)
        if checkpoint is None:
            made = configured.plan()
        else:
            from ridgeline.engine.driver.checkpoint.planning import Planner

            planner = Planner(
                configured.plan,
                options.properties(properties or ()),
                known=lambda: configured.resolve().properties,
            )
            made = planner.first(checkpoint, configured.app.name)
        if spec is not None:
            from ridgeline.cli.specifications import write_plan

            write_plan(made.logical, spec)
            return
        write(json.dumps(to_dict(made), indent=2) if as_json else describe(made, unfold=unfold))


def validate(
    context: typer.Context,
    target: App,
    app_name: AppName = None,  # noqa: ARG001  read by `load_configured`
    conf_set: ConfSet = None,  # noqa: ARG001  as `app_name`
    properties: Properties = None,
    attributes: Attributes = None,
    conf_file: ConfFiles = None,  # noqa: ARG001  read by `ConfiguredCommand`
    no_config: NoConfig = False,  # noqa: ARG001  as `conf_file`
) -> None:
    """Check an application without starting anything: all faults at once, each with its remedy.

    Example: `ridgeline validate payments.py -D payments.per_window=0`

    Exit codes: 0 valid, 2 not valid.
    """
    with reporting_errors():
        from ridgeline.cli.units import plural
        from ridgeline.plan.show.notes import order_notes
        from ridgeline.plan.validation import validate as validate_application

        found = load_configured(context, target, properties, attributes)
        resolved = found.resolve()
        with resolved.reporting():
            logical = validate_application(found.app, resolved.properties, resolved.attributes)
        parts = f"{plural(len(logical.operators), 'operator')}, {plural(len(logical.streams), 'stream')}"
        write(f"application {logical.application} is valid: {parts}")
        for note in order_notes(logical):
            write(f"note: {note}")


def dump_config(  # noqa: PLR0913, PLR0917  options
    context: typer.Context,
    target: App,
    app_name: AppName = None,  # noqa: ARG001  read by `load_configured`
    conf_set: ConfSet = None,  # noqa: ARG001  as `app_name`
    operator: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Only what is of this operator; `*` and `?` are wildcards.",
            show_default=False,
        ),
    ] = None,
    only_set: Annotated[
        bool, typer.Option("--only-set", help="Only what configuration sets, not defaults and code.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    properties: Properties = None,
    attributes: Attributes = None,
    conf_file: ConfFiles = None,  # noqa: ARG001  read by `ConfiguredCommand`
    no_config: NoConfig = False,  # noqa: ARG001  as `conf_file`
) -> None:
    """Print every value of an application, where it was said, and what it stands in the place of.

    Secrets are masked. Nothing is started.

    Example: `ridgeline dump-config payments.py --conf-file site.yaml --only-set`

    Exit codes: 0 done, 2 application or configuration is not valid.
    """
    with reporting_errors():
        from ridgeline.cli.dump_config import dump_config as dump

        dump(context, target, properties, attributes, operator=operator, only_set=only_set, as_json=as_json)


def replay(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="What `ridgeline run --event-log FILE` has written.", show_default=False
        ),
    ],
    window: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Only the window of this id, in full.", show_default=False),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: the last frame, or the window.")
    ] = False,
) -> None:
    """Compute a run's figures again from its event log.

    Example: `ridgeline replay run.jsonl --window 42`

    Exit codes: 0 done, 1 the log is damaged, 2 there is no such log or window.
    """
    with reporting_errors():
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
_VALUES = {"ignore_unknown_options": True}
"""Settings of commands that take a VALUE, which may be `-5`."""
_RUN = "Write and run an application"
_WATCH = "Watch a running application"
_LOOK = "See what a running application is made of, and what would help it"
_CHANGE = "Change a running application"
_STEER = "Pause and end a running application"
_DATA = "Look at the data of a running application"
_AFTER = "See what a run has left"
_PACKAGES = "Packages and attributes"

_add(
    _RUN,
    run,
    **{
        **_CONFIGURED,
        "epilog": f"{OPTIONS_OF_APP} What stands behind `--` goes to the application in any case.",
    },
)
_add(_RUN, validate, plan, dump_config, **_CONFIGURED)
_add(_RUN, comparing.compare, context_settings=OWN_OPTIONS, epilog=comparing.EPILOG)
_add(
    _RUN,
    comparing.run_side,
    name=comparing.SIDE,
    cls=ConfiguredCommand,
    context_settings=OWN_OPTIONS,
    hidden=True,
)
_add(_WATCH, commands.list_apps, commands.top, commands.get_app_info, commands.progress, commands.windows)
_add(_WATCH, commands.latency, commands.critical_path, commands.record_age, commands.watermarks)
_add(_WATCH, commands.metrics, promises.promises, promises.alert_rules, deciding.decisions)
_add(_LOOK, commands.show_logical_plan, commands.show_physical_plan, commands.list_operators)
_add(_LOOK, commands.list_containers, keys.keys, advising.advise)
_add(_CHANGE, changing.repartition)
_add(_CHANGE, changing.set_operator_property, changing.set_operator_attribute, context_settings=_VALUES)
_add(_CHANGE, changing.change)
_add(_CHANGE, changing.begin_logical_plan_change, without=["as_json"])
_add(_CHANGE, changing.changes, changing.withdraw_change)
_add(_STEER, changing.pause, changing.resume, changing.shutdown_app, changing.kill_app)
_add(_DATA, querying.query, recording.start_recording, recording.stop_recording)
_add(_DATA, recording.list_recordings, recording.show_recording)
_add(_AFTER, replay, checkpoints)
_add(_PACKAGES, list_applications, get_package_info, list_attributes)


def main() -> None:
    """The console script."""
    gc.freeze()  # what was imported stays: the collector need not go through it while more is imported
    try:
        app()
    finally:
        finish()


if __name__ == "__main__":
    main()
