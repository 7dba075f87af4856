"""Read lines of standard input."""

from __future__ import annotations

import os
import selectors
import sys
import threading
from collections.abc import Iterator

from ridgeline.api.ports import OutputPort
from ridgeline.operators.staged._staged_source import Line, Lines, StagedInput, StagedSource, encode

_CHUNK_BYTES = 65_536


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
    lines = Lines()
    descriptor = sys.stdin.fileno()
    with selectors.DefaultSelector() as selector:
        try:
            selector.register(descriptor, selectors.EVENT_READ)
            waits = True
        except PermissionError:  # a file is always ready
            waits = False
        while not stop.is_set():
            if waits and not selector.select(0.1):
                continue
            data = os.read(descriptor, _CHUNK_BYTES)
            if not data:
                yield from lines.rest()
                return
            yield from lines.add(data)
