"""STRAM's half of heartbeats: what they lead to, which are late, and that nothing ends it."""

import os
import socket
from dataclasses import replace

import pytest

from ridgeline import SystemClock
from ridgeline.engine.driver.heartbeats import Heartbeats, spaced_seconds
from ridgeline.measure.events import (
    ContainerHeartbeat,
    LineTime,
    MessagesRefused,
    ProcessUsage,
    RunningOperator,
    WindowCommitted,
)
from ridgeline.testing import SteppingClock

CLOCK = SystemClock()
BEAT = ContainerHeartbeat(
    at=1.0,
    container=2,
    host="worker-1",
    pid=77,
    sent=999.5,
    window_id=5,
    attempt=1,
    began=0.5,
    operators=(RunningOperator(3, "running", 0.5, {"in": 4}, {"in": 6}, 1, {"out": 8}, work=(4.0, None)),),
    stack="in user code",
)


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
    taken.heartbeats.take("slot 1", BEAT)
    [beat] = taken.beats
    assert beat == replace(BEAT, at=taken.clock.wall())


def test_texts_can_be_written_whatever_is_in_them(taken):
    line = LineTime(1, "\ud800.py", 7, "f\ud800", "f()", 0.5)
    odd = replace(BEAT, host="h\ud800", stack='File "\ud800.py"', lines=(line,))
    taken.heartbeats.take("slot 1", odd)
    [beat] = taken.beats
    assert (beat.host, beat.stack, beat.lines[0].file) == ("h?", 'File "?.py"', "?.py")


def test_what_comes_of_a_committed_window_only_reports_its_clock(taken):
    taken.heartbeats.follow(WindowCommitted(0.0, 5, 1, *[0.0] * 7))
    taken.heartbeats.follow(WindowCommitted(0.0, 3, 1, *[0.0] * 7))
    taken.heartbeats.take("slot 1", BEAT)
    taken.heartbeats.take("slot 1", replace(BEAT, window_id=6))
    assert taken.beats[0] == ContainerHeartbeat(taken.clock.wall(), -1, "worker-1", 77, 999.5)
    assert (taken.beats[1].container, taken.beats[1].window_id) == (2, 6)


def test_what_a_process_says_of_itself_counts_with_a_late_heartbeat_too(taken):
    taken.heartbeats.follow(WindowCommitted(0.0, 5, 1, *[0.0] * 7))
    said = {
        "unsent": 3,
        "usage": ProcessUsage(1024, 2.5, 1),
        "lines": (LineTime(1, "a.py", 7, "f", "f()", 0.5),),
    }
    taken.heartbeats.take("slot 1", replace(BEAT, **said))
    (beat,) = taken.beats
    assert {name: getattr(beat, name) for name in said} == said


@pytest.mark.parametrize(("workers", "seconds"), [(1, 1.0), (2_000, 1.0), (10_000, 5.0), (100_000, 7.5)])
def test_heartbeats_of_many_workers_come_less_often_and_in_time_for_the_watchdog(workers, seconds):
    assert spaced_seconds(1.0, 30.0, workers) == seconds
    assert spaced_seconds(20.0, 30.0, workers) == 20.0, "rare ones stay as they are"


def test_what_a_network_refuses_is_reported(taken):
    taken.heartbeats.report({"unauthenticated": 0})
    taken.heartbeats.report({"unauthenticated": 2})
    taken.clock.advance(1.0)
    taken.heartbeats.report({"unauthenticated": 5})
    assert taken.refused() == {"unauthenticated": 5}
    taken.heartbeats.report({"unauthenticated": 6})
    assert taken.refused() == {"unauthenticated": 5}, "one event a second"
    taken.heartbeats.close()
    assert taken.refused() == {"unauthenticated": 6}


def test_workers_are_known_as_long_as_they_are_connected(taken):
    taken.heartbeats.take("slot 1", BEAT)
    taken.clock.advance(3.0)
    [worker] = taken.heartbeats.workers()
    assert (worker.silent_seconds, worker.beat.pid) == (3.0, 77)
    taken.heartbeats.lost("slot 1")
    assert taken.heartbeats.workers() == []


def test_an_observer_that_raises_does_not_end_it():
    def observe(_event):
        raise RuntimeError

    heartbeats = Heartbeats(observe, CLOCK)
    heartbeats.take("slot 1", BEAT)
    heartbeats.report({})
    assert len(heartbeats.workers()) == 1


def test_stacks_of_strangers_are_not_asked_for(taken):
    host = socket.gethostname()
    assert taken.heartbeats.stack_of(host, os.getpid()) is None
    assert taken.heartbeats.stack_of("elsewhere", 1) is None
    taken.heartbeats.take("me", ContainerHeartbeat(0.0, -1, host, os.getpid(), 0.0))
    # This process is no worker of Spark: the signal would end it.
    assert taken.heartbeats.stack_of(host, os.getpid()) is None
