"""Speculation on Spark: a slot that stands still for seconds, and what is committed meanwhile."""

import os
import signal
import threading

import pytest

from ridgeline.measure.events import SlotJoined, SlotLost, SlotSpeculated, WindowCommitted
from ridgeline.testing import run_local
from support.engine.applications import Sum
from support.engine.in_slots import two_stages
from support.engine.on_spark import run_on_spark

pytestmark = pytest.mark.spark
STOPPED_SECONDS = 5.0


@pytest.mark.slow
@pytest.mark.guide("002", "Speculative Execution")
def test_windows_are_committed_while_a_slot_stands_still(spark_context, tmp_path):
    stop, awake = threading.Event(), threading.Event()
    stopped = []

    def each(found, event):
        if event.window_id == 50:
            slot = next(one for one in found.of_type(SlotJoined) if one.containers)
            os.kill(slot.pid, signal.SIGSTOP)
            stopped.append(slot)
            go_on = threading.Timer(STOPPED_SECONDS, lambda: (os.kill(slot.pid, signal.SIGCONT), awake.set()))
            go_on.start()
        elif awake.is_set():
            stopped.append(event.window_id)
            if len(stopped) > 50:
                stop.set()

    found = run_on_spark(
        two_stages(Sum(), count=1 << 40),
        spark_context,
        tmp_path / "checkpoint",
        each=each,
        stop=stop,
        attributes={"speculation": "0.9"},
    )
    slot, first, *_ = stopped
    hedge = found.of_type(SlotSpeculated)[0]
    assert (hedge.slot, hedge.pid) == (slot.slot, slot.pid)
    meanwhile = [one for one in found.of_type(WindowCommitted) if 52 < one.window_id < first]
    assert len(meanwhile) > 50
    assert not found.of_type(SlotLost)
    assert found.ids == list(range(len(found.ids)))
    expected = run_local(two_stages(Sum(), count=10 * len(found.ids))).collected("store")
    assert sorted(found.collected("store")) == sorted(expected)
