"""Spark sources whose containers live in slots, while tasks and slots are killed."""

import contextlib
import os
import signal
import threading
from pathlib import Path

import pytest

from support.accounts.processes import descendants
from support.engine.on_spark import run_on_spark
from support.engine.spark_sources import rate_application

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.crash]

ROWS = 200_000
WINDOWS = 400
"""At most: the run ends when enough has been killed."""
SLOTS = 2


def command_of(pid):
    """The command line of a process; nothing of one that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def workers():
    """The Python workers of this process's Spark, and their daemons, with which slots would end, too."""
    daemons = b"-m\0ridgeline.engine.spark.daemon"
    found = {one.pid: one.parent for one in descendants(os.getpid()) if daemons in command_of(one.pid)}
    forked = {pid for pid, parent in found.items() if parent in found}
    return forked, found.keys() - forked


class Killer:
    """Kills a task of the micro-batch, then a slot, then a task, ... in the middle of windows."""

    def __init__(self, stop):
        self.slots, self.killed, self.daemons = [], set(), set()
        self._stop = stop
        self._turn = threading.Event()
        self._over = threading.Event()
        self.run = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def after(self, run, committed):
        """Called after each commit."""
        self.run = run
        if committed.tasks_retried and len(self.slots) >= 2:
            self._stop.set()
        self._turn.set()

    def _work(self):
        turn = 0
        while self._turn.wait() and not self._over.wait(0.1):
            self._turn.clear()
            pids = {event.slot: event.pid for event in self.run.of_slots("joined", "restarted")}
            if len(pids) < SLOTS or self.killed & set(pids.values()):
                continue  # one that has not joined would be taken for a task, and killed again and again
            turn += 1
            forked, daemons = workers()
            self.daemons |= daemons
            if turn % 3 == 0:
                self.slots.append(pids[turn % len(pids)])
                self._kill(self.slots[-1])
            else:
                for pid in forked - set(pids.values()):
                    self._kill(pid)

    def _kill(self, pid):
        self.killed.add(pid)
        with contextlib.suppress(ProcessLookupError):  # a task that has just ended
            os.kill(pid, signal.SIGKILL)

    def end(self):
        self._over.set()
        self._turn.set()
        self._thread.join()
        self.daemons |= workers()[1]


def test_tasks_and_slots_that_are_killed_cost_no_row(spark_context, tmp_path):
    stop = threading.Event()
    killer = Killer(stop)
    try:
        run = run_on_spark(
            rate_application(rows=ROWS, partitions=2),
            spark_context,
            tmp_path / "checkpoint",
            windows=WINDOWS,
            each=killer.after,
            stop=stop,
        )
    finally:
        killer.end()
    assert run.ids == list(range(len(run.ids)))
    sums = [number.value for number in run.collected("store")]
    assert sums == sorted(sums)
    # A micro-batch is cut into windows; none has rows of two.
    batches = [sum(range(1, ROWS * (batch + 1), 2)) for batch in range(len(sums))]
    assert {one for one in batches if one <= sums[-1]} <= set(sums)
    lost = [event for event in run.of_slots("lost") if event.pid not in killer.killed]
    # A worker that is killed before it has said its number makes Spark begin a daemon anew: all slots end.
    assert not lost or len(killer.daemons) > 1, lost
    assert len(killer.slots) >= 2
    assert stop.is_set(), "no task was killed in the middle"
