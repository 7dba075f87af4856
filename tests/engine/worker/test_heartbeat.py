"""The worker's half of heartbeats, with a socket as STRAM."""

import contextlib
import json
import logging
import math
import os
import socket
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from ridgeline.api.clock import SystemClock
from ridgeline.engine.worker import heartbeat
from ridgeline.engine.worker.heartbeat import HEADER, MAXIMUM_BYTES, Heart, HeartbeatAddress, encode
from ridgeline.measure.encoding import from_dict
from ridgeline.measure.events import ContainerHeartbeat, RunningOperator
from ridgeline.stram.watch import Watch

CLOCK = SystemClock()
INTERVAL = 0.02


class Stram:
    """Takes heartbeats, one connection after the other."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(30)
        self.line = None

    @property
    def address(self):
        return HeartbeatAddress(*self.listener.getsockname(), "the secret", INTERVAL)

    def accept(self):
        if self.line:
            self.line.close()
        self.line, _ = self.listener.accept()
        self.line.settimeout(30)

    def exactly(self, size):
        data = b""
        while len(data) < size:
            part = self.line.recv(size - len(data))
            assert part, "the worker has hung up"
            data += part
        return data

    def message(self):
        """The next heartbeat; waits for it."""
        if self.line is None:
            self.accept()
        return json.loads(self.exactly(HEADER.unpack(self.exactly(HEADER.size))[0]))

    def beat(self):
        return from_dict(self.message()["heartbeat"])

    def close(self):
        self.listener.close()
        if self.line:
            self.line.close()


@pytest.fixture
def stram():
    stram = Stram()
    yield stram
    stram.close()


@pytest.fixture
def heart(stram):
    heart = Heart(stram.address, CLOCK)
    yield heart
    heart.stop()


class Busy:
    """A container in a window that began long ago, or `seconds` ago."""

    def __init__(self, seconds=100.0):
        self.seconds = seconds

    def heartbeat(self):
        now = CLOCK.wall()
        operator = RunningOperator(3, "running", 0.5, {"in": 4}, {"in": 6}, 1, {"out": 8})
        return ContainerHeartbeat(now, 2, "worker-1", os.getpid(), now, 7, 1, now - self.seconds, (operator,))


def test_the_first_beat_tells_the_clock_at_once(stram, heart):
    before = CLOCK.wall()
    heart.start()
    message = stram.message()
    beat = from_dict(message["heartbeat"])

    assert (message["secret"], message["version"]) == ("the secret", 1)
    assert (beat.container, beat.host, beat.pid, beat.operators) == (
        -1,
        socket.gethostname(),
        os.getpid(),
        (),
    )
    assert before <= beat.sent <= CLOCK.wall()


def users_work(release):
    release.wait(30)


def test_a_long_window_is_told_again_and_again_with_its_stack(stram, heart):
    heart.start()
    stram.beat()
    release = threading.Event()

    def work():
        with heart.working(Busy()):
            users_work(release)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        beats = [stram.beat() for _ in range(3)]
    finally:
        release.set()
        thread.join()

    assert [(beat.container, beat.window_id, beat.attempt) for beat in beats] == [(2, 7, 1)] * 3
    assert [beat.operators[0].consumed for beat in beats] == [{"in": 4}] * 3
    assert "in users_work" in beats[2].stack
    assert "in working" not in beats[2].stack
    assert beats[0].sent < beats[1].sent < beats[2].sent


def test_short_windows_and_idle_workers_only_tell_the_clock(stram, heart):
    heart.start()
    stram.beat()
    for _ in range(3):
        with heart.working(Busy(seconds=0.0)):
            pass
        assert stram.beat().container == -1
    for _ in range(3):
        assert stram.beat().container == -1


def test_after_stram_has_hung_up_the_next_beat_comes_over_a_new_line(stram, heart):
    heart.start()
    stram.beat()
    stram.line.shutdown(socket.SHUT_RDWR)
    with heart.working(Busy()):
        stram.accept()
        assert stram.beat().container == 2
    assert heart.failures == 0


def test_an_unreachable_stram_is_left_alone_for_a_while(wait_until):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = HeartbeatAddress(*listener.getsockname(), "secret", 0.001)
    heart = Heart(address, CLOCK)
    beats = []

    class Counting(Busy):
        def heartbeat(self):
            beats.append(1)
            return super().heartbeat()

    heart.start()
    with heart.working(Counting()):
        wait_until(lambda: len(beats) > 100, "a hundred beats")
    heart.stop()
    assert 1 <= heart.failures <= 10


def test_heartbeats_that_cannot_be_sent_are_logged_once_and_counted(stram, heart, caplog):
    class Failing(Busy):
        def heartbeat(self):
            if heart.failures < 3:
                raise RuntimeError
            return super().heartbeat()

    with caplog.at_level(logging.INFO, "ridgeline"):
        heart.start()
        stram.beat()
        with heart.working(Failing()):
            while (beat := stram.beat()).container != 2:
                pass
            while (after := stram.beat()).container != 2:
                pass
    assert (beat.unsent, after.unsent) == (3, 0)
    warning, info = caplog.records
    assert (warning.levelname, info.levelname) == ("WARNING", "INFO")
    assert warning.getMessage() == "heartbeats cannot be sent to 127.0.0.1: RuntimeError"
    assert info.getMessage() == "connected to the driver again; 3 heartbeats were not sent"
    watch = Watch(CLOCK.wall)
    watch.observe(replace(beat, at=CLOCK.wall()))
    assert watch.scrape().heartbeats_unsent == 3


def test_figures_that_fail_do_not_stop_it(stram, heart):
    class Failing(Busy):
        def heartbeat(self):
            if heart.failures < 3:
                raise RuntimeError
            return super().heartbeat()

    heart.start()
    stram.beat()
    with heart.working(Failing()):
        while stram.beat().container != 2:
            pass
    assert heart.failures == 3


def test_work_that_raises_is_over(heart):
    with contextlib.suppress(KeyError), heart.working(Busy()):
        raise KeyError
    assert heart._running() is None


def decoded(data):
    assert HEADER.unpack_from(data)[0] == len(data) - HEADER.size
    return from_dict(json.loads(data[HEADER.size :])["heartbeat"])


def test_the_wire_form_brings_everything_back():
    beat = replace(Busy().heartbeat(), stack='File "é\ud800.py"', at=1.0)
    assert decoded(encode(beat, "s", lambda: 1234.5)) == replace(beat, sent=1234.5)


@pytest.mark.parametrize(
    ("work", "told"),
    [
        (None, None),
        ((3, None), (3.0, None)),
        ((3, 4.5), (3.0, 4.5)),
        ((math.nan, 1.0), None),
        ((1.0, math.inf), None),
        (("many", 1.0), None),
        (7, None),
    ],
)
def test_what_an_input_operator_says_of_its_work(work, told):
    beat = replace(Busy().heartbeat(), operators=(RunningOperator(1, "running", work=work),))
    assert decoded(encode(beat, "s", CLOCK.wall)).operators[0].work == told


def test_operators_that_do_not_fit_are_left_out_the_running_one_last():
    many = tuple(
        RunningOperator(number, "waiting", queued={f"port{port}": port for port in range(20)})
        for number in range(2000)
    )
    beat = replace(Busy().heartbeat(), operators=(*many, RunningOperator(9999, "running")))
    data = encode(beat, "s", CLOCK.wall)

    operators = decoded(data).operators
    assert len(data) <= MAXIMUM_BYTES + 100
    assert operators[0].id == 9999
    assert [operator.id for operator in operators[1:]] == list(range(len(operators) - 1))
    assert len(operators) > 100


@pytest.fixture
def own_heart():
    """The process's heart, put back."""
    heartbeat._forget()
    yield
    if heartbeat._heart:
        heartbeat._heart.stop()
    heartbeat._forget()


def test_a_process_has_one_heart_and_none_without_an_address(stram, own_heart):
    with heartbeat.working(None, Busy(), CLOCK):
        assert heartbeat._heart is None
    for _ in range(2):
        with heartbeat.working(stram.address, Busy(), CLOCK):
            first = heartbeat._heart
    other = replace(stram.address, secret="another")
    with heartbeat.working(other, Busy(), CLOCK):
        assert heartbeat._heart is not first
    assert first._stop.is_set()
    assert heartbeat._heart.address == other


def test_a_forked_process_starts_its_own(stram, own_heart):
    script = """
import os, sys
from ridgeline.api.clock import SystemClock
from ridgeline.engine.worker import heartbeat
class Idle:
    def heartbeat(self): return None
address = heartbeat.HeartbeatAddress("127.0.0.1", int(sys.argv[1]), "s", 60.0)
with heartbeat.working(address, Idle(), SystemClock()):
    pass
child = os.fork()
if child == 0:
    with heartbeat.working(address, Idle(), SystemClock()):
        sys.stdin.read()
    os._exit(0)
print(child, flush=True)
os.waitpid(child, 0)
"""
    command = [sys.executable, "-c", script, str(stram.address.port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        child = int(process.stdout.readline())
        pids = set()
        for _ in range(2):
            stram.accept()
            pids.add(stram.beat().pid)
        process.stdin.close()
    assert pids == {process.pid, child}
