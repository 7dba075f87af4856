"""Heartbeats of slots: on their own connections, also while a callback runs; what follows from silence."""

import os
import signal
import time
from pathlib import Path

import pytest

from ridgeline.api.clock import SystemClock
from ridgeline.engine.driver.heartbeats import Heartbeats
from ridgeline.measure.events import ContainerHeartbeat, SlotJoined, SlotLost
from ridgeline.testing import run_local
from support.engine.applications import InputPort, Number, Sum
from support.engine.in_slots import two_stages
from support.engine.slot_platform import run_in_processes

INTERVAL = "50ms"


class LongSum(Sum):
    """At the number 13 it works until the file `go` is there; the file `waits` says that it does."""

    folder: str = ""

    def crunch(self, number):
        if number.value == 13:
            Path(self.folder, "waits").touch()
        while number.value == 13 and not Path(self.folder, "go").exists():
            time.sleep(0.01)
        self.total += number.value

    numbers = InputPort(Number)
    numbers.process(crunch)


@pytest.fixture
def heard(tmp_path):
    """Heartbeats, and the list of what they lead to; `LongSum` goes on after three from its long window."""
    events = []

    def observe(event):
        events.append(event)
        if len(long(events)) >= 3:
            (tmp_path / "go").touch()

    heartbeats = Heartbeats(observe, SystemClock())
    heartbeats.events = events
    return heartbeats


def long(events):
    """Heartbeats of the partition that works at the number 13."""
    beats = [event for event in events if isinstance(event, ContainerHeartbeat)]
    return [beat for beat in beats if "in crunch" in beat.stack]


def test_a_long_window_tells_what_it_does_while_it_does_it(tmp_path, heard):
    app = two_stages(LongSum(folder=str(tmp_path)), count=60)
    run = run_in_processes(app, tmp_path / "checkpoint", heartbeats=heard, heartbeat_interval=INTERVAL)
    alike = run_local(two_stages(Sum(), count=60))
    assert sorted(run.collected("store")) == sorted(alike.collected("store"))
    beats = long(heard.events)
    assert len({(beat.pid, beat.window_id, beat.container) for beat in beats}) == 1
    assert {beat.pid for beat in beats} < {joined.pid for joined in run.of_type(SlotJoined)}
    assert all(beat.began <= beat.sent <= beat.at for beat in beats)
    assert all("ridgeline/engine" not in beat.stack for beat in beats)
    assert not any(heard.refused.values())
    assert heard.workers() == []


@pytest.mark.slow
def test_a_slot_that_says_nothing_is_ended(tmp_path, heard):
    """The process is stopped, as native code would stop it that keeps Python's lock."""
    stopped = []

    def stop(run, event):
        if not stopped:
            stopped.append(run.of_type(SlotJoined)[-1].pid)
            os.kill(stopped[0], signal.SIGSTOP)

    app = two_stages(Sum(), count=200)
    limits = {"heartbeat_interval": "200ms", "heartbeat_timeout": "4s"}
    run = run_in_processes(app, tmp_path / "checkpoint", heartbeats=heard, each=stop, **limits)
    assert stopped[0] in {event.pid for event in run.of_type(SlotLost)}
    assert any(
        f"process {stopped[0]}" in retry.reason and "was silent for" in retry.reason for retry in run.retries
    )
    assert sorted(run.collected("store")) == sorted(run_local(app).collected("store"))
