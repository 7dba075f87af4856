"""Write docs/cli.md from the help of the `ridgeline` command: `python scripts/write_cli_page.py`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer.main

from ridgeline.cli.main import app

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
HEAD = """# The command `ridgeline`

Made from the commands' own help by `python scripts/write_cli_page.py`. What the figures mean stands in
[measurement.md](measurement.md).

Errors go to standard error as "what is wrong; what was found; what to do". Exit codes: 0 done, 1 failed, 2
the application or the command is not valid, 130 killed, 141 nobody reads its output any more (`| head`).

The commands about a running application find it by `--url`, or in a registry of this user's applications on
this machine. The registry is `$RIDGELINE_HOME/applications`, else `$XDG_RUNTIME_DIR/ridgeline`, else
`~/.ridgeline/applications`. Their `--json` is what the web service answers.
"""


def render() -> str:
    """The page's text."""
    group: Any = typer.main.get_command(app)
    commands = {name: group.get_command(None, name) for name in group.list_commands(None)}
    shown = {name: command for name, command in commands.items() if not command.hidden}
    page, panel = HEAD, ""
    for name, command in shown.items():
        if command.rich_help_panel != panel:
            panel = command.rich_help_panel
            page += f"\n## {panel}\n"
        inner = getattr(command, "commands", {"": command})
        for last, one in inner.items():
            full = f"{name} {last}".rstrip()
            page += f"\n### {full}\n\n{_describe(full, one)}"
    return page


def _describe(name: str, command: Any) -> str:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [
        parameter
        for parameter in command.params
        if parameter.param_type_name == "option" and parameter.name != "help"
    ]
    words = [
        "ridgeline",
        name,
        *(argument.metavar for argument in arguments),
        *(["[OPTIONS]"] if options else []),
    ]
    text = f"    {' '.join(words)}\n\n{_plain(command.help)}\n"
    if command.epilog:
        text += f"\n{_plain(command.epilog)}\n"
    rows = [f"| `{argument.metavar}` | {_plain(argument.help)} |" for argument in arguments]
    panel = None
    for option in sorted(options, key=_place_of([option.rich_help_panel for option in options])):
        if option.rich_help_panel != panel:
            panel = option.rich_help_panel
            rows.append(f"| **{panel}** | |")
        rows.append(f"| `{_option(option)}` | {_plain(option.help)}{_also(option)} |")
    return f"{text}\n| | |\n|---|---|\n" + "\n".join(rows) + "\n" if rows else text


def _place_of(panels: list[str | None]) -> Callable[[Any], int]:
    """Options without a panel first, then panels in the order in which their first options come."""
    places = list(dict.fromkeys([None, *panels]))
    return lambda option: places.index(option.rich_help_panel)


def _option(option: Any) -> str:
    return option.opts[0] if option.is_flag else f"{option.opts[0]} {option.metavar or 'VALUE'}"


def _also(option: Any) -> str:
    default = (
        f" Default: `{option.default}`."
        if option.show_default and option.default and not option.is_flag
        else ""
    )
    return default + (f" Also from the environment: `{option.envvar}`." if option.envvar else "")


def _plain(text: str | None) -> str:
    return "\n".join(line.strip() for line in (text or "").strip().splitlines())


if __name__ == "__main__":
    PAGE.write_text(render())
