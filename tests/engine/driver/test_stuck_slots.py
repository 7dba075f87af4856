"""Slots that do not end a window, as real processes without heartbeats: each is named, ended and replaced."""

import os
import signal
import threading
from pathlib import Path

import pytest

from ridgeline.api.errors import OperatorError
from ridgeline.measure.events import SlotLost
from ridgeline.stram import straggler as overdue
from ridgeline.stram.straggler import Overdue
from support.engine.applications import Number, Sum
from support.engine.in_slots import two_stages
from support.engine.slot_platform import run_in_processes

WAYS = ("sleeps", "stops", "holds the lock")


class StuckSum(Sum):
    """Hangs in the windows `first`, `first + 2`, ... in one way each, `times` times in each window."""

    folder: str = ""
    first: int = 3
    times: int = 1

    numbers = Sum.numbers

    def end_window(self):
        number, rest = divmod(self.context.window_id - self.first, 2)
        if 0 <= number < len(WAYS) and not rest and self.context.partition == 0:
            self._hang(WAYS[number])
        self.sums.emit(Number(self.total))

    def _hang(self, way):
        before = len(list(Path(self.folder).glob(f"{way}-*")))
        if before >= self.times:
            return
        Path(self.folder, f"{way}-{before}").touch()
        if way == "sleeps":
            threading.Event().wait()
        elif way == "stops":
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            sum(range(1 << 62))  # in C, with Python's lock


@pytest.fixture
def run(tmp_path, monkeypatch):
    """`run(times)`: no slot is called stuck, however slow the machine is, but the one that does hang."""
    folder = tmp_path / "notes"
    folder.mkdir()
    look, lost = Overdue.look, []

    def look_once_it_is_alone(self, now, since):
        """Look while one hangs, once the other sum, the second stage's, has ended its window."""
        awaited = self._awaited.get(min(self._awaited, default=-1), ())
        sums = [container for container in awaited if self._stages[container] == 1]
        alone = len(list(folder.iterdir())) > len(lost) and len(sums) == 1
        return look(self, now, since) if alone else None

    monkeypatch.setattr(Overdue, "look", look_once_it_is_alone)
    monkeypatch.setattr(overdue, "LEAST_SECONDS", 0.5)

    def see(_found, event):
        if isinstance(event, SlotLost):
            lost.append(event)

    def run(times, **options):
        app = two_stages(StuckSum(folder=str(folder), times=times), count=100, recovery_attempts=1)
        return run_in_processes(app, tmp_path / "checkpoint", seen=see, **options)

    return run


def test_a_slot_that_is_stuck_again_and_again_fails_the_application(run):
    found, error = run(times=10, expect=OperatorError)
    assert (error.failure.operator, error.failure.window_id) == ("total", 3)
    assert "has not ended window 3 for" in error.failure.error
    assert found.ids == [0, 1, 2]
