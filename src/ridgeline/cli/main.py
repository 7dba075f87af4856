"""The `ridgeline` command."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from ridgeline.cli.errors import reporting_errors
from ridgeline.cli.grouping import command, option
from ridgeline.cli.other_names import OTHER_NAMES
from ridgeline.cli.output import finish, write

_LISTED: Mapping[str, Sequence[tuple[str, str]]] = {
    "Write and run an application": (
        ("running.starting", "run"),
        ("running.upgrading", "upgrade"),
        ("validating", "validate"),
        ("specifications", "plan"),
        ("starting.commands", "init"),
        ("doctor", "doctor"),
        ("library", "library"),
        ("shell", "shell"),
    ),
    "Watch a running application": (
        ("applications.commands", "ps"),
        ("remote.commands", "status top page progress windows latency critical-path record-age metrics"),
        ("remote.commands", "regions"),
    ),
    "See what it is made of, its data, and what would help it": (
        ("remote.commands", "operators"),
        ("remote.logs", "logs"),
        ("remote.commands", "lines"),
        ("remote.advising", "keys advise"),
        ("remote.promises", "promises"),
        ("remote.querying", "query"),
        ("remote.recording", "record"),
    ),
    "Change, pause and end it": (
        ("remote.editing", "repartition set-operator-property set-operator-attribute"),
        ("remote.changing", "change changes pause resume"),
        ("applications.commands", "stop"),
        ("remote.inspecting", "kill-container"),
    ),
    "What a run has left, and who may do what": (
        ("remote.replay", "replay"),
        ("history", "history"),
        ("checkpoint", "checkpoint"),
        ("tokens", "token"),
    ),
}
"""By title, the modules of the commands, whose functions and groups are called as the commands."""
_PLACES = {
    name: (title, module)
    for title, places in _LISTED.items()
    for module, names in places
    for name in names.split()
}
_CONFIGURED = ("run", "upgrade", "validate", "plan")
"""Those that read configuration, and pass on options that they do not know."""
_DASHED = ("set-operator-property", "set-operator-attribute")
"""Those whose arguments may begin with a dash, as `-5` does."""


class _Commands(TyperGroup):
    """The commands, each imported when it is named: all of them take most of a second."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, as they are listed."""
        return [*_PLACES]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first word names, which may be that of Apex or of before."""
        return super().resolve_command(ctx, [*OTHER_NAMES.get(args[0], args[:1]), *args[1:]])

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands and cmd_name in _PLACES:
            self._add(cmd_name, *_PLACES[cmd_name])
        return super().get_command(ctx, cmd_name)

    def _add(self, name: str, title: str, module: str) -> None:
        """Import a command and add it, or its group, under a title of the help."""
        made = getattr(import_module(f"ridgeline.cli.{module}"), name.replace("-", "_"))
        settings: dict[str, Any] = {"rich_help_panel": title}
        if name in _CONFIGURED:
            from ridgeline.cli.configuration import CONFIGURED

            settings |= {**CONFIGURED, "epilog": getattr(made, "epilog", CONFIGURED["epilog"])}
        if name in _DASHED:
            settings["context_settings"] = {"ignore_unknown_options": True}
        one = typer.Typer(rich_markup_mode=self.rich_markup_mode)
        if isinstance(made, typer.Typer):
            one.add_typer(made, name=name, **settings)
        else:
            one.command(name, **settings)(command(made))
        self.commands = {**self.commands, **get_group(one).commands}


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
