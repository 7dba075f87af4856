"""Standard output and standard error, whose reader may go away: `ridgeline windows | head -3`."""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Callable, Iterable
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from ridgeline.api.support.masking import printable

OUTPUT_GONE = 141
"""Exit code of a command that could not print all: what shells say of a program that SIGPIPE has ended."""


class OutputGoneError(Exception):
    """Standard output has no reader any more: a command that only prints has nothing left to do."""


def _leave() -> None:
    raise OutputGoneError


class Output(Console):
    """A console that obeys no escape sequences in texts.

    Once its reader has gone away it calls `gone`, in the thread that prints, and prints nothing from then on.

    Where `gone` is not given, `print` raises OutputGoneError.
    """

    def __init__(self, gone: Callable[[], None] = _leave, **settings: Any) -> None:
        super().__init__(**settings)
        self._gone = gone

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments with control characters shown: rich's own are in control segments and styles."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """Rich calls this, and would end the thread that prints."""
        self.quiet = True
        discard(self.file)
        self._gone()


def write(text: str) -> None:
    """Print text at once, its control characters shown. Raises OutputGoneError."""
    try:
        print(printable(text), flush=True)  # noqa: T201  an answer, not a trace
    except BrokenPipeError:
        discard(sys.stdout)
        raise OutputGoneError from None


def answer(found: object, lines: Iterable[str], *, as_json: bool) -> None:
    """Print what was found: as JSON, or in lines for people."""
    write(json.dumps(found, indent=2) if as_json else "\n".join(lines))


def finish() -> None:
    """Write out what is left, before the interpreter does so and complains."""
    for file in (sys.stdout, sys.stderr):
        try:
            if file is not None:  # there is none if the program that called closed it
                file.flush()
        except BrokenPipeError:
            discard(file)


def unread() -> bool:
    """True if standard output is a pipe without a reader."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def discard(file: IO[str]) -> None:
    """Discard what is written to a file from now on, and what is in its buffer."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, file.fileno())
    os.close(nowhere)
