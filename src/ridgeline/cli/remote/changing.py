"""The commands that change a running application."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from ridgeline.cli.errors import CommandError
from ridgeline.cli.grouping import option
from ridgeline.cli.remote.options import Change, Named

DryRun = Annotated[bool, option("Only show what would change.", "--dry-run")]


def change(
    context: typer.Context,
    remote: Change,
    *,
    spec: str | None = None,
    edits: str | None = None,
    dry_run: DryRun = False,
) -> None:
    """Change the plan: by a specification, or commands.

    All of it takes effect at one window boundary, or nothing. `ridgeline plan APP --spec FILE` writes the
    specification of an application to begin with.

    Without a file it takes commands, one a line, from the terminal or standard input. They are Apex's:
    create-operator, create-stream, add-stream-sink, remove-operator, remove-stream, set-operator-property,
    set-operator-attribute, set-port-attribute, set-stream-attribute, show-queue, submit, abort; `help` lists
    all. `submit` sends them together.

    Examples: `ridgeline change payments --spec payments.yaml --dry-run`,
    `ridgeline change payments < audit.txt`

    Exit codes: 0 committed or aborted, 1 not made in time, 2 refused: nothing is changed.

    Args:
        context: That of the command.
        remote: The application.
        spec (FILE): The specification that the application is to have: `.json`, `.yaml`,
            `.properties`. The difference is worked out.
        edits (FILE): A JSON list of edits: `[{"do": "remove-operator", "name": "audit"}]`; `-`: standard
            input.
        dry_run: Only show it.
    """
    if spec is None and edits is None:
        _by_commands(context, remote)
        return
    if spec is not None and edits is not None:
        raise CommandError("give `--spec FILE` or `--edits FILE`, one of them")
    body = {"spec": read_spec(spec)} if spec is not None else {"edits": read_edits(edits or "")}
    remote.sender().send("/changes", body, remote.note, dry_run=dry_run)


def _by_commands(context: typer.Context, remote: Change) -> None:
    """Change the plan by the commands that are typed, or come from standard input."""
    from ridgeline.cli.remote.plan_session import PROMPT, PlanSession

    shell, typed = context.obj, sys.stdin.isatty()
    interactive = typed if shell is None else not shell.scripted
    session = PlanSession(
        remote.sender(), remote.note, interactive=interactive, prompts=typed and shell is None
    )
    session.run(sys.stdin if shell is None else shell.lines(PROMPT))


def changes(
    remote: Named, *, withdraw: Annotated[int | None, option(min=1)] = None, decisions: bool = False
) -> None:
    """List the changes of this run and their outcome.

    Example: `ridgeline changes payments --withdraw 3`

    Exit codes: 0 done, 2 what is to be withdrawn waits no more.

    Args:
        remote: The application.
        withdraw (ID): Take back this one, which waits.
        decisions: List what policies and listeners have decided, and why.
    """
    from ridgeline.cli.remote import change_request

    if decisions:
        from ridgeline.cli.remote.promises import decision_parts

        nothing = "no policy and no listener has decided on a change in this run"
        remote.ask("/decisions", decision_parts, rows="decisions", none=nothing)
    elif withdraw is not None:
        row = remote.connect().post(f"/changes/{withdraw}/withdraw")
        text = Text(f"change {withdraw} is withdrawn: {row['what']}")
        remote.show(row, lambda _width: [text])
    else:
        nothing = "nobody has asked for a change in this run"
        remote.ask("/changes", change_request.changes_parts, rows="changes", none=nothing)


def pause(remote: Change) -> None:
    """Begin no further window until `resume`.

    Those under way are committed.

    Example: `ridgeline pause payments --note "the store is being moved"`
    """
    remote.sender().act("/pause", remote.note, "begins no further window")


def resume(remote: Change) -> None:
    """Begin windows again after `pause`.

    Example: `ridgeline resume payments`
    """
    remote.sender().act("/resume", remote.note, "begins windows again")


# What they read ---------------------------------------------------------------------------------------------


def read_edits(file: str) -> list[Any]:
    """The edits in a file of JSON, a list or an object with `edits`. Raises CommandError."""
    text = sys.stdin.read() if file == "-" else _text(file)
    found = _json(text, "standard input" if file == "-" else f"`{file}`")
    if isinstance(found, dict) and set(found) == {"edits"}:
        found = found["edits"]
    if not isinstance(found, list):
        raise CommandError(
            f'`--edits {file}` is no list of edits; give `[{{"do": "remove-operator", "name": "audit"}}]`'
        )
    return found


def read_spec(file: str) -> dict[str, Any]:
    """The specification in a file, with what it includes, as JSON values. Raises CommandError."""
    from ridgeline.plan.spec.form import form_of
    from ridgeline.settings.documents import read_with_includes

    path = Path(file)
    if form_of(path.name) is None:
        raise CommandError(
            f"`{file}` is no specification; its name ends in `.json`, `.yaml` or `.properties`"
        )
    if not path.is_file():
        raise CommandError(f"there is no file `{file}`; `ridgeline plan APP --spec {path.name}` writes one")
    document, _ = read_with_includes(path)
    found: dict[str, Any] = json.loads(json.dumps(document, default=str))
    return found


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(
            f"`{file}` cannot be read: {getattr(error, 'strerror', None) or error}; give a file of JSON"
        ) from None


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{where} is no JSON: {error}; write it as JSON") from None
