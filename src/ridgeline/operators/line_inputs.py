"""Read lines that come over TCP, or on standard input."""

from __future__ import annotations

import logging
import socket
import sys
import threading
from collections.abc import Iterator

from pydantic import Field

from ridgeline.api.ports import OutputPort
from ridgeline.operators._staged_source import Line, StagedInput, StagedSource, Streams, encode

_log = logging.getLogger(__name__)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_MOST_SENDERS = 256


class SocketInput(StagedInput[Line]):
    """Emit lines that come over TCP.

    It connects to `host` and `port`, and again with growing pauses when the connection ends. With
    `listen=True` others connect to it, 256 at once. Of more the one goes that has said nothing for longest.
    A line of more than 16 MiB comes in pieces.

    Lines are written to the checkpoint as they come: from then on each is processed once, also after a
    restart. A sender gets no answer, so what is under way when the driver dies is lost.

    Example:
        >>> from ridgeline import Application
        >>> from ridgeline.operators import ConsoleOutput, SocketInput
        >>> app = Application("echo", window="100ms")
        >>> sink = app.read("lines", SocketInput(port=4040, listen=True)).write("shown", ConsoleOutput())
    """

    output = OutputPort(Line)

    port: int = Field(ge=0, lt=65_536)
    host: str = "127.0.0.1"
    listen: bool = False

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse an end: it is not known which lines have come by then."""
        faults = super().property_faults()
        if self.until is not None:
            faults.append(("until", self.until, "cannot be: lines over TCP are unbounded"))
        return faults

    def source(self) -> StagedSource:
        """The half that gets lines."""
        pull = self._listened if self.listen else self._connected
        return StagedSource(pull, encode, keeps=True)

    def _connected(self, stop: threading.Event) -> Iterator[str]:
        """The lines that the other side sends, over one connection after the other."""
        pause = _FIRST_PAUSE
        while not stop.is_set():
            streams = Streams()
            try:
                streams.add(socket.create_connection((self.host, self.port), 10.0))
                pause = _FIRST_PAUSE
            except OSError as error:
                _log.warning("no connection to %s:%s: %s; it is tried again", self.host, self.port, error)
            while streams and not stop.is_set():
                yield from streams.received()
            yield from streams.end_all()
            stop.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _listened(self, stop: threading.Event) -> Iterator[str]:
        """The lines of all that connect. Raises OSError if the port is not free."""
        with socket.create_server((self.host, self.port)) as server:
            server.setblocking(False)  # noqa: FBT003
            streams = Streams(server)
            while not stop.is_set():
                try:
                    sender, _ = server.accept()
                    sender.setblocking(False)  # noqa: FBT003
                    streams.add(sender)
                except BlockingIOError:
                    pass
                except OSError as error:  # it is gone, or no descriptor is left
                    _log.warning("a sender was not let in: %s", error)
                    stop.wait(_FIRST_PAUSE)
                if len(streams) > _MOST_SENDERS:
                    yield from streams.end(streams.quietest)
                yield from streams.received()
            yield from streams.end_all()


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
