"""The network of real sockets: what is sent arrives, what breaks is said, nobody waits for anybody."""

import contextlib
import os
import resource
import socket
import stat
import tempfile
import threading
import uuid
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from ridgeline import RidgelineError, SystemClock
from ridgeline.engine.exchange import address
from ridgeline.engine.exchange.address import TlsWay, own_address, targets, ways_of
from ridgeline.engine.exchange.listening import Listen
from ridgeline.engine.exchange.network import Lost, Opened, Peer, Received
from ridgeline.engine.exchange.sockets import Sockets
from support.engine.wire import MASTER, TLS, UNIX, Hostile, Wire, frame
from support.waiting import PATIENCE_SECONDS

LARGE = bytes(range(256)) * (4 << 12)
"""4 MiB: more than the operating system takes at once."""


@pytest.fixture(params=["unix", "tls"])
def listen(request):
    return {"unix": UNIX, "tls": TLS}[request.param]


@pytest.fixture
def wire():
    wire = Wire()
    yield wire
    wire.close()


def test_both_ends_learn_who_the_other_is_and_frames_go_both_ways(wire, listen):
    master, slot = wire.pair(listen)
    assert slot.send(MASTER, 7, b"from the slot", [b"abc", memoryview(b""), bytearray(b"defgh")])
    assert master.send(slot.me, 8, b"from STRAM")
    wire.until(lambda: wire.received(master) and wire.received(slot), "the frames")

    assert (wire.opened(master), wire.opened(slot)) == ([Peer(0)], [MASTER])
    assert wire.received(master) == [(7, b"from the slot", [b"abc", b"", b"defgh"])]
    assert wire.received(slot) == [(8, b"from STRAM", [])]


def test_large_frames_cross_each_other(wire, listen):
    master, slot = wire.pair(listen)
    for number in range(3):
        slot.send(MASTER, number, b"up", [LARGE])
        master.send(slot.me, number, b"down", [LARGE, b"tail"])
    wire.until(lambda: len(wire.received(master)) == len(wire.received(slot)) == 3, "the frames")

    assert wire.received(master) == [(number, b"up", [LARGE]) for number in range(3)]
    assert wire.received(slot) == [(number, b"down", [LARGE, b"tail"]) for number in range(3)]
    assert (master.queued_bytes(slot.me), slot.queued_bytes(MASTER)) == (0, 0)


def test_another_thread_sends_while_nobody_polls(wire):
    master, slot = wire.pair()
    sender = threading.Thread(target=slot.send, args=(MASTER, 1, b"a beat in a long callback"))
    sender.start()
    sender.join()
    wire.until(lambda: wire.received(master), "the beat", master)  # the slot is in a callback: no poll

    assert wire.received(master) == [(1, b"a beat in a long callback", [])]


def test_what_another_thread_could_not_send_goes_out_while_the_polling_one_waits(wire):
    master, slot = wire.pair()
    waiting = threading.Event()
    polled = []

    def wait():
        waiting.set()
        while not any(isinstance(event, Received) for event in polled):
            polled.extend(slot.poll(60.0))

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait()
    slot.send(MASTER, 1, b"", [LARGE])  # more than the operating system takes
    wire.until(lambda: wire.received(master), "the frame", master)
    master.send(slot.me, 2, b"over")
    thread.join(PATIENCE_SECONDS)

    assert wire.received(master) == [(1, b"", [LARGE])]
    assert not thread.is_alive()


def test_wake_ends_a_poll_that_waits(wire):
    master = wire.make()
    thread = threading.Thread(target=lambda: wire.poll(master, 600.0))
    thread.start()
    master.wake()
    thread.join(PATIENCE_SECONDS)

    assert not thread.is_alive()
    assert wire.events[master] == []


def test_a_peer_that_does_not_read_holds_nobody_up(wire, listen):
    master, slot = wire.pair(listen)
    other = wire.make(Peer(1))
    other.connect(MASTER, master.address)
    wire.until(lambda: len(wire.opened(master)) == 2, "the other slot")
    for _ in range(5):
        master.send(slot.me, 1, b"", [LARGE])
    queued = master.queued_bytes(slot.me)
    for number in range(50):
        master.send(other.me, number, b"", [LARGE[:1000]])
        other.send(MASTER, number, b"")
        wire.until(
            lambda number=number: len(wire.received(other)) == len(wire.received(master)) == number + 1,
            "an answer",
            master,
            other,
        )

    assert queued > 2 * len(LARGE)
    assert master.queued_bytes(slot.me) > 2 * len(LARGE)
    wire.until(lambda: len(wire.received(slot)) == 5, "what was held up")
    assert master.queued_bytes(slot.me) == 0


def test_an_end_that_closes_is_lost_after_its_last_frame(wire, listen):
    master, slot = wire.pair(listen)
    for _ in range(3):
        slot.send(MASTER, 1, b"", [LARGE])
    thread = threading.Thread(target=slot.close, args=(60.0,))
    thread.start()
    wire.until(lambda: wire.lost(master), "the loss", master)
    thread.join()

    assert wire.received(master) == [(1, b"", [LARGE])] * 3
    assert wire.lost(master) == [(Peer(0), "closed")]
    assert not master.send(slot.me, 1, b"")
    assert master.queued_bytes(slot.me) == 0


def test_an_end_that_dies_within_a_frame_is_broken(wire):
    master = wire.make()
    slot = Hostile(wire, master, Peer(0)).open()
    slot.say(frame(1, b"whole") + frame(2, b"", LARGE)[:-1])
    slot.line.close()
    wire.until(lambda: wire.lost(master), "the loss")

    assert wire.received(master) == [(1, b"whole", [])]
    assert wire.lost(master) == [(Peer(0), "broken")]


def test_an_end_that_dies_while_it_is_sent_to_is_lost(wire, listen):
    master, slot = wire.pair(listen)
    slot.send(MASTER, 9, b"last words")
    master.send(slot.me, 1, b"", [LARGE])
    slot.close(0.0)
    wire.until(lambda: wire.lost(master), "the loss", master)

    assert [peer for peer, _ in wire.lost(master)] == [Peer(0)]
    assert not master.send(slot.me, 1, b"")


def test_hanging_up_is_silent_at_this_end_and_seen_at_the_other(wire, listen):
    master, slot = wire.pair(listen)
    slot.send(MASTER, 1, b"too late")
    master.hang_up(slot.me)
    master.hang_up(slot.me)
    wire.until(lambda: wire.lost(slot), "the loss")

    assert [type(event) for event in wire.events[master]] == [Opened]
    assert not master.send(slot.me, 1, b"")


def test_a_peer_may_come_again_and_its_older_connection_is_over(wire, listen):
    master, slot = wire.pair(listen)
    again = wire.make(Peer(0))
    again.connect(MASTER, master.address)
    wire.until(lambda: wire.lost(slot) and wire.opened(again), "the new connection")
    master.send(Peer(0), 1, b"to the new one")
    wire.until(lambda: wire.received(again), "the frame")

    kinds = [type(event) for event in wire.events[master]]
    assert kinds == [Opened, Lost, Opened]
    assert wire.lost(master) == [(Peer(0), "replaced")]
    assert wire.received(slot) == []


# Ways -------------------------------------------------------------------------------------------------------


def test_the_first_way_that_works_is_taken(wire, tmp_path):
    both = wire.make(listen=replace(TLS, unix=True))
    unix, tls = both.address.split(",")
    slot = wire.make(Peer(0))
    stale = tmp_path / "stale"
    stale.touch()
    slot.connect(MASTER, f"unix:/nowhere/s,unix:{stale},tls:host.invalid:1,tls:127.0.0.1:1,{tls}")
    wire.until(lambda: wire.opened(both), "the connection")

    assert unix.startswith("unix:")
    assert wire.opened(slot) == [MASTER]


@pytest.mark.parametrize(
    ("address", "reason", "detail"),
    [
        ("unix:/nowhere/s", "nobody listens", "nothing of `unix:/nowhere/s` is seen from this host"),
        ("tls:127.0.0.1:1", "nobody listens", "127.0.0.1:1: Connection refused"),
        ("tls:host.invalid:1", "unreachable", "tls:host.invalid:1: Name or service not known"),
    ],
)
def test_a_peer_that_cannot_be_reached_is_lost(wire, address, reason, detail):
    slot = wire.make(Peer(0))
    slot.connect(MASTER, address)
    slot.send(MASTER, 1, b"for nobody")
    wire.until(lambda: wire.lost(slot), "the loss")

    (event,) = wire.events[slot]
    assert event.reason == reason
    assert detail in event.detail
    assert not slot.send(MASTER, 1, b"")


@pytest.mark.parametrize(
    "address", ["", "unix:", "tls:host", "tls:host:0", "tcp:host:1", "tls:host:70000", ","]
)
def test_what_is_no_address_is_refused(wire, address):
    with pytest.raises(ValueError, match=r"is no address; got `.*`; give `unix:/path`"):
        wire.make(Peer(0)).connect(MASTER, address)


def test_another_peer_at_the_address_is_not_taken_for_the_one(wire, listen):
    other = wire.make(Peer(1, 0), listen)
    slot = wire.make(Peer(0))
    slot.connect(Peer(1, 1), other.address)
    wire.until(lambda: wire.lost(slot) and other.refused["unauthenticated"], "the loss")

    (event,) = wire.events[slot]
    assert (event.peer, event.reason) == (Peer(1, 1), "unauthenticated")
    assert "slot 1 (attempt 0) is at the address of slot 1 (attempt 1)" in event.detail
    assert wire.events[other] == []


def test_the_socket_lies_in_a_folder_of_its_owner_which_goes_with_it(tmp_path):
    network = Sockets(MASTER, Listen(folder=str(tmp_path)), SystemClock())
    (folder,) = tmp_path.iterdir()
    mode = stat.S_IMODE(folder.stat().st_mode)
    network.close()
    network.close()

    assert mode == 0o700
    assert list(tmp_path.iterdir()) == []


def test_in_a_folder_with_too_long_a_path_is_no_socket_but_there_is_one(wire, tmp_path):
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    made = wire.make(listen=replace(UNIX, folder=str(folder)))
    assert made.address.startswith("unix:/tmp/ridgeline-")
    assert list(folder.iterdir()) == []


def test_a_folder_that_is_not_there_is_an_error():
    missing = Path(tempfile.gettempdir(), uuid.uuid4().hex[:8])  # another folder is taken for a long name
    with pytest.raises(RidgelineError, match=r"no Unix socket can be made in .*; name another folder by"):
        Sockets(MASTER, Listen(folder=str(missing)), SystemClock())


def test_a_port_of_the_range_is_taken_and_a_full_range_is_an_error(wire, tmp_path):
    first = wire.make(listen=TLS)
    port = int(first.address.rpartition(":")[2])
    taken = replace(TLS, ports=(port, port))
    with pytest.raises(RidgelineError, match=rf"no port of {port} to {port} can be bound on `127.0.0.1`"):
        wire.make(listen=replace(taken, unix=True, folder=str(tmp_path)))
    assert list(tmp_path.iterdir()) == []  # nothing is left of what could be made
    second = wire.make(listen=replace(TLS, ports=(port, port + 50), advertised="a-name"))

    assert second.address.startswith("tls:a-name:")
    assert port < int(second.address.rpartition(":")[2]) <= port + 50


def test_descriptors_are_given_back(listen):
    def descriptors():
        """What is open, by its number in the kernel."""
        found = Counter()
        for path in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found[str(path.readlink())] += 1
        return found

    before = descriptors()
    mine = Wire()
    master, slot = mine.pair(listen)
    slot.connect(Peer(9), "tls:127.0.0.1:1")
    master.send(slot.me, 1, b"", [LARGE])
    mine.close()

    assert not descriptors() - before  # what earlier tests have left may go meanwhile


def test_a_crowd_at_the_door_is_waited_for(wire):
    master = wire.make()
    crowd = []
    slots = []
    with contextlib.ExitStack() as stack:
        path = master.address.removeprefix("unix:")
        for _ in range(2000):  # until the operating system lets nobody wait any more
            caller = stack.enter_context(socket.socket(socket.AF_UNIX))
            caller.setblocking(False)
            if caller.connect_ex(path):
                break
            crowd.append(caller)
        slots += [wire.make(Peer(number)) for number in range(3)]
        for slot in slots:
            slot.connect(MASTER, master.address)
            assert wire.poll(slot) == []
    wire.until(lambda: len(wire.opened(master)) == 3, "the slots")

    assert len(crowd) < 2000
    assert all(wire.opened(slot) == [MASTER] for slot in slots)


def test_without_descriptors_nobody_comes_in_until_there_are_some_again(wire):
    master = wire.make()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    line = wire.dial(master)
    highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    with contextlib.ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        with contextlib.suppress(OSError):
            while True:
                stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        wire.poll(master)
        assert master.refused["too many"] == 1
    slot = wire.make(Peer(0))
    slot.connect(MASTER, master.address)
    wire.until(lambda: wire.opened(master), "the slot")
    line.close()


UNKNOWN = "no-such-host.invalid"


def test_a_peer_whose_name_is_not_known_is_reached_by_its_address():
    wire = Wire()
    try:
        listen = replace(TLS, advertised=UNKNOWN, also="127.0.0.1")
        master, slot = wire.make(listen=listen), wire.make(Peer(0))
        assert [way.host for way in ways_of(master.address)] == [UNKNOWN, "127.0.0.1"]
        slot.connect(MASTER, master.address)
        wire.until(lambda: wire.opened(master) and wire.opened(slot), "the connection")
    finally:
        wire.close()


def test_what_is_bound_to_all_addresses_names_none_of_them():
    wire = Wire()
    try:
        made = wire.make(listen=replace(TLS, host="0.0.0.0", advertised="localhost"))
        assert [way.host for way in ways_of(made.address)] == ["localhost"]
    finally:
        wire.close()


def test_the_address_for_others_is_the_one_that_reaches_them():
    assert own_address(TlsWay("127.0.0.1", 4040)) == "127.0.0.1"
    assert own_address(TlsWay(UNKNOWN, 4040)) is None


def test_a_name_that_is_not_known_any_more_stands_for_what_it_was(monkeypatch):
    found = targets(TlsWay("localhost", 4040))
    assert found
    monkeypatch.setitem(address._known, UNKNOWN, address._known["localhost"])
    assert targets(TlsWay(UNKNOWN, 4040)) == found
    with pytest.raises(OSError, match=r"not known|resolution|not found"):
        targets(TlsWay("another-host.invalid", 4040))
