"""Read lines that come over TCP."""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
from collections.abc import Iterator

from pydantic import Field

from ridgeline.api.ports import OutputPort
from ridgeline.connect.partitioned_input import PartitionedInput
from ridgeline.operators.staged._lines import Line, Lines, encode
from ridgeline.operators.staged._staged_source import StagedReader, StagedSource

_log = logging.getLogger(__name__)
_CHUNK_BYTES = 65_536
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


class SocketInput(PartitionedInput[Line]):
    """Emit lines that come over TCP.

    It connects to `host` and `port`, and again with growing pauses when the connection ends. With
    `listen=True` others connect to it, any number at once.

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

    def source(self) -> StagedSource:
        """The half that gets lines."""
        pull = self._listened if self.listen else self._connected
        return StagedSource(pull, encode, keeps=True)

    def reader(self) -> StagedReader:
        """The half that reads them in containers."""
        return StagedReader()

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
            try:
                while not stop.is_set():
                    for key, _ in selector.select(0.1):
                        if key.fileobj is server:
                            sender, _ = server.accept()
                            selector.register(sender, selectors.EVENT_READ, Lines())
                        else:
                            yield from _received(selector, key)
            finally:
                for key in [*selector.get_map().values()]:
                    if isinstance(key.fileobj, socket.socket):
                        key.fileobj.close()


def _received(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> Iterator[str]:
    """The lines that a sender has sent; it is let go once it has ended."""
    sender, lines = key.fileobj, key.data
    assert isinstance(sender, socket.socket)  # noqa: S101  nothing else is registered
    data = b""
    with contextlib.suppress(OSError):  # a sender that is gone
        data = sender.recv(_CHUNK_BYTES)
    if data:
        yield from lines.add(data)
        return
    selector.unregister(sender)
    sender.close()
    yield from lines.rest()
