"""`ridgeline token add`: says who may do what."""

from __future__ import annotations

import typer

from ridgeline.cli.errors import CommandError
from ridgeline.cli.grouping import command
from ridgeline.cli.output import write

token = typer.Typer(
    help="Say who may read, operate and administer.",
    no_args_is_help=True,
)


def add(
    name: str, *, role: str, file: str, application: list[str] | None = None, expires: str | None = None
) -> None:
    """Add a line to a tokens file, and print the token, once: the file has its hash alone.

    Applications that run read the file again within a second. A user or a group has
    no token.

    Example: `ridgeline token add ann --role operate --application 'quotes*' --expires 90d --file tokens`

    Args:
        name: Name of a person or program, or `user:NAME`, `group:NAME`.
        role (ROLE): `read`, `operate` or `admin`; see docs/roles.md.
        file (FILE): The tokens file, as `ridgeline run --tokens` has it.
        application (GLOB): Only for applications of this name; `*` and `?` are wildcards. May be repeated.
        expires (TIME): A time from now (`90d`), or a date (`2027-01-01`). Default: never.
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


token.command("add")(command(add))
