"""Slots whose callback does nothing, as real processes: each is named, ended and replaced."""

import threading

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import OperatorError
from ridgeline.engine.driver.heartbeats import Heartbeats
from ridgeline.measure.events import SlotLost
from support.engine.applications import Number, Sum
from support.engine.in_slots import two_stages
from support.engine.slot_platform import run_in_processes


class StuckSum(Sum):
    """Hangs in window 3, in each attempt."""

    numbers = Sum.numbers

    def end_window(self):
        if self.context.window_id == 3 and self.context.partition == 0:
            threading.Event().wait()
        self.sums.emit(Number(self.total))


def test_a_slot_that_is_stuck_again_and_again_fails_the_application(tmp_path):
    app = two_stages(StuckSum(), count=100, recovery_attempts=1, callback_timeout="500ms")
    heard = Heartbeats(lambda _event: None, SystemClock())
    found, error = run_in_processes(
        app, tmp_path / "checkpoint", heartbeats=heard, expect=OperatorError, heartbeat_interval="100ms"
    )
    assert (error.failure.operator, error.failure.window_id) == ("total", 3)
    assert "the attribute `callback_timeout` allows 0.5 s" in error.failure.error
    assert found.ids == [0, 1, 2]
    assert len([event for event in found.events if isinstance(event, SlotLost)]) == 2
