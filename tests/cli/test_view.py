import io

import pytest
from rich.console import Console

from cli.windows import make_plan, run_window
from ridgeline.cli.live import LiveView
from ridgeline.cli.settings import RunSettings
from ridgeline.cli.statistics import RunStatistics
from ridgeline.cli.view import PlainView, View, retry_line
from ridgeline.testing import SteppingClock

SETTINGS = RunSettings("app.py", windows=20)


@pytest.fixture
def clock():
    return SteppingClock()


@pytest.fixture
def run(clock):
    return RunStatistics(make_plan(), clock)


def test_plain_lines(run, clock):
    console = Console(file=io.StringIO(), highlight=False, width=40)
    view = PlainView(console, clock, "numbers", SETTINGS)
    view.starting()
    view.started("/data/state", 0)
    for window_id in range(5):  # a line a second
        view.committed(run_window(run, window_id, 4000, seconds=0.042))
        clock.advance(0.5)
    view.retried(5, 1, "operator `double` failed\n  in many lines")
    view.stopping()
    view.close()
    assert console.file.getvalue().splitlines() == [
        "numbers on local[*]: ends after 20 windows, or when all inputs have finished; Ctrl-C ends it after the window that runs",
        "starting Spark ...",
        "checkpoint /data/state (fresh)",
        "window 0: 4,000 in, 4,000 out, 42 ms",
        "window 2: 4,000 in, 4,000 out, 42 ms",
        "window 4: 4,000 in, 4,000 out, 42 ms",
        "window 5 runs again (attempt 2): operator `double` failed in many lines",
        "stopping after this window; press Ctrl-C again to kill it",
    ]


def test_a_run_that_goes_on_says_from_where(clock):
    console = Console(file=io.StringIO())
    PlainView(console, clock, "numbers", SETTINGS).started("/data/state", 37)
    assert console.file.getvalue() == "checkpoint /data/state (goes on from window 37)\n"


def test_quiet_says_nothing(capsys, run):
    view = View()
    view.starting()
    view.started("/data/state", 0)
    view.committed(run_window(run))
    view.retried(0, 1, "why")
    view.stopping()
    view.close()
    assert capsys.readouterr() == ("", "")


def test_long_reasons_are_cut():
    assert retry_line(3, 1, "x" * 1000) == f"window 3 runs again (attempt 2): {'x' * 240} ..."


def shown(view):
    console = Console(file=io.StringIO(), width=100, color_system=None)
    console.print(view.render())
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.fixture
def live(run, clock):
    return LiveView(Console(file=io.StringIO(), force_terminal=True, width=100), clock, run, SETTINGS)


def test_before_the_first_window(live):
    assert shown(live)[0].endswith("starting Spark ...")
    live.started("/data/state", 0)
    assert shown(live)[0].endswith("running the first window of numbers ...")


def test_the_live_table(live, run, clock):
    run_window(run, 0, 4000)
    clock.advance(0.5)
    run_window(run, 1, 2000, seconds=0.042)
    assert shown(live) == [
        "",
        "window 1  time 42 ms  in 2,000  out 2,000  tuples/s 4,000",
        "operator               partitions     in    out    time  total in  total out",
        "source                          1      0  2,000  1.0 ms         0      6,000",
        "double                          2  2,000  2,000  8.0 ms     6,000      6,000",
        "double.output#unifier           1  2,000  2,000  1.0 ms     6,000      6,000",
        "sink                            1  2,000      0  1.0 ms     6,000          0",
    ]


def test_errors_drops_progress_and_silence_are_shown_where_there_are_any(live, run, clock):
    run_window(run, 0, 4000, progress=(10.0, 90.0))
    clock.advance(2)
    run_window(run, 1, 4000, progress=(20.0, 80.0), errors=["a", "b"], dropped=True)
    clock.advance(3)
    live.stopping()
    lines = shown(live)
    assert lines[1].endswith("last commit 3.00 s ago")
    assert lines[2].split()[-3:] == ["errors", "dropped", "windows"]
    assert lines[4].split()[-2:] == ["2", "1"]
    assert lines[-2].endswith("20% 16.0 s left")
    assert lines[-1] == "stopping after this window; press Ctrl-C again to kill it"


def test_what_is_printed_stands_above_the_table(live, run):
    live.starting()
    live.started("/data/state", 0)
    run_window(run)
    live.close()
    live.close()
    text = live._console.file.getvalue()
    assert text.index("/data/state") > text.index("starting Spark")
    assert text.endswith("\x1b[?25h") or "\x1b[?25h" in text  # the cursor is back


def test_narrow_terminals_get_fewer_columns(run, clock):
    live = LiveView(Console(file=io.StringIO(), force_terminal=True, width=50), clock, run, SETTINGS)
    run_window(run, 0, 4000)
    assert shown(live)[2].split() == ["operator", "in", "out", "time"]
    assert "double.output#unifier" in shown(live)[5]
