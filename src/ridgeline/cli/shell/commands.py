"""The command `ridgeline shell`."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.api.support import trust
from ridgeline.cli.errors import CommandError, make_console, print_error

if TYPE_CHECKING:
    from ridgeline.cli.shell.session import Session
    from ridgeline.cli.shell.terminal import Terminal


def shell(
    context: typer.Context,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]",
            help="Carry out the lines of this file, and end; `-`: of standard input.",
            show_default=False,
        ),
    ] = None,
    commands: Annotated[
        list[str] | None,
        typer.Option(
            "--execute",
            "-e",
            metavar="COMMANDS",
            help="Carry out these, divided by `;`, and end.",
            show_default=False,
        ),
    ] = None,
    app: Annotated[
        str | None,
        typer.Option("--connect", metavar="APP", help="Begin with `connect APP`.", show_default=False),
    ] = None,
    no_rc: Annotated[bool, typer.Option("--no-rc", help="Leave out `shellrc`.")] = False,
) -> None:
    """Type commands without `ridgeline` before them, with completion, history, aliases and macros.

    `connect APP` gives the application to all commands that follow; its sentence stands at the foot. Tab
    completes commands, options, and names of applications, operators, ports and properties. Apex's names of
    commands work too. `help` lists what the shell has of its own.

    The lines of `~/.ridgeline/shellrc`, or `$RIDGELINE_HOME/shellrc`, are carried out first: the place of
    aliases and macros. In a file or with `-e` the first command that fails ends it, with its exit code.

    At a terminal it needs the extra `ridgeline[shell]`.

    Example: `ridgeline shell -e "connect payments; status; critical-path"`

    Exit codes: 0 done, that of the first command that failed, 2 no such file.
    """
    from ridgeline.cli.shell.session import FailedError, LeaveError, Session

    typed = file is None and not commands
    terminal = _terminal() if typed and sys.stdin.isatty() else None
    session = Session(context.find_root().command)
    if terminal is not None:
        terminal.begin(session)
    try:
        if not no_rc:
            _carry_out_rc(session)
        if app is not None:
            session.carry_out(f"connect {app}")
        if terminal is not None:
            session.run()
        elif typed or file == "-":
            session.run_script("standard input", sys.stdin.read().splitlines())
        elif file is not None:
            session.source(file)
        for line in commands or ():
            session.carry_out(line)
    except LeaveError:
        pass
    except FailedError as error:
        if error.where:
            print_error(CommandError(f"the command of {error.where} has failed"), make_console())
        raise typer.Exit(error.code) from None
    finally:
        if terminal is not None:
            terminal.close()


def _terminal() -> Terminal:
    """Reads lines from the terminal. Raises CommandError without the extra."""
    if find_spec("prompt_toolkit") is None:
        raise CommandError(
            "the shell at a terminal needs prompt_toolkit; `pip install 'ridgeline[shell]'`, or give a file"
        )
    from ridgeline.cli.shell.terminal import Terminal

    return Terminal()


def _carry_out_rc(session: Session) -> None:
    """Carry out `shellrc`, if there is one. Raises UntrustedError if others could have written it."""
    from ridgeline.cli.shell.session import home

    path = home() / "shellrc"
    if path.is_file():
        trust.check(str(path), f"`{path}`", "give `--no-rc` to leave it out")
        session.source(str(path))
