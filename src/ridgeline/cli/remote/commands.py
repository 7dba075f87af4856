"""The commands that ask a running application."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from typing import Annotated
from urllib.parse import quote

import typer
from rich.text import Text

from ridgeline.cli.errors import reporting_errors

App = Annotated[
    str | None,
    typer.Argument(
        metavar="[APP]",
        help="Name, id or URL of a running application. Not needed if only one runs; see `list-apps`.",
        show_default=False,
    ),
]
Url = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Address of its web service, for one that runs elsewhere: `http://host:port`.",
        show_default=False,
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        metavar="TOKEN",
        envvar="RIDGELINE_TOKEN",
        help="Bearer token, as shown when the application was started.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, as the web service answers it.")]
Watching = Annotated[bool, typer.Option("--watch", help="Go on, with every window, until Ctrl-C.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the `ridgeline` command."""
    panel = "Commands about a running application"
    for command in (
        list_apps,
        get_app_info,
        list_operators,
        list_containers,
        show_logical_plan,
        show_physical_plan,
        critical_path,
        latency,
        record_age,
        progress,
        watermarks,
        metrics,
        windows,
        top,
    ):
        app.command(rich_help_panel=panel)(command)


def list_apps(
    pattern: Annotated[
        str | None,
        typer.Argument(
            metavar="[PATTERN]", help="Only those whose name or id matches: `quote*`.", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the applications of yours that run on this machine. That there is none is no error.

    Example: `ridgeline list-apps 'quote*'`
    """
    with reporting_errors():
        from ridgeline.cli.remote import shared
        from ridgeline.cli.views.lists import apps_table
        from ridgeline.service.registry import running

        every = [shared.describe(entry) for entry in running()]
        apps = [app for app in every if pattern is None or matches(app, pattern, ("name", "id"))]
        empty = Text("no application of yours is running")
        if every:
            empty = Text(
                f"no application of yours matches `{pattern}`; running are "
                + ", ".join(f"`{app['name']}`" for app in every)
            )
        shared.show(
            {"apps": apps}, lambda width: [apps_table(apps, width) if apps else empty], as_json=as_json
        )


def get_app_info(app: App = None, url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """Show an application as a whole: state, windows, latency, containers.

    Example: `ridgeline get-app-info quotes`
    """
    with reporting_errors():
        from ridgeline.cli.remote import shared
        from ridgeline.cli.views.lists import info_lines

        answer = shared.connect(app, url, token).get("/info")
        shared.show(answer, lambda width: info_lines(answer, width), as_json=as_json)


def list_operators(
    app: App = None,
    pattern: Annotated[
        str | None,
        typer.Argument(
            metavar="[PATTERN]",
            help="Only those whose title or id matches: `quote*`, `7`.",
            show_default=False,
        ),
    ] = None,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """List the physical operators: partitions and unifiers, where they run and what they do.

    Example: `ridgeline list-operators quotes 'high*'`
    """
    with reporting_errors():
        from ridgeline.cli.errors import CommandError
        from ridgeline.cli.remote import shared
        from ridgeline.cli.views.lists import operators_list

        answer = shared.connect(app, url, token).get("/physicalPlan/operators")
        if pattern is not None:
            found = [
                operator
                for operator in answer["operators"]
                if matches(operator, pattern, ("operator", "logicalName", "id"))
            ]
            if not found:
                titles = ", ".join(f"`{operator['operator']}`" for operator in answer["operators"][:20])
                msg = f"no operator matches `{pattern}`; there are {titles}"
                raise CommandError(msg)
            answer = {**answer, "operators": found}
        shared.show(answer, lambda width: [operators_list(answer["operators"], width)], as_json=as_json)


def list_containers(app: App = None, url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """List the containers: where they run, when their last heartbeats came, and which operators they run.

    Example: `ridgeline list-containers quotes`
    """
    with reporting_errors():
        from ridgeline.cli.remote import shared
        from ridgeline.cli.views.lists import containers_table

        answer = shared.connect(app, url, token).get("/physicalPlan/containers")
        shared.show(answer, lambda width: [containers_table(answer["containers"], width)], as_json=as_json)


def show_logical_plan(app: App = None, url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """Show the application as its author wrote it: operators and streams.

    Example: `ridgeline show-logical-plan quotes`
    """
    with reporting_errors():
        from ridgeline.cli.remote import shared
        from ridgeline.cli.views.plans import logical_plan

        answer = shared.connect(app, url, token).get("/logicalPlan")
        shared.show(answer, lambda width: logical_plan(answer, width), as_json=as_json)


def show_physical_plan(
    app: App = None, url: Url = None, token: Token = None, as_json: AsJson = False
) -> None:
    """Show the application as it runs: partitions, unifiers, stages, containers and who reads from whom.

    Example: `ridgeline show-physical-plan quotes`
    """
    with reporting_errors():
        from ridgeline.cli.remote import shared
        from ridgeline.cli.views.plans import physical_plan

        answer = shared.connect(app, url, token).get("/physicalPlan")
        shared.show(answer, lambda width: physical_plan(answer, width), as_json=as_json)


def critical_path(
    app: App = None, url: Url = None, token: Token = None, watch: Watching = False, as_json: AsJson = False
) -> None:
    """Show which operators make up the last window's latency.

    Also how much slower the others may become, and what else the window waited for.

    Example: `ridgeline critical-path quotes --watch`
    """
    with reporting_errors():
        from ridgeline.cli.remote import shared, watching
        from ridgeline.cli.views.path import critical_path_parts

        client = shared.connect(app, url, token)
        if watch:
            watching.each_window(
                client, lambda frame: frame["criticalPath"], critical_path_parts, as_json=as_json
            )
            return
        answer = client.get("/criticalPath")
        shared.show(answer, lambda width: critical_path_parts(answer, width), as_json=as_json)


def latency(app: App = None, url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """Show the latency of every physical operator: of the last window, in its parts, and of all windows.

    Example: `ridgeline latency quotes`
    """
    with reporting_errors():
        from ridgeline.cli.remote import shared
        from ridgeline.cli.views.lists import latency_table

        answer = shared.connect(app, url, token).get("/latency")
        none = Text("no window is committed yet")
        shared.show(
            answer,
            lambda width: [latency_table(answer, width) if answer["operators"] else none],
            as_json=as_json,
        )


def record_age(app: App = None, url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """Show how old records were over the last minute: at sources, in state, when emitted, when committed.

    Example: `ridgeline record-age quotes`
    """
    with reporting_errors():
        from ridgeline.cli.remote import shared
        from ridgeline.cli.views.ages import ages_table

        answer = shared.connect(app, url, token).get("/recordAge")
        none = Text('no record ages: no port of an input operator or sink declares `timestamp="..."`')
        entries = answer["operators"]
        shared.show(answer, lambda width: [ages_table(entries, width) if entries else none], as_json=as_json)


def progress(
    app: App = None, url: Url = None, token: Token = None, watch: Watching = False, as_json: AsJson = False
) -> None:
    """Show how far the running window is, what waits at the sources, and when that will be worked off.

    Example: `ridgeline progress quotes --watch`
    """
    with reporting_errors():
        from ridgeline.cli.remote import shared, watching
        from ridgeline.cli.views.running import progress_parts

        client = shared.connect(app, url, token)
        if watch:
            watching.each_second(client, "/progress", progress_parts, as_json=as_json)
            return
        answer = client.get("/progress")
        shared.show(answer, lambda width: progress_parts(answer, width), as_json=as_json)


def watermarks(app: App = None, url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """Show how far event time has come at each operator, which input holds it back, and what came too late.

    Example: `ridgeline watermarks quotes`
    """
    with reporting_errors():
        from ridgeline.cli.remote import shared
        from ridgeline.cli.views.watermarks import watermarks_table

        answer = shared.connect(app, url, token).get("/watermarks")
        none = Text('no watermarks: no input declares a `lateness`, as in `OutputPort(..., lateness="5s")`')
        rows = answer["operators"]
        shared.show(answer, lambda width: [watermarks_table(rows, width) if rows else none], as_json=as_json)


def metrics(
    app: App = None,
    pattern: Annotated[
        str | None,
        typer.Argument(
            metavar="[PATTERN]",
            help="Only of such operators, or such metrics: `parse`, `parse.bad*`.",
            show_default=False,
        ),
    ] = None,
    url: Url = None,
    token: Token = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="PERIOD",
            help="One metric over time, such as `parse.bad`: by `windows`, `minutes` or `hours`.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="With `--by`: only the last N.")] = 20,
    watch: Watching = False,
    as_json: AsJson = False,
) -> None:
    """List the metrics that operators declare, as of their last windows.

    Example: `ridgeline metrics quotes 'parse.*' --watch`
    """
    with reporting_errors():
        from ridgeline.cli.errors import CommandError
        from ridgeline.cli.remote import shared, watching
        from ridgeline.cli.views.own_metrics import history_table, matching, metrics_parts

        client = shared.connect(app, url, token)
        if by is not None:
            if by not in {"windows", "minutes", "hours"}:
                msg = f"`--by` is a period; got `{by}`; give `windows`, `minutes` or `hours`"
                raise CommandError(msg)
            operator, _, name = (pattern or "").rpartition(".")
            if not operator or watch:
                what = "`--by` shows one metric, once"
                msg = f"{what}; give its name, without `--watch`: `ridgeline metrics APP parse.bad --by {by}`"
                raise CommandError(msg)
            history = client.get(f"/metrics/{quote(operator, safe='')}/{quote(name, safe='')}", limit=limit)
            shared.show(history, lambda width: [history_table(history, by, width)], as_json=as_json)
            return
        answer = matching(client.get("/metrics"), pattern)
        if pattern is not None and not answer["metrics"]:
            msg = f"no metric of an operator matches `{pattern}`; `ridgeline metrics` lists all"
            raise CommandError(msg)
        if watch:
            watching.each_second(
                client,
                "/metrics",
                lambda found, width: metrics_parts(matching(found, pattern), width),
                as_json=as_json,
            )
            return
        shared.show(answer, lambda width: metrics_parts(answer, width), as_json=as_json)


def windows(
    app: App = None,
    url: Url = None,
    token: Token = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Only the last N windows.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the last committed windows with their latency and critical path.

    Example: `ridgeline windows quotes --limit 100`
    """
    with reporting_errors():
        from ridgeline.cli.remote import shared
        from ridgeline.cli.views.lists import windows_table

        answer = shared.connect(app, url, token).get("/windows", limit=limit)
        none = Text("no window is committed yet")
        shared.show(
            answer,
            lambda width: [windows_table(answer["windows"], width) if answer["windows"] else none],
            as_json=as_json,
        )


def top(app: App = None, url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """Watch an application as `ridgeline run` shows it, until Ctrl-C; the application continues.

    With `--json`, or where there is no terminal, it prints a frame or a few lines for every window.

    Example: `ridgeline top quotes`
    """
    with reporting_errors():
        from ridgeline.cli.remote import shared, watching

        watching.top(shared.connect(app, url, token), as_json=as_json)


def matches(row: dict[str, object], pattern: str, names: Iterable[str]) -> bool:
    """True if one of the fields of these names is like the pattern."""
    return any(fnmatch.fnmatchcase(str(row[name]), escape(pattern)) for name in names)


def escape(pattern: str) -> str:
    """`quote[1]` means that title, not `quote1`: brackets around digits alone stand for themselves.

    >>> escape("quote[1]"), escape("[a-c]*")
    ('quote[[]1]', '[a-c]*')
    """
    return re.sub(r"\[(\d+\])", r"[[]\1", pattern)
