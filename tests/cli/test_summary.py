import io

import pytest
from rich.console import Console

from cli.windows import make_plan, run_window
from ridgeline.cli.settings import RunSettings
from ridgeline.cli.statistics import RunStatistics
from ridgeline.cli.summary import ended_line, print_summary
from ridgeline.engine.launch import Outcome
from ridgeline.testing import SteppingClock

SETTINGS = RunSettings("app.py", "local[2]", ["spark.x=a b"], None, ["a.b=1"], ["c.d=2"], 20, options=["--output", "out"])
COMMAND = "ridgeline run app.py --master 'local[2]' --conf 'spark.x=a b' -D a.b=1 --attribute c.d=2 --windows 20"
FAILURE = (
    "operator `double` (partition 0) of application `numbers` failed in window 10 in `process of port input`: "
    "ValueError: 3; the tuple was Number(value=3)"
)


@pytest.mark.parametrize(
    ("outcome", "stopped_by", "expected"),
    [
        (Outcome(50, 49, True, "s"), "", "finished: all inputs have given everything, 50 windows committed"),
        (Outcome(50, 49, True, "s"), "Ctrl-C", "finished: all inputs have given everything, 50 windows committed"),
        (Outcome(0, 49, True, "s"), "", "nothing to do: all inputs had finished with window 49"),
        (Outcome(1, 20, False, "s"), "", "stopped after 1 window"),
        (Outcome(3, 20, False, "s"), "Ctrl-C", "stopped by Ctrl-C after 3 windows"),
        (Outcome(0, -1, False, "s"), "SIGTERM", "stopped by SIGTERM before the first window"),
    ],
)
def test_how_it_ended(outcome, stopped_by, expected):
    assert ended_line(outcome, stopped_by) == expected


def printed(outcome, windows):
    clock = SteppingClock()
    run = RunStatistics(make_plan(), clock)
    for window in windows:
        clock.advance(0.5)
        run_window(run, **window)
    console = Console(file=io.StringIO(), width=160, highlight=False)
    print_summary(console, outcome, run, SETTINGS, "")
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_the_summary_of_a_run():
    windows = [{"window_id": 7 + number, "seconds": 0.05 + 0.001 * number, "tuples": 1000} for number in range(11)]
    windows[3] |= {"errors": ["Number(value=1)"], "dropped": True}
    stages = len(make_plan().execution.stages)
    assert stages == 3
    assert printed(Outcome(11, 17, False, "/data/state"), windows) == [
        "",
        "stopped after 11 windows",
        "windows 7 to 17 in 5.50 s",
        "window time: median 56 ms, 90% within 60 ms; the first one 50 ms",
        "",
        "where a window's time goes, on average; the first three inside of containers:",
        "restore    run   write  Spark  stage  commit  publish",
        " 3.0 ms  15 ms  6.0 ms  20 ms   0 ms  5.5 ms   5.5 ms",
        "     5%    27%     11%    37%     0%     10%      10%",
        "",
        "operator               partitions      in     out   time  per window  errors  dropped windows",
        "source                          1       0  11,000  11 ms      1.0 ms       0                0",
        "double                          2  11,000  11,002  88 ms      8.0 ms       1                1",
        "double.output#unifier           1  11,000  11,000  11 ms      1.0 ms       0                0",
        "sink                            1  11,000       0  11 ms      1.0 ms       0                0",
        "",
        "errors: double 1",
        "  double, window 10: Number(value=1)",
        "",
        "dropped (AT_MOST_ONCE): double 1 window; the last ones:",
        f"  {FAILURE}",
        "",
        "go on with:",
        f"  {COMMAND} --checkpoint /data/state --output out",
    ]


def test_the_summary_of_a_run_that_finished():
    lines = printed(Outcome(1, 0, True, "/data/state"), [{"seconds": 0.05}])
    assert lines[1:4] == [
        "finished: all inputs have given everything, 1 window committed",
        "window 0 in 500 ms",
        "window time: 50 ms",
    ]
    assert lines[-1] == "the run's state is in /data/state; it is not needed any more"


def test_the_summary_of_a_run_without_windows():
    assert printed(Outcome(0, -1, False, "s"), [])[:4] == ["", "stopped after 0 windows", "", "go on with:"]


def test_options_that_the_command_would_take_stay_behind_a_double_dash():
    settings = RunSettings("app.py", options=["--windows", "3"])
    assert settings.command("s") == "ridgeline run app.py --checkpoint s -- --windows 3"
