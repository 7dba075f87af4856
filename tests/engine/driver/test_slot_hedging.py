"""Slots that stand still, and the spare that runs what they are late with: real processes, without Spark."""

import os
import signal

import pytest

from ridgeline.measure.events import SlotJoined, SlotSpeculated
from ridgeline.testing import run_local
from support.engine.applications import Sum
from support.engine.in_slots import two_stages
from support.engine.slot_platform import run_in_processes

ON = {"speculation": 90}


@pytest.fixture
def run(tmp_path):
    """`run(app, **options)`, as `run_in_processes`, with one place more."""
    return lambda app, **options: run_in_processes(
        app, tmp_path / "checkpoint", **{"places": 3, **ON, **options}
    )


def pid_of(found, slot):
    """The process that is a slot now."""
    return next(one.pid for one in reversed(found.of_type(SlotJoined)) if one.slot == slot)


def stored(found):
    """What the sink has got."""
    return sorted(found.collected("store"))


class Stopper:
    """Stops the slot that hosts something after some windows, and lets it go on so many windows later."""

    def __init__(self, at, length=20, slot=0):
        self.at, self.length, self.slot = set(at), length, slot
        self.stopped = {}
        self.hedges = []

    def __call__(self, found, event):
        hedged = found.of_type(SlotSpeculated)
        for pid, begun in list(self.stopped.items()):
            if event.window_id >= begun + self.length:
                os.kill(pid, signal.SIGCONT)
                del self.stopped[pid]
        if event.window_id in self.at:
            slot = hedged[-1].spare if hedged and hedged[-1].slot == self.slot else self.slot
            pid = pid_of(found, slot)
            os.kill(pid, signal.SIGSTOP)
            self.stopped[pid] = event.window_id


def test_windows_go_on_while_a_slot_stands_still(run):
    stopper = Stopper({30})
    found = run(two_stages(Sum(), count=1_000), each=stopper)
    [hedge] = found.of_type(SlotSpeculated)
    assert (hedge.slot, hedge.spare) == (0, 2)
    assert hedge.seconds >= hedge.limit_seconds >= 0.1
    assert not stopper.stopped, "it went on once 20 windows more were committed"
    assert stored(found) == stored(run_local(two_stages(Sum(), count=1_000)))
