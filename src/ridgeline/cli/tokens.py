"""`ridgeline token`: adds, lists and removes who may do what. `ridgeline audit`: who has done what."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ridgeline.cli.errors import CommandError
from ridgeline.cli.grouping import command
from ridgeline.cli.output import write

if TYPE_CHECKING:
    from ridgeline.service.access.rules import Rule

File = Annotated[
    str,
    typer.Option(
        "--file",
        metavar="FILE",
        help="The tokens file, as `ridgeline run --tokens` has it.",
        show_default=False,
    ),
]
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Name of a person or program, or `user:NAME`, `group:NAME`.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

group = typer.Typer(
    help="Say who may read, operate and administer applications: the lines of a tokens file.",
    no_args_is_help=True,
)


def add(
    name: Name,
    role: Annotated[
        str,
        typer.Option(
            "--role",
            metavar="ROLE",
            help="`read`, `operate` or `admin`; see docs/roles.md.",
            show_default=False,
        ),
    ],
    file: File,
    application: Annotated[
        list[str] | None,
        typer.Option(
            "--application",
            metavar="GLOB",
            help="Only for applications of this name; `*` and `?` are wildcards. May be repeated.",
            show_default=False,
        ),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires",
            metavar="TIME",
            help="A time from now (`90d`), or a date (`2027-01-01`). Default: never.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Add a line to a tokens file, and print the token, once: the file has its hash alone.

    Applications that run read the file again within a second. A user or a group has
    no token.

    Example: `ridgeline token add ann --role operate --application 'quotes*' --expires 90d --file tokens`
    """
    from ridgeline.service.access.roles import Role
    from ridgeline.service.access.rules import Rule, read_rules
    from ridgeline.service.access.rules_file import add_rule, new_token, token_rule

    globs = tuple(application or ())
    if any(not one or any(map(str.isspace, one)) for one in globs):
        raise CommandError("`--application` is a name or a pattern without spaces, such as `quotes*`")
    until = None if expires is None else _until(expires)
    token = "" if ":" in name else new_token()
    try:
        rule = Rule(name, Role.of(role), b"", globs, until)
        rule = token_rule(name, token, rule) if token else rule
        if read_rules(rule.line()).rules[0].subject != name:
            raise ValueError(f"`{name}` cannot be written in a line")  # noqa: TRY301  as the checks of a line
    except (ValueError, IndexError) as error:
        raise CommandError(str(error).removeprefix("line 1: ")) from None
    add_rule(file, rule)
    write(token or f"`{name}` has the role {rule.role.word} in `{file}`")


def _until(text: str) -> float:
    """Seconds since 1970 of a time from now, or of a date. Raises CommandError."""
    from ridgeline.api.clock import SystemClock
    from ridgeline.api.support.duration import parse_duration
    from ridgeline.service.access.rules import read_time

    now = SystemClock().wall()
    try:
        until = read_time(text) if text[4:5] == "-" else now + parse_duration(text)
    except ValueError:
        raise CommandError(
            f"`--expires {text}` is no time; give `90d`, `12h`, or a date such as `2027-01-01`"
        ) from None
    if until <= now:
        raise CommandError(f"`--expires {text}` is over already; give a later time")
    return until


def show(file: File, as_json: AsJson = False) -> None:
    """List who may do what. Secrets are not in the file.

    Example: `ridgeline token list --file tokens`
    """
    from ridgeline.api.clock import SystemClock
    from ridgeline.service.access.rules_file import read_rules_file

    rows = [_row(rule, SystemClock().wall()) for rule in read_rules_file(file).rules]
    if as_json:
        write(json.dumps(rows, indent=2))
        return
    for row in rows:
        until = row["expires"] and f"until {row['expires']}"
        words = [row["role"], " ".join(row["applications"]) or "all applications", until or ""]
        ended = "  (expired)" if row["expired"] else ""
        write(f"{row['name']}: {', '.join(filter(None, words))}{ended}")
    if not rows:
        write(f"`{file}` has no line; `ridgeline token add` adds one")


def _row(rule: Rule, now: float) -> dict[str, Any]:
    from ridgeline.service.access.rules import time_text

    return {
        "name": rule.subject,
        "role": rule.role.word,
        "applications": list(rule.applications),
        "expires": None if rule.expires is None else time_text(rule.expires),
        "expired": rule.expires is not None and rule.expires <= now,
    }


def remove(name: Name, file: File) -> None:
    """Remove the lines of a name. Sessions and streams that it has open end within seconds.

    Example: `ridgeline token remove ann --file tokens`
    """
    from ridgeline.api.errors import did_you_mean
    from ridgeline.service.access.rules_file import read_rules_file, remove_rules

    count = remove_rules(file, name)
    if not count:
        names = [rule.subject for rule in read_rules_file(file).rules]
        raise CommandError(f"`{file}` has no `{name}`; {did_you_mean(name, names)}")
    write(f"removed `{name}`" + (f", {count} lines" if count > 1 else ""))


group.command("add")(command(add))
group.command("list")(command(show))
group.command("remove")(command(remove))


def audit(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="What `ridgeline run --audit-log FILE` has written.", show_default=False
        ),
    ],
    who: Annotated[
        str | None, typer.Option("--who", metavar="NAME", help="Only of this name.", show_default=False)
    ] = None,
    denied: Annotated[bool, typer.Option("--denied", help="Only tries that were denied.")] = False,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="TIME", help="A time before now (`7d`), or a date.", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show who has changed what, what came of it, and which tries were denied.

    Earlier files of the log are read too.

    Example: `ridgeline audit audit.jsonl --denied --since 1d`

    Exit codes: 0 done, 1 lines are damaged, 2 there is no such log.
    """
    from ridgeline.service.access.audit import read_audit

    if not os.path.exists(file):  # noqa: PTH110  rotated files count as well
        msg = f"there is no audit log `{file}`; `ridgeline run APP --audit-log {file}` writes one"
        raise CommandError(msg)
    after = None if since is None else _since(since)
    entries, damaged = read_audit(file)
    for entry in entries:
        if who is not None and entry.get("who") != who:
            continue
        if (denied and entry.get("event") != "denied") or (after is not None and entry["at"] < after):
            continue
        write(json.dumps(entry) if as_json else _line(entry))
    if damaged:
        msg = f"`{file}` has {damaged:,} lines that cannot be read: they were changed, or a crash cut them"
        from ridgeline.api.errors import RidgelineError

        raise RidgelineError(msg)


def _since(text: str) -> float:
    """Seconds since 1970. Raises CommandError."""
    from ridgeline.api.clock import SystemClock
    from ridgeline.api.support.duration import parse_duration
    from ridgeline.service.access.rules import read_time

    try:
        return read_time(text) if text[4:5] == "-" else SystemClock().wall() - parse_duration(text)
    except ValueError:
        raise CommandError(
            f"`--since {text}` is no time; give `7d`, `12h`, or a date such as `2026-12-01`"
        ) from None


def _line(entry: dict[str, Any]) -> str:
    """An entry in one line, without what could control a terminal."""
    from ridgeline.api.support.masking import printable
    from ridgeline.service.access.rules import time_text

    if entry.get("leftOut"):
        return f"{time_text(entry['at'])}  denied: {entry['leftOut']:,} more tries have no line of their own"
    role = entry.get("role") or "no role"
    who = f"{entry.get('who') or 'unknown'} ({entry.get('by')}, {role}) from {entry.get('from')}"
    result = entry.get("result") or entry.get("reason") or ""
    shown = [
        entry.get("event"),
        entry.get("status"),
        result if isinstance(result, str) else json.dumps(result),
    ]
    what = json.dumps(entry["what"]) if entry.get("what") else ""
    words = [entry.get("method"), entry.get("path"), what]
    text = f"{time_text(entry['at'])}  {who}: {' '.join(filter(None, map(str, words)))}"
    line = f"{text} -> {' '.join(str(one) for one in shown if one)}"
    return printable(line).replace("\n", "\\n")  # a path that was tried must not look like a line of its own
