"""Lines over TCP from senders that mean harm: neither memory nor descriptors are without a limit."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from ridgeline.operators import SocketInput, _staged_source
from ridgeline.operators._staged_source import Lines
from support.ports import free_port
from support.waiting import PATIENCE_SECONDS, wait_until


class Listening:
    """An input that listens; `lines` has what it has got."""

    def __init__(self) -> None:
        self.port, self.lines = free_port(), []
        self.stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        wait_until(self._is_up, "the port")

    def _run(self) -> None:
        for line in SocketInput(port=self.port, listen=True)._listened(self.stop):
            self.lines.append(line)

    def _is_up(self) -> bool:
        try:
            self.dial().close()
        except ConnectionRefusedError:
            return False
        return True

    def dial(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_SECONDS)

    def end(self) -> None:
        self.stop.set()
        self._thread.join(PATIENCE_SECONDS)


@pytest.fixture
def listening() -> Iterator[Listening]:
    found = Listening()
    yield found
    found.end()


def test_the_sender_that_has_said_nothing_for_longest_makes_room(listening: Listening) -> None:
    silent = listening.dial()
    others = [listening.dial() for _ in range(255)]
    for one in others:
        one.sendall(b"here\n")
    wait_until(lambda: len(listening.lines) == 255, "what they say")
    more = listening.dial()
    assert silent.recv(1) == b""
    for one in (*others, more):
        one.sendall(b"still\n")
    wait_until(lambda: listening.lines.count("still") == 256, "all but that one")
    for one in (silent, *others, more):
        one.close()


def test_a_line_that_never_ends_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_staged_source, "MOST_BYTES", 1000)
    lines = Lines()
    found = [line for _ in range(95) for line in lines.add(b"x" * 100)]
    assert list(map(len, found)) == [1000] * 9
    assert [*lines.add(b"\nnext\n")] == ["x" * 500, "next"]


def test_a_sender_that_breaks_off_harms_no_other(listening: Listening) -> None:
    for number in range(20):
        with listening.dial() as one:
            one.sendall(b"begun")
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        with listening.dial() as other:
            other.sendall(b"%d\n" % number)
    wait_until(lambda: listening.lines.count("19") == 1, "the last line")
    assert [line for line in listening.lines if line != "begun"] == list(map(str, range(20)))
