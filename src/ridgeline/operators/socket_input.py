"""Read lines that come over TCP."""

from __future__ import annotations

import logging
import selectors
import socket
import threading
from collections.abc import Iterator
from typing import Any

from pydantic import Field

from ridgeline.api.ports import OutputPort
from ridgeline.operators.staged._staged_source import Line, Lines, StagedInput, StagedSource, encode

_log = logging.getLogger(__name__)
_CHUNK_BYTES = 65_536
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
            lines = Lines()
            try:
                with socket.create_connection((self.host, self.port), 10.0) as other:
                    pause = _FIRST_PAUSE
                    other.settimeout(0.1)
                    while not stop.is_set():
                        try:
                            data = other.recv(_CHUNK_BYTES)
                        except TimeoutError:
                            continue
                        if not data:
                            break
                        yield from lines.add(data)
            except OSError as error:
                _log.warning("no connection to %s:%s: %s; it is tried again", self.host, self.port, error)
            yield from lines.rest()
            stop.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _listened(self, stop: threading.Event) -> Iterator[str]:
        """The lines of all that connect. Raises OSError if the port is not free."""
        with (
            socket.create_server((self.host, self.port)) as server,
            selectors.DefaultSelector() as selector,
        ):
            selector.register(server, selectors.EVENT_READ)
            senders = _Senders(selector)
            try:
                while not stop.is_set():
                    for key, _ in selector.select(0.1):
                        if key.fileobj is not server:
                            yield from senders.received(key.fileobj)
                            continue
                        try:
                            sender, _ = server.accept()
                        except OSError as error:  # it is gone, or no descriptor is left
                            _log.warning("a sender was not let in: %s", error)
                            stop.wait(_FIRST_PAUSE)
                            continue
                        yield from senders.add(sender)
            finally:
                senders.close()


class _Senders:
    """All that have connected, by the time of what they said last."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._lines: dict[Any, Lines] = {}

    def add(self, sender: socket.socket) -> Iterator[str]:
        """Read from one more; yields the last line of the one that has to go, if there are too many."""
        while len(self._lines) >= _MOST_SENDERS:
            yield from self._end(next(iter(self._lines)))
        sender.setblocking(False)  # noqa: FBT003
        self._lines[sender] = Lines()
        self._selector.register(sender, selectors.EVENT_READ)

    def received(self, sender: Any) -> Iterator[str]:
        """The lines that a sender has sent; it is let go once it has ended."""
        if sender not in self._lines:  # it had to go meanwhile
            return
        data = b""
        try:
            data = sender.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:  # it is gone
            pass
        if not data:
            yield from self._end(sender)
            return
        lines = self._lines[sender] = self._lines.pop(sender)
        yield from lines.add(data)

    def _end(self, sender: Any) -> Iterator[str]:
        """Let a sender go; its last line, if that has no end."""
        lines = self._lines.pop(sender)
        self._selector.unregister(sender)
        sender.close()
        yield from lines.rest()

    def close(self) -> None:
        """Let all go."""
        for sender in self._lines:
            sender.close()
