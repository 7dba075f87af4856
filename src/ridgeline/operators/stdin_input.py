"""Read lines of standard input."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

from ridgeline.api.ports import OutputPort
from ridgeline.operators._staged_source import Line, StagedInput, StagedSource, Streams, encode


class StdinInput(StagedInput[Line]):
    r"""Emit the lines of the standard input of the command; finish at its end.

    Lines are written to the checkpoint as they are read: from then on each is processed once, also after a
    restart. Lines that the command has not read when it dies are lost, as a pipe cannot be read again.

    Example:
        >>> from ridgeline import Application
        >>> from ridgeline.operators import ConsoleOutput, StdinInput
        >>> app = Application("echo", window="100ms")
        >>> sink = app.read("lines", StdinInput()).write("shown", ConsoleOutput())
    """

    output = OutputPort(Line)

    def source(self) -> StagedSource:
        """The half that reads lines."""
        return StagedSource(_lines, encode, keeps=True)


def _lines(stop: threading.Event) -> Iterator[str]:
    """The lines of standard input, until it ends or the event is set."""
    streams = Streams()
    streams.add(sys.stdin.fileno())
    while streams and not stop.is_set():
        yield from streams.received()
