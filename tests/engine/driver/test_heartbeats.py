"""STRAM's half of heartbeats: what counts, what is refused, and that nothing ends it."""

import json
import os
import secrets
import socket
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline import SystemClock
from ridgeline.engine.driver.heartbeat_port import HeartbeatPort
from ridgeline.engine.driver.heartbeats import MAXIMUM_BYTES, Heartbeats
from ridgeline.engine.exchange.listening import Listen
from ridgeline.engine.exchange.network import STRAM, Peer
from ridgeline.engine.exchange.sockets import Sockets
from ridgeline.engine.process.heartbeat import encode
from ridgeline.engine.slot.messages import Ended
from ridgeline.engine.slot.messages import encode as encode_message
from ridgeline.engine.worker import heartbeat_line
from ridgeline.engine.worker.heartbeat_line import HeartbeatLine
from ridgeline.measure.encoding import to_dict
from ridgeline.measure.events import ContainerHeartbeat, MessagesRefused, RunningOperator, WindowCommitted
from ridgeline.testing import SteppingClock

CLOCK = SystemClock()
BEAT = ContainerHeartbeat(
    at=1.0,
    container=2,
    host="worker-1",
    pid=77,
    sent=1.0,
    window_id=5,
    attempt=1,
    began=0.5,
    operators=(RunningOperator(3, "running", 0.5, {"in": 4}, {"in": 6}, 1, {"out": 8}, work=(4.0, None)),),
    stack="in user code",
)


def data(beat=BEAT, sent=999.5):
    return encode(beat, lambda: sent)


class Taken:
    """Heartbeats that are taken, and the events that they lead to."""

    def __init__(self, clock):
        self.clock = clock
        self.events = []
        self.heartbeats = Heartbeats(self.events.append, clock)

    @property
    def beats(self):
        return [event for event in list(self.events) if isinstance(event, ContainerHeartbeat)]

    def refused(self):
        """The refusals that were reported, by reason."""
        found = {}
        for event in list(self.events):
            if isinstance(event, MessagesRefused):
                found[event.reason] = found.get(event.reason, 0) + event.count
        return found


@pytest.fixture
def taken():
    return Taken(SteppingClock())


def test_a_heartbeat_gets_the_time_of_its_receipt(taken):
    taken.heartbeats.take("slot 1", data())
    [beat] = taken.beats
    assert beat == replace(BEAT, at=taken.clock.wall(), sent=999.5)
    assert not any(taken.heartbeats.refused.values())


MALFORMED = [
    {"type": "ContainerHeartbeat"},
    [],
    to_dict(MessagesRefused(1.0, "late")),
    {**to_dict(BEAT), "pid": "77"},
    {**to_dict(BEAT), "pid": 10**30},
    {**to_dict(BEAT), "sent": float("nan")},
    {**to_dict(BEAT), "operators": [{"id": 1}]},
    json.dumps({**to_dict(BEAT), "sent": "?"}).replace('"?"', "1e999").encode(),
    b"",
    b"null",
    b"\xff\xfe",
    b'{"secret": ',
    b"[" * 100_000,
]


def test_malformed_messages_are_counted_and_dropped(taken):
    for message in MALFORMED:
        taken.clock.advance(1.0)
        taken.heartbeats.take(
            "slot 1", message if isinstance(message, bytes) else json.dumps(message).encode()
        )
    taken.heartbeats.close()
    assert taken.refused() == {"malformed": len(MALFORMED)}
    assert taken.beats == []


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_garbage_never_counts(garbage):
    taken = Taken(SteppingClock())
    taken.heartbeats.take("slot 1", garbage)
    taken.heartbeats.take("slot 1", data()[: len(garbage)] + garbage)
    assert taken.beats == []


def test_what_is_too_large_is_not_read(taken):
    taken.heartbeats.take("slot 1", b" " * (MAXIMUM_BYTES + 1))
    taken.heartbeats.all_read({})
    assert taken.refused() == {"too large": 1}


def test_a_storm_is_cut_and_reported_once_a_second(taken):
    for _ in range(3):
        for _ in range(1_000):
            taken.heartbeats.take("slot 1", data())
            taken.heartbeats.take("slot 1", b"?")
            taken.heartbeats.all_read({})
        taken.clock.advance(1.0)
    taken.heartbeats.close()
    assert len(taken.beats) == 3 * 10
    assert taken.refused() == {"too many": 3 * 1_980, "malformed": 3 * 10}
    assert len(taken.events) - len(taken.beats) <= 8


def test_a_short_interval_is_no_storm(taken):
    taken.heartbeats.expect(0.001)
    for _ in range(1_000):
        taken.heartbeats.take("slot 1", data())
    assert len(taken.beats) == 1_000


def test_what_comes_of_a_committed_window_only_reports_its_clock(taken):
    taken.heartbeats.follow(WindowCommitted(0.0, 5, 1, *[0.0] * 7))
    taken.heartbeats.follow(WindowCommitted(0.0, 3, 1, *[0.0] * 7))
    taken.heartbeats.take("slot 1", data())
    taken.heartbeats.take("slot 1", data(replace(BEAT, window_id=6)))
    taken.heartbeats.close()
    assert taken.refused() == {"late": 1}
    assert taken.beats[0] == ContainerHeartbeat(taken.clock.wall(), -1, "worker-1", 77, 999.5)
    assert (taken.beats[1].container, taken.beats[1].window_id) == (2, 6)


def test_what_a_network_refuses_is_reported(taken):
    taken.heartbeats.all_read({"unauthenticated": 0})
    taken.heartbeats.all_read({"unauthenticated": 2})
    taken.clock.advance(1.0)
    taken.heartbeats.all_read({"unauthenticated": 5})
    assert taken.refused() == {"unauthenticated": 5}


def test_workers_are_known_as_long_as_they_are_connected(taken):
    taken.heartbeats.take("slot 1", data())
    taken.clock.advance(3.0)
    [worker] = taken.heartbeats.workers()
    assert (worker.silent_seconds, worker.beat.pid) == (3.0, 77)
    taken.heartbeats.lost("slot 1")
    assert taken.heartbeats.workers() == []


def test_no_worker_is_called_silent_while_others_may_be_unread(taken):
    taken.heartbeats.take("slot 1", data())
    taken.clock.advance(30.0)
    assert taken.heartbeats.workers() == []
    taken.heartbeats.take("slot 1", data())
    taken.heartbeats.all_read({})
    assert [worker.silent_seconds for worker in taken.heartbeats.workers()] == [0.0]


def test_an_observer_that_raises_does_not_end_it():
    def observe(_event):
        raise RuntimeError

    heartbeats = Heartbeats(observe, CLOCK)
    heartbeats.take("slot 1", data())
    heartbeats.take("slot 1", b"?")
    heartbeats.all_read({})
    assert len(heartbeats.workers()) == 1


def test_stacks_of_strangers_are_not_asked_for(taken):
    host = socket.gethostname()
    assert taken.heartbeats.stack_of(host, os.getpid()) is None
    assert taken.heartbeats.stack_of("elsewhere", 1) is None
    taken.heartbeats.take("me", data(ContainerHeartbeat(0.0, -1, host, os.getpid(), 0.0)))
    # This process is no worker of Spark: the signal would end it.
    assert taken.heartbeats.stack_of(host, os.getpid()) is None


# The port for workers of jobs -------------------------------------------------------------------------------


class Port(Taken):
    """A port, and lines to it."""

    def __init__(self):
        super().__init__(CLOCK)
        secret = secrets.token_bytes(32)
        network = Sockets(Peer(STRAM, 3), secret, Listen(), CLOCK)
        self.port = HeartbeatPort(network, secret, self.heartbeats, 1.0)
        self.lines = []

    def line(self, **changes):
        self.lines.append(HeartbeatLine(replace(self.port.address, **changes), CLOCK))
        return self.lines[-1]

    def close(self):
        for line in self.lines:
            line.close()
        self.port.close()


@pytest.fixture
def port():
    port = Port()
    yield port
    port.close()


def test_workers_of_jobs_send_over_a_line(port, wait_until):
    lines = [port.line() for _ in range(2)]
    for line in lines:
        assert line.send(data)
    wait_until(lambda: len(port.heartbeats.workers()) == 2, "both workers")
    lines[0].close()
    wait_until(lambda: len(port.heartbeats.workers()) == 1, "one to be gone")
    assert lines[1].send(data)
    wait_until(lambda: len(port.beats) == 3, "the third heartbeat")
    assert port.refused() == {}


def test_without_the_secret_nothing_counts(port, wait_until):
    line = port.line(secret=bytes(32))
    with pytest.raises(ConnectionError):
        line.send(data)
    assert not line.send(data)  # it is left alone for a while
    wait_until(lambda: port.refused().get("unauthenticated"), "the refusal")
    assert port.beats == []
    assert "bytes(32)" not in repr(port.port.address)


def test_messages_of_slots_are_no_heartbeats_and_are_not_read(port, wait_until):
    network = Sockets(Peer(77), port.port.address.secret, Listen(unix=False), CLOCK)
    try:
        stram = Peer(STRAM, port.port.address.epoch)
        network.connect(stram, port.port.address.address)
        network.send(stram, *encode_message(Ended()))
        reasons = []
        while not reasons:
            reasons = [event for event in network.poll(1.0) if type(event).__name__ == "Lost"]
    finally:
        network.close(0.0)
    wait_until(lambda: port.refused() == {"malformed": 1}, "the refusal")


def test_a_line_is_made_again_after_stram_has_hung_up(port, wait_until):
    line = port.line()
    assert line.send(data)
    [peer] = wait_until(lambda: list(port.heartbeats._lasts), "the worker")
    port.port._network.hang_up(peer)

    def arrives():
        line.send(data)
        return len(port.beats) >= 2

    wait_until(arrives, "a heartbeat over a new line")


def test_close_ends_the_thread(port):
    assert port.port._thread in threading.enumerate()
    port.port.close()
    port.port.close()
    assert not port.port._thread.is_alive()
    with pytest.raises(ConnectionError):
        port.line().send(data)


def test_a_process_has_one_sender_for_each_address(port):
    try:
        assert heartbeat_line.sender_of(None, CLOCK) is None
        first = heartbeat_line.sender_of(port.port.address, CLOCK)
        assert heartbeat_line.sender_of(port.port.address, CLOCK) is first
        other = heartbeat_line.sender_of(replace(port.port.address, interval_seconds=9.0), CLOCK)
        assert other is not first
        assert first._stop.is_set()
        other.stop()
    finally:
        heartbeat_line._forget()


def test_a_forked_process_starts_its_own(port, wait_until):
    """In a child lives no thread of its parent, and no lock that such a thread held (OpenSSL's at first)."""
    script = """
import os, sys
from ridgeline.api.clock import SystemClock
from ridgeline.engine.worker.heartbeat_line import HeartbeatAddress, sender_of
address = HeartbeatAddress(sys.argv[1], int(sys.argv[2]), bytes.fromhex(sys.argv[3]), 60.0)
sender_of(address, SystemClock())
child = os.fork()
if child == 0:
    sender_of(address, SystemClock())
    sys.stdin.read()
    os._exit(0)
print(child, flush=True)
os.waitpid(child, 0)
"""
    address = port.port.address
    arguments = [address.address, str(address.epoch), address.secret.hex()]
    command = [sys.executable, "-c", script, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        child = int(process.stdout.readline())
        wait_until(lambda: {beat.pid for beat in port.beats} == {process.pid, child}, "both processes")
        process.stdin.close()
