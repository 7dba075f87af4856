"""The commands of single edits, such as `ridgeline repartition`: made of functions of the plan."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Annotated, Any

import typer

from ridgeline.api.errors import ChangeError
from ridgeline.cli import completing
from ridgeline.cli.errors import CommandError
from ridgeline.cli.grouping import command
from ridgeline.cli.remote.changing import DryRun
from ridgeline.cli.remote.options import Change
from ridgeline.plan.change.commands import COMMANDS, Word
from ridgeline.plan.edits import Edit, edit_to_json


def add_edit_commands(app: typer.Typer, panel: str) -> None:
    """Add the commands to an app, under a title of its help."""
    for make in COMMANDS:
        words = _words_of(make)
        dashed = any(word.dashed for _, _, word in words)
        app.command(rich_help_panel=panel, context_settings={"ignore_unknown_options": dashed})(
            command(_command_of(make, words))
        )


_Words = list[tuple[inspect.Parameter, Any, Word]]
"""The parameters of a command, each with its type and how it is shown."""


def _words_of(make: Callable[..., Edit]) -> _Words:
    hints = typing.get_type_hints(make, include_extras=True)
    parameters = inspect.signature(make).parameters.values()
    return [(one, *typing.get_args(hints[one.name])) for one in parameters]


def _command_of(make: Callable[..., Edit], words: _Words) -> Callable[..., None]:
    """A command that asks a running application for the edit that `make` makes of its words."""

    def run(remote: Change, *, dry_run: bool, **given: Any) -> None:
        try:
            edit = make(**given)
        except ChangeError as error:
            raise CommandError(str(error)) from None
        remote.sender().change([edit_to_json(edit)], remote.note, dry_run=dry_run)

    hints = {one.name: Annotated[kind, _shown(one.name, word)] for one, kind, word in words}
    last = inspect.Parameter("dry_run", inspect.Parameter.KEYWORD_ONLY, default=False)
    first = inspect.Parameter("remote", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    own = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one, _, _ in words]
    made: Any = run
    made.__name__, made.__doc__ = make.__name__, make.__doc__
    made.__annotations__ = {"remote": Change, **hints, "dry_run": DryRun}
    made.__signature__ = inspect.Signature([first, *own, last])
    return run


def _shown(name: str, word: Word) -> Any:
    """A word as typer takes it."""
    values = completing.of(word.metavar)
    if word.option:
        return typer.Option(
            f"--{name}", metavar=word.metavar, help=word.help, show_default=False, autocompletion=values
        )
    return typer.Argument(
        metavar=word.metavar, help=word.help, min=word.minimum, show_default=False, autocompletion=values
    )
