"""The worker's half of heartbeats: what is sent, when, and what becomes of it if it cannot be sent."""

import contextlib
import json
import logging
import math
import os
import socket
import threading
from dataclasses import replace
from queue import Queue

import pytest

from ridgeline.api.clock import SystemClock
from ridgeline.engine.process.heartbeat import MAXIMUM_BYTES, HeartbeatSender, encode
from ridgeline.measure.encoding import from_dict
from ridgeline.measure.events import ContainerHeartbeat, LineTime, RunningOperator, SourceTaken
from ridgeline.observe.watch import Watch
from support.waiting import PATIENCE_SECONDS

CLOCK = SystemClock()
INTERVAL = 0.02


class Stram:
    """Takes heartbeats; refuses them while it is `down`."""

    def __init__(self):
        self.beats = Queue()
        self.down = False
        self.refused = 0

    def send(self, message):
        taken = not self.down
        if taken:
            self.beats.put(from_dict(json.loads(message())))
        else:
            self.refused += 1
        return taken

    def beat(self):
        """The next heartbeat; waits for it."""
        return self.beats.get(timeout=PATIENCE_SECONDS)


@pytest.fixture
def stram():
    return Stram()


@pytest.fixture
def sender(stram):
    sender = HeartbeatSender(stram.send, INTERVAL, CLOCK)
    yield sender
    sender.stop()


class Busy:
    """A container in a window that began long ago, or `seconds` ago."""

    def __init__(self, seconds=100.0):
        self.seconds = seconds

    def heartbeat(self):
        now = CLOCK.wall()
        operator = RunningOperator(3, "running", 0.5, {"in": 4}, {"in": 6}, 1, {"out": 8})
        return ContainerHeartbeat(now, 2, "worker-1", os.getpid(), now, 7, 1, now - self.seconds, (operator,))


def test_the_first_beat_tells_the_clock_at_once(stram, sender):
    before = CLOCK.wall()
    sender.start()
    beat = stram.beat()

    assert (beat.container, beat.host, beat.pid, beat.operators) == (
        -1,
        socket.gethostname(),
        os.getpid(),
        (),
    )
    assert before <= beat.sent <= CLOCK.wall()


def users_work(begun, release):
    begun.set()
    release.wait(PATIENCE_SECONDS)


def test_a_long_window_is_told_again_and_again_with_its_stack(stram, sender):
    sender.start()
    stram.beat()
    begun, release = threading.Event(), threading.Event()

    def work():
        with sender.working(Busy()):
            users_work(begun, release)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert begun.wait(PATIENCE_SECONDS)
        works = CLOCK.wall()
        first = next(beat for beat in iter(stram.beat, None) if beat.sent > works and beat.operators)
        beats = [first, stram.beat(), stram.beat()]
    finally:
        release.set()
        thread.join()

    assert [(beat.container, beat.window_id, beat.attempt) for beat in beats] == [(2, 7, 1)] * 3
    assert [beat.operators[0].consumed for beat in beats] == [{"in": 4}] * 3
    assert "in users_work" in beats[2].stack
    assert "in working" not in beats[2].stack
    assert beats[0].sent < beats[1].sent < beats[2].sent


def test_short_windows_and_idle_workers_only_tell_the_clock(stram, sender):
    sender.start()
    stram.beat()
    for _ in range(3):
        with sender.working(Busy(seconds=0.0)):
            pass
        assert stram.beat().container == -1
    for _ in range(3):
        assert stram.beat().container == -1


def test_what_stram_does_not_take_is_counted(stram, sender, wait_until):
    stram.down = True
    sender.start()
    wait_until(lambda: stram.refused >= 3, "three attempts")
    stram.down = False
    assert stram.beat().unsent >= 3
    assert stram.beat().unsent == 0
    assert sender.failures == 0


def test_heartbeats_that_cannot_be_sent_are_logged_once_and_counted(stram, sender, caplog):
    class Failing(Busy):
        def heartbeat(self):
            if sender.failures < 3:
                raise RuntimeError
            return super().heartbeat()

    with caplog.at_level(logging.INFO, "ridgeline"):
        sender.start()
        stram.beat()
        with sender.working(Failing()):
            while (beat := stram.beat()).container != 2:
                pass
            while (after := stram.beat()).container != 2:
                pass
    assert (beat.unsent, after.unsent) == (3, 0)
    warning, info = caplog.records
    assert (warning.levelname, info.levelname) == ("WARNING", "INFO")
    assert warning.getMessage() == "heartbeats cannot be sent to the driver: RuntimeError"
    assert info.getMessage() == "the driver takes heartbeats again; 3 were not sent"
    watch = Watch(CLOCK.wall)
    watch.observe(replace(beat, at=CLOCK.wall()))
    assert watch.scrape().heartbeats_unsent == 3


def decoded(data):
    return from_dict(json.loads(data))


def test_the_wire_form_brings_everything_back():
    beat = replace(Busy().heartbeat(), stack='File "é\ud800.py"', at=1.0)
    assert decoded(encode(beat, lambda: 1234.5)) == replace(beat, sent=1234.5)


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
    assert decoded(encode(beat, CLOCK.wall)).operators[0].work == told


def test_operators_that_do_not_fit_are_left_out_the_running_one_last():
    many = tuple(
        RunningOperator(number, "waiting", queued={f"port{port}": port for port in range(20)})
        for number in range(2000)
    )
    beat = replace(Busy().heartbeat(), operators=(*many, RunningOperator(9999, "running")))
    data = encode(beat, CLOCK.wall)

    operators = decoded(data).operators
    assert len(data) <= MAXIMUM_BYTES + 100
    assert operators[0].id == 9999
    assert [operator.id for operator in operators[1:]] == list(range(len(operators) - 1))
    assert len(operators) > 100


def test_large_figures_of_the_past_make_room_for_what_runs():
    lines = tuple(LineTime(1, "f.py", line, "Feed.emit", "x" * 300, 0.1) for line in range(1000))
    taken = tuple(SourceTaken(0.0, 1, 1, number, 5.0, None, "u" * 300, 0.0) for number in range(1000))
    running = RunningOperator(9999, "running")
    beat = replace(Busy().heartbeat(), operators=(running,), lines=lines)

    small = decoded(encode(beat, CLOCK.wall))
    assert small.operators == (running,)
    assert not small.lines

    data = encode(replace(beat, taken=taken, stack="s" * 1_000_000), CLOCK.wall)
    least = decoded(data)
    assert len(data) <= MAXIMUM_BYTES + 100
    assert least.operators == (running,)
    assert least.sent > 0


@pytest.mark.parametrize("works", [True, False])
def test_each_beat_says_what_inputs_of_the_process_have_taken(stram, works):
    """Their reports may wait for a container that works. What users return is made plain, or left out."""
    said = SourceTaken(0.0, 7, 1, 4, 100, 20, "records", 0.0)
    strange = SourceTaken(0.0, 7, 1, 5, float("nan"), None, "records", 0.0)
    sender = HeartbeatSender(stram.send, INTERVAL, CLOCK, taken=lambda: (said, strange))
    with sender.working(Busy()) if works else contextlib.nullcontext():
        sender.start()
        beats = [stram.beat() for _ in range(3)]
    sender.stop()
    assert [beat.container for beat in beats] == [2 if works else -1] * 3
    assert [beat.taken for beat in beats] == [(said,)] * 3


def test_a_process_says_what_it_uses(stram, sender):
    sender.start()
    usage = stram.beat().usage
    assert usage.memory_bytes > 10_000_000
    assert usage.cpu_seconds > 0
    assert usage.collections >= 0
