"""Write docs/cli.md from the help of the `ridgeline` command: `python scripts/write_cli_page.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import typer.main

from ridgeline.cli.main import app

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
HEAD = """# The command `ridgeline`

    ridgeline --help
    ridgeline run app.py
    ridgeline status

Made from the commands' own help by `python scripts/write_cli_page.py`. What the figures mean:
[measurement.md](measurement.md).

Errors go to standard error as "what is wrong; what was found; what to do". Exit codes: 0 done, 1 failed, 2
the application or the command is not valid, 130 killed, 141 nobody reads its output any more (`| head`).

The commands about a running application find it by its URL, or in a registry of your applications on this
machine. That is `$RIDGELINE_HOME/applications`, else `$XDG_RUNTIME_DIR/ridgeline`, else
`~/.ridgeline/applications`. Their `--json` is what the web service answers.

Several commands have these, which are not repeated below:
"""
SHARED = 3
"""So many commands share a row of the head."""


def render() -> str:
    """The page's text."""
    group: Any = typer.main.get_command(app)
    commands = {name: group.get_command(None, name) for name in group.list_commands(None)}
    shown = {name: command for name, command in commands.items() if not command.hidden}
    inner = {
        f"{name} {last}".rstrip(): one
        for name, command in shown.items()
        for last, one in getattr(command, "commands", {"": command}).items()
    }
    counts = Counter(row for one in inner.values() for row in _rows_of(one).values())
    of_run = _rows_of(inner["run"]).values()
    shared = [row for row, count in counts.items() if count >= SHARED and row not in of_run]
    notes = Counter(_plain(one.epilog) for one in inner.values() if one.epilog)
    epilogs = [note for note, count in notes.items() if count >= SHARED]
    page, panel = HEAD + _list(shared), ""
    for note in epilogs:
        sharing = ", ".join(f"`{name}`" for name, one in inner.items() if _plain(one.epilog) == note)
        page += f"\nOf {sharing}: {note}\n"
    for name, command in shown.items():
        if command.rich_help_panel != panel:
            panel = command.rich_help_panel
            page += f"\n## {panel}\n"
        for last, one in getattr(command, "commands", {"": command}).items():
            full = f"{name} {last}".rstrip()
            words = " ".join(
                [full, *(each.metavar for each in one.params if each.param_type_name == "argument")]
            )
            text = _describe(one, shared, () if full == "run" else of_run, epilogs)
            page += f"\n### {words}\n\n{text}"
    return page


def _rows_of(command: Any) -> dict[str, str]:
    """A line for each argument and option of a command, by its name."""
    return {
        one.name: f"- `{one.metavar}`: {_plain(one.help)}"
        if one.param_type_name == "argument"
        else f"- `{_option(one)}`: {_plain(one.help)}{_also(one)}"
        for one in command.params
        if one.name != "help"
    }


def _list(rows: Collection[str]) -> str:
    return "\n" + "\n".join(rows) + "\n" if rows else ""


def _describe(
    command: Any, shared: Collection[str], of_run: Collection[str], epilogs: Collection[str]
) -> str:
    """A command without what is described elsewhere."""
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and one.name != "help"]
    text = f"{_plain(command.help)}\n"
    if command.epilog and _plain(command.epilog) not in epilogs:
        text += f"\n{_plain(command.epilog)}\n"
    own = _rows_of(command)
    rows = [row for one in arguments if (row := own[one.name]) not in shared and row not in of_run]
    panel = None
    for option in sorted(options, key=_place_of([option.rich_help_panel for option in options])):
        row = own[option.name]
        if row in shared or row in of_run:
            continue
        if option.rich_help_panel != panel:
            panel = option.rich_help_panel
            rows.append(f"\n**{panel}**\n")
        rows.append(row)
    if any(row in of_run for row in own.values()):
        text += "\nAlso what [run](#run-app) takes.\n"
    return text + _list(rows)


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
