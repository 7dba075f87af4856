"""A run in slots of this process's Spark, in a thread of its own: tests kill the slots meanwhile."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from ridgeline.measure.slot_events import SlotEvent
from support.engine.on_spark import run_on_spark
from support.waiting import wait_until


class InSlots:
    """The run, as its events say. `pids`: of its slots; `joins`, `lost`: how many slots came and went."""

    def __init__(self):
        self.pids, self.joins, self.lost = {}, 0, 0
        self.result = None
        self._running = None

    def see(self, _run, event):
        """Take an event."""
        if isinstance(event, SlotEvent) and event.kind in {"joined", "restarted"}:
            self.pids = self.pids | {event.slot: event.pid}
            self.joins += 1
        elif isinstance(event, SlotEvent) and event.kind == "lost":
            self.pids = {slot: pid for slot, pid in self.pids.items() if slot != event.slot}
            self.lost += 1

    def kill(self, slots):
        """Kill some slots; how many that were."""
        killed = 0
        for pid in [pid for slot, pid in self.pids.items() if slot in slots]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
        return killed

    @property
    def is_over(self):
        """Whether it has ended."""
        return self._running.done()

    def wait(self, condition, what):
        """Wait while it runs."""
        wait_until(lambda: condition() or self.is_over, what)
        assert not self.is_over, self._running.result()

    @contextmanager
    def running(self, *given, to_end=False, **more):
        """Run an application as `run_on_spark` until the end of the block; then `result` is there.

        `to_end`: until its inputs have finished.
        """
        stop = threading.Event()
        with ThreadPoolExecutor(1) as thread:
            self._running = thread.submit(run_on_spark, *given, seen=self.see, stop=stop, **more)
            try:
                yield
            except BaseException:
                stop.set()
                raise
            if not to_end:
                stop.set()
            self.result = self._running.result()
