import io
import queue
from types import SimpleNamespace

import pytest
from rich.console import Console

from ridgeline.cli.running.view import (
    LiveView,
    LongWindows,
    PlainView,
    service_line,
    stopping_line,
    window_line,
)
from ridgeline.cli.settings import RunSettings
from ridgeline.testing import SteppingClock
from support.cli import overviews
from support.cli.overviews import overview, running_progress
from support.cli.windows import make_plan, run_window, watch_of, window
from support.waiting import PATIENCE_SECONDS

SETTINGS = RunSettings.of("app.py", windows=20)
PLAN = make_plan()


@pytest.fixture
def clock():
    return SteppingClock()


@pytest.fixture
def run():
    """A watch of a run that has not had a window yet; critical paths are not recorded."""
    return watch_of(PLAN, [], metrics_recording_level="OFF")


def shows(run, overview=overview):
    """What a view reads: how far the run is, and this overview."""
    return SimpleNamespace(run=run.run, overview=overview, own_metrics=lambda: {"metrics": []})


def test_plain_lines(run, clock):
    console = Console(file=io.StringIO(), highlight=False, width=40)
    view = PlainView(console, clock, "numbers", SETTINGS)
    view.starting()
    view.started("/data/state", 0, service_line("http://127.0.0.1:4711"), run)
    view.close()  # a thread that waits by a stepping clock would never wait
    for window_id in range(5):  # a line a second
        run_window(run, PLAN, window_id, 4000, at=0.5 * window_id, seconds=0.042)
        view.committed()
        clock.advance(0.5)
    view.retried(5, 1, "operator `double` failed\n  in many lines")
    view.stopping()
    view.close()
    assert console.file.getvalue().splitlines() == [
        (
            "numbers on local[*]: ends after 20 windows, or when all inputs have finished; Ctrl-C ends it "
            "after the windows under way"
        ),
        "starting Spark ...",
        "checkpoint /data/state (fresh)",
        "figures at http://127.0.0.1:4711",
        "window 0: 4,000 in, 4,000 out, 42 ms",
        "window 2: 4,000 in, 4,000 out, 42 ms; keeping up",
        "window 4: 4,000 in, 4,000 out, 42 ms; keeping up",
        "window 5 runs again (attempt 2): operator `double` failed in many lines",
        ("stopping after windows under way; Ctrl-C again ends it at once, to be run again at the next start"),
    ]


def test_a_window_in_a_line(run):
    found = run_window(run, PLAN, 1234, 4000, seconds=0.097)
    assert window_line(found, overview()) == (
        "window 1234: 4,000 in, 4,000 out, 97 ms; critical path 46 ms ticks > quote[1] > console; "
        "catching up: 12,300 records wait at ticks, caught up in 40 s"
    )


def test_who_stops_a_long_window_is_shown_how_long_it_takes():
    progress = running_progress()
    shown = "window 1,235 runs for 20 s, 33% done, at least 41 s left: summing 20 of 60"
    assert stopping_line(progress) == (
        f"stopping after windows under way ({shown}); Ctrl-C again ends it at once, "
        "to be run again at the next start"
    )
    for short in ({**progress, "elapsedSeconds": 1.0}, {**progress, "running": False}):
        assert stopping_line(short).startswith("stopping after windows under way; Ctrl-C again")


# The live screen --------------------------------------------------------------------------------------------


def make_live(clock, width=100, height=40):
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=height)
    return LiveView(console, clock, "numbers", SETTINGS)


def shown(view):
    console = Console(file=io.StringIO(), width=100, color_system=None)
    console.print(view.render())
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_first_window_that_takes_long_shows_its_progress(clock, run):
    live = make_live(clock)
    first = overview(windowId=None, progress=running_progress())
    live.started("/data/state", 0, metrics=shows(run, lambda: first))
    assert shown(live)[-1] == "  summing 20 of 60, about 40 s left"


def test_the_live_screen(clock, run):
    live = make_live(clock)
    events = [*window(PLAN, 0, 4000), *window(PLAN, 1, 2000, at=0.5, seconds=0.042)]
    watch = watch_of(PLAN, [])
    live.started("/data/state", 0, metrics=watch)
    for event in events:
        watch.observe(event)
    lines = shown(live)
    assert lines[0] == ""
    assert lines[2].startswith("window 1  latency 42 ms")
    assert lines[3].startswith("critical path source 1.0 ms > double[1] 7.0 ms > double.output#unifier")
    table = next(number for number, line in enumerate(lines) if line.startswith("operator "))
    titles = ["operator", "source", "double", "double.output#unifier", "sink", "█"]
    assert [line.split()[0] for line in lines[table : table + 6]] == titles


def test_progress_and_silence_are_shown_where_there_are_any(clock, run):
    live = make_live(clock)
    live.started("/data/state", 0, metrics=shows(run))
    run_window(run, PLAN, 0, 4000, at=clock.wall(), progress=(10.0, 90.0))
    run_window(run, PLAN, 1, 4000, at=clock.wall() + 2, progress=(20.0, 80.0))
    assert shown(live)[-1].endswith("20% 16.0 s left")
    clock.advance(5.05)
    live.stopping()
    assert shown(live)[-2:] == [
        "last commit 3.00 s ago",
        ("stopping after windows under way; Ctrl-C again ends it at once, to be run again at the next start"),
    ]


def test_what_is_printed_stands_above_the_screen(clock, run):
    live = make_live(clock)
    live.starting()
    live.started("/data/state", 0, "figures at http://127.0.0.1:4711", shows(run))
    run_window(run, PLAN)
    live.close()
    live.close()
    text = live._console.file.getvalue()
    assert text.index("/data/state") > text.index("starting Spark")
    assert "figures at http://127.0.0.1:4711" in text
    assert "\x1b[?25h" in text  # the cursor is back


def test_a_screen_that_cannot_be_drawn_does_not_end_the_run(clock, run):
    live = make_live(clock)
    live.started("/data/state", 0, metrics=shows(run, dict))
    assert shown(live) == ["the figures cannot be shown: KeyError: 'windowId'"]


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


@pytest.mark.parametrize(
    ("commits", "reported"), [([], [6, 16, 26, 36]), (range(3, 40, 3), []), (range(7, 40, 7), [6, 20, 34])]
)
def test_a_long_window_is_reported_every_ten_seconds_at_most(clock, commits, reported):
    run = Run(clock)
    seconds, lines = printed(run, 40, commits)
    assert seconds == reported
    assert bool(run.asked) == bool(reported)
    if not commits:
        assert lines[2] == "window 1,235 runs for 26 s, 33% done, at least 41 s left: summing 20 of 60"


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
    lines = [line.partition(",")[0] for line in out.getvalue().splitlines()[1:]]
    assert lines == ["window 1", "window 0: 10 in"]
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
