"""The worker's half of heartbeats: what is sent, when, and what becomes of it if it cannot be sent."""

import contextlib
import logging
import os
import socket
import threading
from dataclasses import replace
from queue import Queue

import pytest

from ridgeline.api.clock import SystemClock
from ridgeline.engine.process.heartbeat import HeartbeatSender
from ridgeline.measure.events import ContainerHeartbeat, RunningOperator, SourceTaken
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
            self.beats.put(message())
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
    assert watch.scrape().counts.heartbeats_unsent == 3


@pytest.mark.parametrize("works", [True, False])
def test_each_beat_says_what_inputs_of_the_process_have_taken(stram, works):
    """Their reports may wait for a container that works."""
    said = SourceTaken(0.0, 7, 1, 4, 100, 20, "records", 0.0)
    sender = HeartbeatSender(stram.send, INTERVAL, CLOCK, taken=lambda: (said,))
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
