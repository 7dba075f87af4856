"""The commands that change a running application."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from ridgeline.cli.errors import CommandError, reporting_errors
from ridgeline.cli.remote.commands import AsJson, Token, Url

if TYPE_CHECKING:
    from ridgeline.cli.remote.change_request import ChangeSender

VALUES = {"ignore_unknown_options": True}
"""Settings of commands that take a VALUE, which may be `-5`."""
App = Annotated[str, typer.Argument(metavar="APP", help="Name, id or URL of a running application.")]
Operator = Annotated[str, typer.Argument(metavar="OPERATOR", help="Name of an operator, as in the plan.")]
Note = Annotated[
    str, typer.Option("--note", metavar="TEXT", help="Why; it is kept beside the change.", show_default=False)
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]
NoWait = Annotated[
    bool, typer.Option("--no-wait", help="Return once the change is in the queue, before it is made.")
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        min=0,
        metavar="SECONDS",
        help="Wait so long for the change; it stays in the queue after that.",
    ),
]
SECONDS = 60.0
PANEL = "Commands that change a running application"


def register(app: typer.Typer) -> None:
    """Add the commands to the `ridgeline` command."""
    values = {"context_settings": VALUES}
    app.command(rich_help_panel=PANEL)(repartition)
    app.command(rich_help_panel=PANEL, **values)(set_operator_property)  # type: ignore[arg-type]
    app.command(rich_help_panel=PANEL, **values)(set_operator_attribute)  # type: ignore[arg-type]
    for command in (change, begin_logical_plan_change, changes, withdraw_change):
        app.command(rich_help_panel=PANEL)(command)
    for command in (pause, resume, shutdown_app, kill_app):
        app.command(rich_help_panel=PANEL)(command)


def repartition(  # noqa: PLR0913, PLR0917  options
    app: App,
    operator: Operator,
    partitions: Annotated[
        int | None,
        typer.Argument(metavar="[N]", min=1, help="How many partitions it is to have.", show_default=False),
    ] = None,
    partitioner: Annotated[
        str | None,
        typer.Option(
            metavar="CLASS",
            help="What divides it from now on: an import path, or JSON with `class`, `arguments` and "
            "`properties`. Default: what divides it now.",
            show_default=False,
        ),
    ] = None,
    note: Note = "",
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    timeout: Timeout = SECONDS,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Give an operator of a running application another number of partitions.

    Its keyed state moves with its keys. Operators that the change does not touch go on without a pause.

    Example: `ridgeline repartition payments balances 4`

    Exit codes: 0 committed, 1 not made in time, 2 refused: nothing is changed.
    """
    with reporting_errors():
        edit: dict[str, Any] = {"do": "repartition", "operator": operator, "partitions": partitions}
        if partitioner is not None:
            edit["partitioner"] = partitioner_of(partitioner)
        _sender(app, url, token, no_wait, timeout, as_json).change([edit], note, dry_run=dry_run)


def set_operator_property(  # noqa: PLR0913, PLR0917  options
    app: App,
    operator: Operator,
    name: Annotated[
        str, typer.Argument(metavar="PROPERTY", help="Its property; `options.topic` for an entry of one.")
    ],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Its value, as `-D` takes it.")],
    note: Note = "",
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    timeout: Timeout = SECONDS,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Give a property of an operator a value, in all partitions from one window on.

    The instances stay: what they have cached and connected stays too.

    Example: `ridgeline set-operator-property payments payments per_window 500`

    Exit codes: 0 committed, 1 not made in time, 2 refused: nothing is changed.
    """
    with reporting_errors():
        edit = {"do": "set-property", "operator": operator, "property": name, "value": value}
        _sender(app, url, token, no_wait, timeout, as_json).change([edit], note, dry_run=dry_run)


def set_operator_attribute(  # noqa: PLR0913, PLR0917  options
    app: App,
    operator: Operator,
    name: Annotated[
        str, typer.Argument(metavar="ATTRIBUTE", help="The attribute; `ridgeline list-attributes` has all.")
    ],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Its value, as `--attribute` takes it.")],
    port: Annotated[
        str,
        typer.Option(metavar="PORT", help="It is one of this port of the operator.", show_default=False),
    ] = "",
    unifier: Annotated[
        bool, typer.Option("--unifier", help="It is one of the unifiers of `--port`.")
    ] = False,
    note: Note = "",
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    timeout: Timeout = SECONDS,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Give an attribute of an operator or a port a value.

    The operator's instances are made anew, over their state.

    Example: `ridgeline set-operator-attribute payments balances memory_mb 512`

    Exit codes: 0 committed, 1 not made in time, 2 refused: nothing is changed.
    """
    with reporting_errors():
        edit: dict[str, Any] = {
            "do": "set-attribute",
            "operator": operator,
            "attribute": name,
            "value": value,
            "port": port,
            "unifier": unifier,
        }
        _sender(app, url, token, no_wait, timeout, as_json).change([edit], note, dry_run=dry_run)


def change(  # noqa: PLR0913, PLR0917  options
    app: App,
    spec: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The specification that the application is to have: `.json`, `.yaml`, `.toml`, "
            "`.properties`. The difference is worked out.",
            show_default=False,
        ),
    ] = None,
    edits: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help='A JSON list of edits: `[{"do": "remove-operator", "name": "audit"}]`; `-`: standard input.',
            show_default=False,
        ),
    ] = None,
    note: Note = "",
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    timeout: Timeout = SECONDS,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Change the plan of a running application to what a specification says, or by a list of edits.

    All of it takes effect at one window boundary, or nothing. `ridgeline plan APP --spec FILE` writes the
    specification of an application to begin with.

    Example: `ridgeline change payments --spec payments.yaml --dry-run`

    Exit codes: 0 committed, 1 not made in time, 2 refused: nothing is changed.
    """
    with reporting_errors():
        if (spec is None) == (edits is None):
            msg = "give `--spec FILE` or `--edits FILE`, one of them"
            raise CommandError(msg)
        body = {"spec": read_spec(spec)} if spec is not None else {"edits": read_edits(edits or "")}
        sender = _sender(app, url, token, no_wait, timeout, as_json)
        sender.send("/changes", body, note, dry_run=dry_run)


def begin_logical_plan_change(
    app: App,
    note: Note = "",
    no_wait: NoWait = False,
    timeout: Timeout = SECONDS,
    url: Url = None,
    token: Token = None,
) -> None:
    """Change the plan of a running application by commands, one a line, which `submit` sends together.

    The commands are Apex's: create-operator, create-stream, add-stream-sink, remove-operator, remove-stream,
    set-operator-property, set-operator-attribute, set-port-attribute, set-stream-attribute, show-queue,
    submit, abort; `help` lists all. They come from the terminal, or from standard input.

    Example: `ridgeline begin-logical-plan-change payments < audit.txt`

    Exit codes: 0 committed or aborted, 1 not made in time, 2 refused: nothing is changed.
    """
    with reporting_errors():
        from ridgeline.cli.remote.plan_session import PlanSession

        sender = _sender(app, url, token, no_wait, timeout, as_json=False)
        PlanSession(sender, note, interactive=sys.stdin.isatty()).run(sys.stdin)


def changes(app: App, url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """List the changes that were asked for in this run, and what became of each.

    Example: `ridgeline changes payments`
    """
    with reporting_errors():
        from ridgeline.cli.remote import change_request, shared

        answer = shared.connect(app if url is None else None, url, token).get("/changes")
        rows = answer["changes"]
        none = [Text("nobody has asked for a change in this run")]
        shared.show(
            answer, lambda _width: change_request.changes_parts(rows) if rows else none, as_json=as_json
        )


def withdraw_change(
    app: App,
    number: Annotated[int, typer.Argument(metavar="ID", min=1, help="Its id; see `changes`.")],
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Take back a change that waits.

    Example: `ridgeline withdraw-change payments 3`

    Exit codes: 0 withdrawn, 2 it waits no more.
    """
    with reporting_errors():
        from ridgeline.cli.remote import shared

        client = shared.connect(app if url is None else None, url, token)
        row = client.post(f"/changes/{number}/withdraw")
        text = Text(f"change {number} is withdrawn: {row['what']}")
        shared.show(row, lambda _width: [text], as_json=as_json)


def pause(
    app: App,
    note: Note = "",
    no_wait: NoWait = False,
    timeout: Timeout = SECONDS,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Begin no further window until `resume`; those under way are committed.

    Example: `ridgeline pause payments --note "the store is being moved"`
    """
    with reporting_errors():
        _sender(app, url, token, no_wait, timeout, as_json).act("/pause", note, "begins no further window")


def resume(
    app: App,
    note: Note = "",
    no_wait: NoWait = False,
    timeout: Timeout = SECONDS,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Begin windows again after `pause`.

    Example: `ridgeline resume payments`
    """
    with reporting_errors():
        _sender(app, url, token, no_wait, timeout, as_json).act("/resume", note, "begins windows again")


def shutdown_app(
    app: App,
    note: Note = "",
    no_wait: NoWait = False,
    timeout: Timeout = SECONDS,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """End an application after the windows under way, as Ctrl-C does: all results are published.

    Example: `ridgeline shutdown-app payments`

    Exit codes: 0 ended, 1 still running after `--timeout`, 2 none of this name runs, or not allowed.
    """
    with reporting_errors():
        _sender(app, url, token, no_wait, timeout, as_json).end("/shutdown", note)


def kill_app(
    app: App,
    note: Note = "",
    no_wait: NoWait = False,
    timeout: Timeout = SECONDS,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """End an application at once; the windows under way are void.

    A run with the same checkpoint runs them again. The killed `ridgeline run` ends with exit code 1.

    Example: `ridgeline kill-app payments`

    Exit codes: 0 ended, 1 still running after `--timeout`, 2 none of this name runs, or not allowed.
    """
    with reporting_errors():
        _sender(app, url, token, no_wait, timeout, as_json).end("/kill", note)


# What they read ---------------------------------------------------------------------------------------------


def _sender(
    app: str,
    url: str | None,
    token: str | None,
    no_wait: bool,
    timeout: float,
    as_json: bool,
) -> ChangeSender:
    """Who asks the application. Raises CommandError."""
    from ridgeline.cli.remote import shared
    from ridgeline.cli.remote.change_request import ChangeSender, Waiting

    client = shared.connect(app if url is None else None, url, token)
    return ChangeSender(client, app, Waiting(no_wait, timeout), as_json)


def partitioner_of(text: str) -> dict[str, Any]:
    """The partitioner that an option names: an import path, or JSON. Raises CommandError.

    >>> partitioner_of("payments.ByRegion")
    {'class': 'payments.ByRegion'}
    """
    if not text.lstrip().startswith("{"):
        return {"class": text}
    found = _json(text, "`--partitioner`")
    if not isinstance(found, dict):
        msg = '`--partitioner` is no JSON object; give `{"class": "payments.ByRegion"}`'
        raise CommandError(msg)
    return found


def read_edits(file: str) -> list[Any]:
    """The edits in a file of JSON, a list or an object with `edits`. Raises CommandError."""
    text = sys.stdin.read() if file == "-" else _text(file)
    found = _json(text, "standard input" if file == "-" else f"`{file}`")
    if isinstance(found, dict) and set(found) == {"edits"}:
        found = found["edits"]
    if not isinstance(found, list):
        msg = f'`--edits {file}` is no list of edits; give `[{{"do": "remove-operator", "name": "audit"}}]`'
        raise CommandError(msg)
    return found


def read_spec(file: str) -> dict[str, Any]:
    """The specification in a file, with what it includes, as JSON values. Raises CommandError."""
    from ridgeline.plan.spec.form import form_of
    from ridgeline.settings.documents import read_with_includes

    path = Path(file)
    if form_of(path.name) is None:
        msg = f"`{file}` is no specification; its name ends in `.json`, `.yaml`, `.toml` or `.properties`"
        raise CommandError(msg)
    if not path.is_file():
        msg = f"there is no file `{file}`; `ridgeline plan APP --spec {path.name}` writes one"
        raise CommandError(msg)
    document, _ = read_with_includes(path)
    found: dict[str, Any] = json.loads(json.dumps(document, default=str))
    return found


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"`{file}` cannot be read: {getattr(error, 'strerror', None) or error}; give a file of JSON"
        raise CommandError(msg) from None


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        msg = f"{where} is no JSON: {error}; write it as JSON"
        raise CommandError(msg) from None
