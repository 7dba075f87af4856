"""Standard output and standard error, whose reader may go away: `ridgeline windows | head -3`."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from typing import IO, Any

from rich.console import Console

OUTPUT_GONE = 141
"""Exit code of a command that could not print all: what shells say of a program that SIGPIPE has ended."""


class OutputGoneError(Exception):
    """Nobody reads standard output any more, so there is nothing left to do for a command that only prints."""


def _leave() -> None:
    raise OutputGoneError


class Output(Console):
    """A console that calls `gone` once its reader has gone away, in the thread that prints, and prints nothing from then on.

    Where `gone` is not given, `print` raises OutputGoneError.
    """

    def __init__(self, gone: Callable[[], None] = _leave, **settings: Any) -> None:
        super().__init__(**settings)
        self._gone = gone

    def on_broken_pipe(self) -> None:
        """Rich calls this, and would end the thread that prints."""
        self.quiet = True
        discard(self.file)
        self._gone()


def write(text: str) -> None:
    """Print text as it is, at once. Raises OutputGoneError."""
    try:
        print(text, flush=True)  # noqa: T201  an answer, not a trace
    except BrokenPipeError:
        discard(sys.stdout)
        raise OutputGoneError from None


def finish() -> None:
    """Write out what is left, before the interpreter does so and complains."""
    for file in (sys.stdout, sys.stderr):
        try:
            if file is not None:  # there is none if the program that called closed it
                file.flush()
        except BrokenPipeError:
            discard(file)


def unread() -> bool:
    """True if standard output is a pipe that nobody reads any more."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def discard(file: IO[str]) -> None:
    """Let what is written to a file go nowhere, also what waits in its buffer."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, file.fileno())
    os.close(nowhere)
