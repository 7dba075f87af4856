"""How the command reports errors, and with which exit code it ends."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.highlighter import RegexHighlighter
from rich.padding import Padding
from rich.text import Text
from rich.theme import Theme

from ridgeline.api.errors import OperatorError, PackageError, RidgelineError, ValidationError, described
from ridgeline.api.support.tracebacks import users_frames
from ridgeline.cli.output import OUTPUT_GONE, Output, OutputGoneError

FAILED = 1
NOT_VALID = 2
AGAIN = 3
"""A run failed, and the same command may get further: a service manager starts it again."""
KILLED_BY = 128
DEBUG = "RIDGELINE_DEBUG"
_THEME = Theme({"ridgeline.name": "cyan"})


class CommandError(RidgelineError):
    """The command cannot be carried out as given.

    `details` are further lines, such as the end of a traceback.
    """

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details


class _Backticks(RegexHighlighter):
    base_style = "ridgeline."
    highlights = [r"(?P<name>`[^`\n]+`)"]  # noqa: RUF012  rich's way


_BACKTICKS = _Backticks()


def make_console() -> Console:
    """A console for standard error.

    On a terminal names in backticks are coloured; elsewhere lines are not wrapped.
    """
    console = Output(
        lambda: None, stderr=True, theme=_THEME, highlighter=_BACKTICKS, emoji=False, markup=False
    )
    console.soft_wrap = not console.is_terminal
    return console


@contextmanager
def reporting_errors(
    after: Callable[[], None] = lambda: None, code: Callable[[Exception], int] | None = None
) -> Iterator[None]:
    """Print an error of a command, call `after`, and exit with `code(error)`; default: `exit_code`.

    Nothing is printed if the reader of standard output has gone away: the exit code is 141.
    """
    try:
        yield
    except OutputGoneError:
        raise typer.Exit(OUTPUT_GONE) from None
    except RidgelineError as error:
        print_error(error, make_console())
        after()
        raise typer.Exit((code or exit_code)(error)) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:  # noqa: BLE001  printed with its traceback
        print_unexpected(error, make_console())
        after()
        raise typer.Exit((code or exit_code)(error)) from None


def exit_code(error: Exception) -> int:
    """2 if the user must change the application or the command, 1 if it failed."""
    return NOT_VALID if isinstance(error, (ValidationError, CommandError, PackageError)) else FAILED


def print_error(error: RidgelineError, console: Console) -> None:
    """Print an error in full."""
    if isinstance(error, ValidationError):
        _print_faults(error, console)
        return
    _print_message(str(error), console)
    details = ""
    if isinstance(error, CommandError):
        details = error.details
    elif isinstance(error, OperatorError):
        details = users_frames(error.failure.traceback)
    if details:
        console.print()
        _print_indented(Text(details.rstrip(), "dim"), console)


def print_unexpected(error: BaseException, console: Console) -> None:
    """Print an unexpected exception.

    The whole traceback is shown if the environment variable `RIDGELINE_DEBUG` is set.
    """
    from ridgeline.engine.process.hidden_modules import hint

    hidden = hint(error)
    _print_message(described(error) + (f"; {hidden}" if hidden else ""), console)
    for note in getattr(error, "__notes__", ()):
        _print_message(str(note), console, "note")
    if hidden and not os.environ.get(DEBUG):
        return
    if os.environ.get(DEBUG):
        console.print(Text("".join(traceback.format_exception(error)).rstrip(), "dim"))
    else:
        console.print(
            f"nobody expected this error; {DEBUG}=1 in the environment shows where it arises: please "
            "report that"
        )


def _print_faults(error: ValidationError, console: Console) -> None:
    count = len(error.faults)
    _print_message(
        f"application `{error.application}` is not valid; {count} fault{'s' if count != 1 else ''}:", console
    )
    for number, fault in enumerate(error.faults, 1):
        console.print()
        console.print(Text.assemble(f"{number:3}. ", (fault.where, "bold")))
        for text in (fault.what, fault.remedy):
            _print_indented(Text(text), console)


def _print_message(message: str, console: Console, what: str = "error") -> None:
    style = "bold red" if what == "error" else "bold"
    console.print(Text.assemble((f"{what}: ", style), _BACKTICKS(message)))


def _print_indented(text: Text, console: Console) -> None:
    """Five columns in; wrapped lines too where lines are wrapped."""
    if not text.style:
        _BACKTICKS.highlight(text)
    if console.soft_wrap:
        console.print(Text("\n").join(Text("     ") + line for line in text.split()))
    else:
        console.print(Padding(text, (0, 0, 0, 5)))
