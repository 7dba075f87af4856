"""Attacks on a network's port: nothing gets in, nothing holds it up, and each is counted by its reason."""

import contextlib
import socket
import ssl
import struct
from dataclasses import replace

import pytest

from ridgeline.engine.exchange.connection import hello
from ridgeline.engine.exchange.network import Peer
from ridgeline.engine.exchange.tls import Certificate
from ridgeline.testing import SteppingClock
from support.engine.between import Between
from support.engine.certificates import certificate_and_key
from support.engine.wire import MASTER, TLS, UNIX, Hostile, Wire, frame

HEADER = struct.Struct("<4sHxxQ")
OTHERS = Certificate(*certificate_and_key())


@pytest.fixture
def wire():
    wire = Wire()
    yield wire
    wire.close()


def hung_up(wire, network, line):
    """Wait until the network has closed this connection; what it had said before."""
    line.setblocking(False)
    said = b""

    def over():
        nonlocal said
        try:
            data = line.recv(1 << 16)
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
        said += data
        return not data

    wire.until(over, "the end of the connection", network)
    line.close()
    return said


def serves(wire, master, number=77):
    """A slot of the application still gets in and is served."""
    slot = wire.make(Peer(number))
    slot.connect(master.me, master.address)
    slot.send(master.me, 1, b"still there?")
    before = len(wire.received(master))
    wire.until(lambda: len(wire.received(master)) > before, "a slot that is served", master, slot)
    slot.close(0.0)
    return True


@pytest.mark.parametrize(
    ("listen", "reason"), [(UNIX, "malformed"), (TLS, "unauthenticated")], ids=["unix", "tls"]
)
@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(600),
        b"\0" * 100_000,
        b"RIDGELIN" + b"\xff" * 100,
        frame(1, b"without a hello"),
    ],
)
def test_garbage_is_refused(wire, listen, reason, data):
    master = wire.make(listen=listen)
    line = wire.dial(master)
    line.setblocking(False)
    line.send(data)
    said = hung_up(wire, master, line)

    assert not said or listen is TLS  # an alert
    assert master.refused[reason] == 1
    assert wire.events[master] == []
    assert serves(wire, master)


@pytest.mark.guide("002", "Security")
@pytest.mark.parametrize("certificate", [None, OTHERS], ids=["none", "another"])
def test_without_the_certificate_nobody_gets_in_or_learns_anything(wire, certificate):
    master, stranger = wire.make(listen=TLS), wire.make(Peer(0), replace(UNIX, certificate=certificate))
    stranger.connect(MASTER, master.address)
    stranger.send(MASTER, 1, b"what only the real one may read")
    between = Between(wire, master.address, certificate or OTHERS)  # it takes the certificate of STRAM
    slot = wire.make(Peer(1))
    slot.connect(MASTER, between.address)
    slot.send(MASTER, 1, b"nobody else's business")
    wire.until(lambda: between.pass_on() and wire.lost(slot) and wire.lost(stranger), "both to refuse")
    wire.until(lambda: master.refused["unauthenticated"], "STRAM to refuse", master)

    assert wire.lost(stranger) == [(MASTER, "unauthenticated")]
    assert wire.lost(slot) == [(MASTER, "unauthenticated")]
    assert wire.events[master] == []
    assert b"nobody else's" not in between.passed
    between.close()


def test_who_takes_any_certificate_and_shows_none_is_refused(wire):
    master = wire.make(listen=TLS)
    between = Between(wire, master.address, OTHERS)
    line = socket.create_connection(("127.0.0.1", int(between.address.rpartition(":")[2])))
    line = ssl._create_unverified_context().wrap_socket(line, do_handshake_on_connect=False)
    line.setblocking(False)
    with contextlib.suppress(ssl.SSLWantReadError):
        line.do_handshake()
    wire.until(lambda: between.pass_on() and master.refused["unauthenticated"], "STRAM to refuse", master)
    line.close()
    between.close()

    assert wire.events[master] == []


def test_who_says_nothing_or_dribbles_is_let_wait_only_so_long(wire):
    clock = SteppingClock()
    master = wire.make(clock=clock, hello_seconds=10.0)
    silent, slow = wire.dial(master), wire.dial(master)
    for number in range(11):
        slow.sendall(hello(Peer(0), MASTER)[number : number + 1])
        wire.poll(master)
        assert not any(master.refused.values())
        clock.advance(0.9)
    for _ in range(5):
        wire.poll(master)
        clock.advance(0.6)
    hung_up(wire, master, silent)
    hung_up(wire, master, slow)

    assert master.refused["late"] == 2
    assert wire.events[master] == []


def test_who_has_said_all_is_not_late_while_this_end_does_not_poll(wire):
    clock = SteppingClock()
    master = wire.make(clock=clock, hello_seconds=10.0)
    slot = Hostile(wire, master, Peer(0))
    slot.say(slot.hello[:9])
    clock.advance(1000.0)  # in a callback
    wire.poll(master)
    clock.advance(1000.0)
    slot.say(slot.hello[9:])
    wire.until(lambda: wire.opened(master), "the slot", master)

    assert not any(master.refused.values())


def test_who_hangs_up_before_the_hello_or_calls_another_is_counted(wire):
    master = wire.make()
    for said in (b"", hello(Peer(0), MASTER)[:20], hello(Peer(0), Peer(1))):
        line = wire.dial(master)
        line.sendall(said)
        wire.poll(master)
        line.close()
    wire.until(lambda: sum(master.refused.values()) == 3, "the count", master)

    assert master.refused["unauthenticated"] == 3
    assert wire.events[master] == []


@pytest.mark.parametrize("half", [socket.SHUT_WR, socket.SHUT_RD])
def test_who_closes_one_half_is_not_kept(wire, half):
    master = wire.make()
    slot = Hostile(wire, master, Peer(0)).open()
    slot.line.shutdown(half)
    for _ in range(3):
        master.send(Peer(0), 1, b"", [bytes(1 << 20)])
    wire.until(lambda: wire.lost(master), "the loss", master)

    assert master.queued_bytes(Peer(0)) == 0
    assert serves(wire, master)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"x" * 100, "malformed"),
        (HEADER.pack(b"RLF1", 1, 1 << 50), "too large"),
        (HEADER.pack(b"RLF1", 1, (1 << 20) + 1), "too large"),
        (HEADER.pack(b"RLF1", 1, 16) + struct.pack("<QQ", 1 << 60, 0), "malformed"),
        (HEADER.pack(b"RLF1", 1, 16) + struct.pack("<QQ", 1, 1 << 60), "malformed"),
    ],
)
def test_a_peer_that_sends_what_is_no_frame_is_lost(wire, data, reason):
    master = wire.make(frame_bytes=1 << 20)
    slot = Hostile(wire, master, Peer(0)).open()
    slot.say(frame(5, b"good") + data)
    hung_up(wire, master, slot.line)

    assert wire.received(master) == [(5, b"good", [])]
    assert wire.lost(master) == [(Peer(0), reason)]
    assert master.refused[reason] == 1
    assert serves(wire, master)


def test_hundreds_of_strangers_keep_nobody_out(wire):
    master = wire.make(strangers=40)
    lines = []
    for _ in range(300):
        lines.append(wire.dial(master))
        wire.poll(master)
        if len(lines) > 100:
            lines.pop(0).close()
    assert serves(wire, master)
    for line in lines:
        line.close()

    wire.until(lambda: sum(master.refused.values()) >= 260, "all others to be refused", master)
    assert [peer for peer in wire.opened(master) if peer != Peer(77)] == []


def test_strangers_do_not_drive_out_who_has_proved_itself(wire):
    master = wire.make(strangers=5)
    slot = Hostile(wire, master, Peer(0)).open()
    lines = []
    for _ in range(50):
        lines.append(wire.dial(master))
        wire.poll(master)
    slot.say(frame(1, b"still here"))
    wire.until(lambda: wire.received(master), "the frame", master)
    wire.until(lambda: master.refused["too many"] == 45, "the others to make room", master)
    for line in lines:
        line.close()

    assert wire.lost(master) == []


def test_who_comes_again_and_again_is_let_in_now_and_then(wire):
    clock = SteppingClock()
    master = wire.make(clock=clock)
    lines = []
    for _ in range(100):
        lines.append(wire.dial(master))
        lines[-1].sendall(b"GET / HTTP/1.1")
    counts = []
    for _ in range(6):
        for _ in range(50):
            wire.poll(master)
        counts.append(master.refused["malformed"])
        clock.advance(0.1)
    assert 10 <= counts[0] <= 32
    assert all(10 <= counts[number] - counts[number - 1] <= 32 for number in (1, 2))
    wire.until(lambda: clock.advance(0.01) or master.refused["malformed"] == 100, "all of them", master)
    clock.advance(0.1)
    assert serves(wire, master)
    for line in lines:
        line.close()


def test_strangers_use_no_more_memory_than_their_number(wire):
    """A stranger that sends without end is cut off at its first bytes, whatever it says of its size."""
    master = wire.make()
    line = wire.dial(master)
    line.setblocking(False)
    sent = 0

    def flood():
        nonlocal sent
        try:
            sent += line.send(b"RIDGELIN" + bytes(1 << 16))
        except BlockingIOError:
            return False
        except OSError:
            return True
        return False

    wire.until(flood, "the end of it", master)
    line.close()

    assert sent < 1 << 24
    assert master.refused["malformed"] == 1


# TLS --------------------------------------------------------------------------------------------------------


@pytest.mark.guide("002", "RPC Protocol")
def test_what_goes_by_tls_cannot_be_read_on_the_way_nor_said_again(wire):
    master = wire.make(listen=TLS)
    slot = wire.make(Peer(0))
    between = Between(wire, master.address)
    slot.connect(MASTER, between.address)
    slot.send(MASTER, 1, b"nobody else's business")
    wire.until(lambda: between.pass_on() and wire.received(master), "the frame")
    line = wire.dial(master)
    line.sendall(between.said)
    hung_up(wire, master, line)

    assert wire.received(master) == [(1, b"nobody else's business", [])]
    assert b"nobody else's" not in between.passed
    assert len(between.passed) > 100
    assert master.refused["unauthenticated"] == 1
    between.close()
