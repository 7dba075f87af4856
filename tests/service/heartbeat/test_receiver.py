"""The heartbeat port: what counts, what is refused, and that nothing ends it."""

import contextlib
import json
import os
import socket
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline.engine.worker.heartbeat import HEADER, HeartbeatAddress, encode
from ridgeline.measure.encoding import to_dict
from ridgeline.measure.events import ContainerHeartbeat, HeartbeatRejected, RunningOperator, WindowCommitted
from ridgeline.service.heartbeat import receiver as receiver_module
from ridgeline.service.heartbeat.receiver import HeartbeatReceiver

NOW = 1000.0
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


class Port:
    """A receiver and what it reported."""

    def __init__(self, observe=None, **limits):
        self.events = []
        self.receiver = HeartbeatReceiver(observe or self.events.append, lambda: NOW, **limits)

    def connect(self):
        return socket.create_connection(self.receiver.address, timeout=30)

    def frame(self, beat=BEAT, secret=None, sent=999.5):
        return encode(beat, self.receiver.secret if secret is None else secret, lambda: sent)

    @property
    def beats(self):
        return [event for event in list(self.events) if isinstance(event, ContainerHeartbeat)]

    def rejected(self):
        """The refusals that were reported, by reason."""
        found = {}
        for event in list(self.events):
            if isinstance(event, HeartbeatRejected):
                found[event.reason] = found.get(event.reason, 0) + event.count
        return found


@pytest.fixture
def open_port():
    with contextlib.ExitStack() as stack:

        def make(**limits):
            port = Port(**limits)
            stack.callback(port.receiver.close)
            return port

        yield make


def framed(message):
    body = json.dumps(message).encode() if not isinstance(message, bytes) else message
    return HEADER.pack(len(body)) + body


def is_hung_up(line):
    """Blocks until the other end closes."""
    try:
        return line.recv(1) == b""
    except ConnectionError:
        return True


def test_a_heartbeat_arrives_with_the_time_of_its_receipt(open_port, wait_until):
    port = open_port()
    with port.connect() as line:
        line.sendall(port.frame())
        wait_until(lambda: port.beats, "the heartbeat")

    (beat,) = port.beats
    assert (beat.at, beat.sent) == (NOW, 999.5)
    assert beat == ContainerHeartbeat(
        NOW, 2, "worker-1", 77, 999.5, 5, 1, 0.5, BEAT.operators, "in user code"
    )
    assert not any(port.receiver.rejected.values())


def test_a_connection_carries_many_heartbeats_in_any_pieces(open_port, wait_until):
    port = open_port()
    data = b"".join(port.frame(sent=float(number)) for number in range(20))
    with port.connect() as line:
        for start in range(0, len(data), 97):
            line.sendall(data[start : start + 97])
        wait_until(lambda: len(port.beats) == 20, "twenty heartbeats")

    assert [beat.sent for beat in port.beats] == [float(number) for number in range(20)]


@pytest.mark.parametrize("secret", ["", "wrong", "\ud800", "é" * 64])
def test_without_the_secret_nothing_counts(open_port, wait_until, secret):
    port = open_port()
    with port.connect() as line:
        line.sendall(port.frame(secret=secret))
        assert is_hung_up(line)
    wait_until(port.rejected, "the refusal")

    assert port.rejected() == {"unauthenticated": 1}
    assert port.receiver.rejected["unauthenticated"] == 1
    assert port.beats == []
    (event,) = port.events
    assert event.at == NOW
    assert event.peer.startswith("127.0.0.1:")


def messages(secret):
    """Messages with the secret that are no heartbeat."""
    beat = to_dict(BEAT)
    return [
        {"secret": secret},
        {"secret": secret, "version": 1, "heartbeat": []},
        {"secret": secret, "version": 2, "heartbeat": beat},
        {"secret": secret, "version": 1, "heartbeat": to_dict(HeartbeatRejected(1.0, "late"))},
        {"secret": secret, "version": 1, "heartbeat": {**beat, "pid": "77"}},
        {"secret": secret, "version": 1, "heartbeat": {**beat, "pid": 10**30}},
        {"secret": secret, "version": 1, "heartbeat": {**beat, "sent": float("nan")}},
        {"secret": secret, "version": 1, "heartbeat": {**beat, "operators": [{"id": 1}]}},
        json.dumps({"secret": secret, "version": 1, "heartbeat": {**beat, "sent": "?"}})
        .replace('"?"', "1e999")
        .encode(),
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"secret": ',
        b"[" * 100_000,
    ]


def test_malformed_messages(open_port, wait_until):
    port = open_port()
    bad = messages(port.receiver.secret)
    for message in bad:
        with port.connect() as line:
            line.sendall(framed(message))
            assert is_hung_up(line), message
    wait_until(lambda: sum(port.rejected().values()) == len(bad), "all refusals")

    assert port.rejected() == {"malformed": len(bad) - 1, "unauthenticated": 1}  # {} has no secret
    assert port.beats == []


def test_what_is_too_large_is_refused_by_its_header(open_port, wait_until):
    port = open_port(maximum_bytes=1000)
    with port.connect() as line:
        line.sendall(HEADER.pack(1001))
        assert is_hung_up(line)
    wait_until(port.rejected, "the refusal")

    assert port.rejected() == {"too large": 1}


def test_what_comes_of_a_committed_window_only_reports_its_clock(open_port, wait_until):
    port = open_port()
    port.receiver.follow(WindowCommitted(0.0, 5, 1, *[0.0] * 7))
    port.receiver.committed(3)
    with port.connect() as line:
        line.sendall(port.frame() + port.frame(ContainerHeartbeat(0.0, 2, "worker-1", 77, 0.0, window_id=6)))
        wait_until(lambda: len(port.beats) == 2 and port.rejected(), "both heartbeats")

    assert port.rejected() == {"late": 1}
    assert port.beats[0] == ContainerHeartbeat(NOW, -1, "worker-1", 77, 999.5)
    assert (port.beats[1].container, port.beats[1].window_id) == (2, 6)


def test_half_a_message_is_waited_for_but_not_for_long(open_port, wait_until):
    port = open_port(message_seconds=0.2)
    with port.connect() as slow, port.connect() as silent, port.connect() as cut:
        slow.sendall(port.frame()[:50])
        cut.sendall(port.frame()[:50])
        cut.shutdown(socket.SHUT_WR)
        assert is_hung_up(cut)
        assert is_hung_up(slow)
        assert is_hung_up(silent)
    wait_until(lambda: sum(port.rejected().values()) == 3, "all refusals")

    assert port.rejected() == {"malformed": 2, "unauthenticated": 1}


def test_a_message_that_trickles_in_does_not_live_longer(open_port):
    port = open_port(message_seconds=0.2)
    with port.connect() as line:
        line.sendall(HEADER.pack(1 << 20))
        line.settimeout(0.01)
        for _ in range(6000):
            try:
                line.sendall(b"x")
                if line.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        else:
            pytest.fail("the connection lives on")


def test_an_idle_worker_stays_connected_for_a_while(open_port, wait_until):
    port = open_port(message_seconds=0.05, idle_seconds=0.6)
    with port.connect() as line, port.connect() as other:
        line.sendall(port.frame())
        assert is_hung_up(other)
        line.sendall(port.frame())
        wait_until(lambda: len(port.beats) == 2, "both heartbeats")
        assert is_hung_up(line)

    assert port.receiver.rejected == {
        "unauthenticated": 1,
        "malformed": 0,
        "too large": 0,
        "late": 0,
        "too many": 0,
    }


def test_a_worker_gets_through_a_thousand_strangers(open_port, wait_until):
    port = open_port(maximum_connections=100)
    with contextlib.ExitStack() as strangers:
        for _ in range(1000):
            strangers.enter_context(port.connect())
        with port.connect() as line:
            line.sendall(port.frame())
            wait_until(lambda: port.beats, "the heartbeat")
            for _ in range(200):
                strangers.enter_context(port.connect())
            line.sendall(port.frame())
            wait_until(lambda: len(port.beats) == 2, "the second heartbeat on the same connection")
        wait_until(lambda: port.receiver.rejected["too many"] >= 1101, "all refusals")


def test_full_of_workers_refuses_more(open_port, wait_until):
    port = open_port(maximum_connections=2)
    with port.connect() as one, port.connect() as two:
        one.sendall(port.frame())
        two.sendall(port.frame())
        wait_until(lambda: len(port.beats) == 2, "both workers")
        with port.connect() as third:
            assert is_hung_up(third)
        one.sendall(port.frame())
        wait_until(lambda: len(port.beats) == 3, "the first worker again")


def test_unfinished_messages_are_bounded_together(open_port, wait_until):
    port = open_port(maximum_bytes=10_000)
    with contextlib.ExitStack() as lines:
        for _ in range(40):
            line = lines.enter_context(port.connect())
            with contextlib.suppress(ConnectionError):
                line.sendall(HEADER.pack(10_000) + b"x" * 9_000)
        wait_until(lambda: port.receiver.rejected["too many"] >= 40 - 17, "the refusals")
        assert port.receiver._buffered <= 16 * 10_000 + 9_004


def test_a_flood_is_reported_in_few_events(open_port, wait_until):
    port = open_port()
    for _ in range(300):
        with port.connect() as line:
            line.sendall(framed(b"?"))
            assert is_hung_up(line)
    wait_until(lambda: port.rejected().get("malformed") == 300, "all refusals")

    assert len(port.events) < 150


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=60), max_size=5), st.booleans())
def test_garbage(garbage_port, garbage, framing):
    with garbage_port.connect() as line, contextlib.suppress(OSError):  # hung up in the middle
        for part in garbage:
            line.sendall(framed(part) if framing else part)
        line.shutdown(socket.SHUT_WR)
        assert is_hung_up(line)
    before = len(garbage_port.beats)
    with garbage_port.connect() as line:
        line.sendall(garbage_port.frame())
        line.shutdown(socket.SHUT_WR)
        assert is_hung_up(line)
    assert len(garbage_port.beats) == before + 1


@pytest.fixture(scope="module")
def garbage_port():
    port = Port(message_seconds=0.5)
    yield port
    port.receiver.close()


def test_workers_are_known_as_long_as_their_lines_are_open(open_port, wait_until):
    port = open_port()
    with port.connect() as line:
        line.sendall(port.frame())
        [worker] = wait_until(port.receiver.workers, "the worker to be known")
        assert 0 <= worker.silent_seconds < 60
        assert (worker.beat.host, worker.beat.pid, worker.beat.operators) == ("worker-1", 77, BEAT.operators)
    wait_until(lambda: not port.receiver.workers(), "the worker to be gone")


def test_no_worker_is_called_silent_by_a_receiver_that_is_held_up(wait_until, monkeypatch):
    monkeypatch.setattr(receiver_module, "_DEAF_SECONDS", 0.2)
    held, release = threading.Event(), threading.Event()

    def observe(event):
        held.set()
        release.wait(30)

    port = Port(observe)
    try:
        with port.connect() as line:
            line.sendall(port.frame())
            held.wait(30)
            wait_until(lambda: not port.receiver.workers(), "the receiver to say nothing")
            release.set()
            wait_until(port.receiver.workers, "the receiver to know its workers again")
    finally:
        release.set()
        port.receiver.close()


def test_an_observer_that_raises_does_not_end_it(wait_until):
    calls = []

    def observe(event):
        calls.append(event)
        raise RuntimeError

    receiver = HeartbeatReceiver(observe, lambda: NOW)
    try:
        for number in range(3):
            with socket.create_connection(receiver.address) as line:
                line.sendall(encode(BEAT, receiver.secret, lambda: NOW))
                line.sendall(framed(b"?"))
                wait_until(lambda number=number: len(calls) > number, "the heartbeat")
        wait_until(lambda: any(isinstance(event, HeartbeatRejected) for event in calls), "the refusal")
    finally:
        receiver.close()


def test_close_ends_thread_and_connections(open_port):
    port = open_port()
    thread = port.receiver._thread
    assert thread in threading.enumerate()
    with port.connect() as line:
        port.receiver.close()
        port.receiver.close()
        assert is_hung_up(line)
    assert not thread.is_alive()
    with pytest.raises(ConnectionRefusedError):
        port.connect()


def test_secrets_differ_and_workers_are_reported(open_port):
    one, two = open_port(advertised="driver.example"), open_port()

    assert one.receiver.secret != two.receiver.secret
    assert one.receiver.for_workers(0.5) == HeartbeatAddress(
        "driver.example", one.receiver.address[1], one.receiver.secret, 0.5
    )
    assert one.receiver.secret not in repr(one.receiver.for_workers(0.5))


def test_a_port_in_use_is_an_error(open_port):
    with pytest.raises(OSError, match="in use"):
        HeartbeatReceiver(lambda event: None, lambda: NOW, port=open_port().receiver.address[1])


def test_stacks_of_strangers_are_not_asked_for(open_port, wait_until):
    port = open_port()
    assert port.receiver.stack_of(socket.gethostname(), os.getpid()) is None
    assert port.receiver.stack_of("elsewhere", 1) is None
    with port.connect() as line:
        line.sendall(port.frame(ContainerHeartbeat(0.0, -1, socket.gethostname(), os.getpid(), 0.0)))
        wait_until(lambda: port.beats, "the heartbeat")
    # This process is no worker of Spark: the signal would end it.
    assert port.receiver.stack_of(socket.gethostname(), os.getpid()) is None
