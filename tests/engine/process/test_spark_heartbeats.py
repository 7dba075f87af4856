"""Heartbeats of real workers: what they tell in a long window, and that the work does not depend on them."""

import ctypes
import threading
import time
from pathlib import Path

import pytest

from ridgeline.api.clock import SystemClock
from ridgeline.engine.driver.heartbeats import Heartbeats
from ridgeline.measure.events import ContainerHeartbeat
from support.engine.applications import InputPort, Number, Sum, sum_application
from support.engine.on_spark import run_on_spark

pytestmark = pytest.mark.spark

SUMS = [sum(range(10 * window + 10)) for window in range(3)]
INTERVAL = 0.2


class LongSum(Sum):
    """At the number 13, the fourth of window 1, it works until the file `go` is there."""

    folder: str = ""

    def crunch(self, number):
        while number.value == 13 and not Path(self.folder, "go").exists():
            time.sleep(0.01)
        self.total += number.value

    numbers = InputPort(Number)
    numbers.process(crunch)


class Heard:
    """Heartbeats, those that counted, and the file that lets `LongSum` go on once `enough(heard)`."""

    def __init__(self, folder, enough):
        self.events = []
        self.folder = folder
        self.enough = enough
        self.heartbeats = Heartbeats(self.observe, SystemClock())

    def observe(self, event):
        self.events.append(event)
        if self.enough(self):
            (self.folder / "go").touch()

    @property
    def beats(self):
        """Those of `LongSum`'s container at the number 13; on a slow machine others may take long, too."""
        beats = [
            event for event in self.events if isinstance(event, ContainerHeartbeat) and event.window_id == 1
        ]
        return [
            beat
            for beat in beats
            if any(operator.consumed.get("numbers") == 3 for operator in beat.operators)
        ]

    @property
    def clocks(self):
        return [
            event for event in self.events if isinstance(event, ContainerHeartbeat) and event.container < 0
        ]

    def run(self, context, checkpoint, summing=None, attributes=None):
        app = sum_application(summing or LongSum(folder=str(self.folder)), count=30)
        attributes = {"heartbeat_interval": f"{INTERVAL} s", **(attributes or {})}
        return run_on_spark(app, context, checkpoint, heartbeats=self.heartbeats, attributes=attributes)


@pytest.fixture
def hear(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    return lambda enough: Heard(folder, enough)


def sums(run):
    return [number.value for number in run.collected("store")]


def test_at_recording_level_off_there_are_none(spark_context, tmp_path, hear):
    heard = hear(lambda heard: False)
    (tmp_path / "folder" / "go").touch()
    run = heard.run(spark_context, tmp_path / "checkpoint", attributes={"metrics_recording_level": "OFF"})

    assert sums(run) == SUMS
    assert heard.events == []


class StuckSum(Sum):
    """In window 1 it makes the file `waits` and stays in native code, with the GIL, until `go` is there."""

    folder: str = ""

    def end_window(self):
        if self.context.window_id == 1:
            self.stuck()
        self.sums.emit(Number(self.total))

    def stuck(self):
        Path(self.folder, "waits").touch()
        while not Path(self.folder, "go").exists():
            ctypes.PyDLL(None).usleep(500_000)


@pytest.mark.skipif(not Path("/proc").exists(), reason="stacks of other processes need /proc")
def test_the_stack_of_a_worker_that_cannot_speak(spark_context, tmp_path, hear, wait_until):
    heard = hear(lambda heard: False)
    folder = heard.folder
    stacks = []

    def ask():
        workers = {(beat.host, beat.pid) for beat in [*heard.clocks, *heard.beats]}
        stacks.extend(filter(None, (heard.heartbeats.stack_of(*worker) for worker in workers)))
        return any("in stuck" in stack for stack in stacks)

    def driver():
        try:
            wait_until((folder / "waits").exists, "the operator to be stuck")
            wait_until(ask, "its stack")
        finally:
            (folder / "go").touch()

    asking = threading.Thread(target=driver)
    asking.start()
    run = heard.run(spark_context, tmp_path / "checkpoint", StuckSum(folder=str(folder)))
    asking.join()

    assert any("in stuck" in stack for stack in stacks)
    assert sums(run) == SUMS
    assert run.retries == []
