import io
import queue
from types import SimpleNamespace

import pytest
from rich.console import Console

from ridgeline.cli.running.view import LongWindows, PlainView
from ridgeline.cli.settings import RunSettings
from ridgeline.testing import SteppingClock
from support.cli import overviews
from support.waiting import PATIENCE_SECONDS


class Steps(SteppingClock):
    """Who waits goes on when the test says so."""

    def __init__(self):
        super().__init__()
        self.waits = queue.Queue()
        self.steps = queue.Queue()

    def wait(self, seconds, stop=None):
        self.waits.put(seconds)
        self.steps.get(timeout=PATIENCE_SECONDS)
        return super().wait(seconds, stop)

    def step(self):
        """Let one wait end, and come back when the next one has begun."""
        self.steps.put(None)
        self.waits.get(timeout=PATIENCE_SECONDS)


class Run:
    """A run whose window began at second `began`, None between windows."""

    def __init__(self, clock):
        self.clock = clock
        self.began = 0.0
        self.asked = 0

    def progress(self):
        self.asked += 1
        running = self.began is not None
        return {
            **overviews.running_progress(),
            "running": running,
            "elapsedSeconds": self.clock.monotonic() - self.began if running else 0.0,
        }


@pytest.fixture
def clock():
    return SteppingClock()


def printed(run, seconds, windows=None):
    """The seconds at which there was a line, one look a second.

    `windows` are committed at these seconds, and the next ones begin.
    """
    lines = []
    long_windows = LongWindows(run.clock, run.progress, lines.append)
    found = []
    for second in range(1, seconds + 1):
        run.clock.advance(1)
        if second in (windows or ()):
            run.began = float(second)
            long_windows.committed()
        before = len(lines)
        long_windows.look()
        found += [second] * (len(lines) - before)
    return found, lines


def test_a_long_window_is_reported_every_ten_seconds(clock):
    seconds, lines = printed(Run(clock), 40)
    assert seconds == [6, 16, 26, 36]
    assert lines[2] == "window 1,235 runs for 26 s, 33% done, at least 41 s left: summing 20 of 60"


def test_short_windows_are_neither_reported_nor_asked_about(clock):
    run = Run(clock)
    assert printed(run, 40, windows=range(3, 40, 3)) == ([], [])
    assert run.asked == 0


def test_windows_of_seven_seconds_have_a_line_every_ten_at_most(clock):
    assert printed(Run(clock), 40, windows=range(7, 40, 7))[0] == [6, 20, 34]


def test_nothing_is_said_between_windows(clock):
    run = Run(clock)
    run.began = None
    assert printed(run, 40) == ([], [])


LAST = {"windowId": 0, "tuplesIn": 10, "tuplesOut": 10, "seconds": 7.0}


def plain_view(clock, progress):
    console = Console(file=io.StringIO(), highlight=False)
    view = PlainView(console, clock, "numbers", RunSettings.of("app.py"))
    view.started(
        "/data/state",
        0,
        metrics=SimpleNamespace(progress=progress, overview=overviews.overview, run=lambda: {"last": LAST}),
    )
    clock.waits.get(timeout=PATIENCE_SECONDS)
    return view, console.file


def test_a_thread_of_the_view_looks_until_the_end():
    clock = Steps()
    run = Run(clock)
    view, out = plain_view(clock, run.progress)
    for _ in range(7):
        clock.step()
    view.committed()
    run.began = clock.monotonic()
    for _ in range(8):
        clock.step()
    assert [line.partition(",")[0] for line in out.getvalue().splitlines()[1:]] == [
        "window 1",
        "window 0: 10 in",
    ]
    clock.steps.put(None)
    view.close()
    view.close()
    assert not view._long_windows._thread.is_alive()


def test_progress_that_fails_is_reported_once_and_not_asked_again():
    clock = Steps()
    view, out = plain_view(clock, dict)
    for _ in range(4):
        clock.step()
    clock.steps.put(None)
    view._long_windows._thread.join(PATIENCE_SECONDS)
    view.close()
    assert out.getvalue().splitlines()[1:] == ["progress cannot be shown: KeyError: 'running'"]
