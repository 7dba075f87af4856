"""The network between a service and its clients: cut, silent, slow."""

import socket
import struct
import threading
import time

import pytest

from ridgeline.testing.services import ServiceError
from support.testing.echo import Echo
from support.waiting import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def _echo():
    with Echo() as echo:
        yield echo


@pytest.fixture
def echo(_echo):
    return _echo.recover()


def exchange(connection, sent):
    """What comes back of that many bytes."""
    sending = threading.Thread(target=connection.sendall, args=(sent,))
    sending.start()
    got = bytearray()
    while len(got) < len(sent):
        got += connection.recv(1 << 16)
    sending.join()
    return bytes(got)


def ended(connection):
    """Whether the other side has ended or reset the connection."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_all_bytes_pass_both_ways_in_order(echo):
    sent = bytes(range(256)) * 40_000
    with echo.connect() as connection:
        assert exchange(connection, sent) == sent


def test_many_connections_at_once(echo):
    connections = [echo.connect() for _ in range(100)]
    for number, connection in enumerate(connections):
        assert exchange(connection, b"%d" % number) == b"%d" % number
    for connection in connections:
        connection.close()


def test_connections_that_are_lost_in_the_middle_leave_others_alone(echo):
    for number in range(60):
        lost = echo.connect()
        lost.sendall(b"x" * 500_000)
        lost.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        lost.close()
        with echo.connect() as connection:
            connection.settimeout(PATIENCE_SECONDS)
            assert exchange(connection, b"%d" % number) == b"%d" % number


def test_the_end_of_one_direction_leaves_the_other_open(echo):
    with echo.connect() as connection:
        connection.sendall(b"last")
        connection.shutdown(socket.SHUT_WR)
        assert connection.makefile("rb").read() == b"last"


def test_a_cut_resets_connections_and_refuses_others(echo):
    with echo.connect() as connection:
        exchange(connection, b"before")
        echo.cut()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
        for _ in range(3):
            with pytest.raises(ConnectionRefusedError):
                echo.connect()
    echo.mend()
    with echo.connect() as connection:
        assert exchange(connection, b"after") == b"after"


def test_nothing_moves_on_a_hanging_network_and_nothing_is_lost(echo):
    with echo.connect() as old:
        exchange(old, b"before")
        echo.cut(hang=True)
        old.sendall(b"held")
        old.settimeout(0.2)
        with pytest.raises(TimeoutError):
            old.recv(1)
        with echo.connect() as new:
            new.sendall(b"new")
            new.settimeout(0.2)
            with pytest.raises(TimeoutError):
                new.recv(1)
            echo.mend()
            for connection, waited_for in ((old, b"held"), (new, b"new")):
                connection.settimeout(None)
                assert connection.recv(100) == waited_for


def test_a_hanging_network_can_be_cut_too(echo):
    with echo.connect() as connection:
        exchange(connection, b"before")
        echo.cut(hang=True)
        echo.cut()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
        with pytest.raises(ConnectionRefusedError):
            echo.connect()


def test_a_slow_network_takes_at_least_the_time_of_its_bytes(echo):
    echo.slow(100_000)
    with echo.connect() as connection:
        begin = time.monotonic()
        exchange(connection, b"x" * 50_000)
        assert time.monotonic() - begin > 0.4  # never less, however slow the machine
        echo.slow(None)
        exchange(connection, b"x" * 10_000_000)


def test_connections_end_with_the_server_and_come_back_with_it(echo):
    with echo.connect() as connection:
        exchange(connection, b"before")
        echo.kill()
        assert ended(connection)
        with echo.connect() as refused:
            assert ended(refused)
    echo.start()
    with echo.connect() as connection:
        assert exchange(connection, b"after") == b"after"


def test_without_a_proxy_the_network_cannot_be_cut():
    with Echo(proxy=False) as echo:
        with pytest.raises(ServiceError, match="no proxy"):
            echo.cut()
        with echo.connect() as connection:
            assert exchange(connection, b"direct") == b"direct"
