import io
from dataclasses import replace

import pytest
from rich.console import Console

from ridgeline.cli.running.summary import ended_line, errors, print_summary, promises, read_report, summary
from ridgeline.cli.settings import RunSettings
from ridgeline.engine.driver.run.options import Outcome
from ridgeline.engine.process.log_channel import LogFormat, LogLevel
from ridgeline.measure.events import PromiseChanged, WindowCommitted, WindowReported
from support.cli.windows import make_plan, watch_of, window
from support.measure.reports import changed

SETTINGS = RunSettings.of(
    "app.py",
    master="local[2]",
    conf=["spark.x=a b"],
    properties=["a.b=1"],
    attributes=["c.d=2"],
    windows=20,
    own=["--output", "out"],
)
COMMAND = (
    "ridgeline run app.py --master 'local[2]' -D a.b=1 --attribute c.d=2 --conf 'spark.x=a b' --windows 20"
)
FAILURE = (
    "operator `double` (partition 0) of application `numbers` failed in window 10 in `process of port "
    "input`: "
    "ValueError: 3; the tuple was Number(value=3)"
)


@pytest.mark.parametrize(
    ("outcome", "stopped_by", "expected"),
    [
        (Outcome(50, 49, True, "s"), "", "finished: all inputs have given everything, 50 windows committed"),
        (Outcome(0, 49, True, "s"), "", "nothing to do: all inputs had finished with window 49"),
        (Outcome(1, 20, False, "s"), "", "stopped after 1 window"),
        (Outcome(3, 20, False, "s"), "Ctrl-C", "stopped by Ctrl-C after 3 windows"),
        (Outcome(0, -1, False, "s"), "SIGTERM", "stopped by SIGTERM before the first window"),
    ],
)
def test_how_it_ended(outcome, stopped_by, expected):
    assert ended_line(outcome, stopped_by) == expected


def printed(outcome, windows, settings=SETTINGS):
    plan = make_plan()
    events = [
        event for number, given in enumerate(windows) for event in window(plan, at=0.5 * number, **given)
    ]
    watch = watch_of(plan, events)
    figures = watch.summary(), read_report(watch, 10.0)
    console = Console(file=io.StringIO(), width=160, highlight=False)
    print_summary(console, outcome, figures, settings, "")
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_tasks_that_spark_began_again_are_reported():
    plan = make_plan()
    events = [
        replace(event, tasks_retried=2) if isinstance(event, WindowCommitted) else event
        for event in window(plan)
    ]

    assert (
        str(next(iter(summary(watch_of(plan, events).summary(), 100))))
        == "window 0 in 50 ms, 2 tasks begun again by Spark: processes were lost"
    )


@pytest.mark.parametrize(
    ("verdicts", "lines"),
    [
        ([], []),
        ([(0.0, "a", True), (0.0, "b", True)], ["2 promises kept"]),
        ([(0.0, "a", True), (0.0, "b", None)], ["1 promise kept; nothing can be said of 1"]),
        (
            [(0.0, "a", True), (0.01, "a", False), (0.03, "a", True), (0.02, "b", False)],
            [
                "promise a was broken for 20 ms (1 time)",
                "promise b was broken for 30 ms (1 time, still at the end)",
            ],
        ),
    ],
)
def test_promises_that_were_broken_are_named(verdicts, lines):
    plan = make_plan()
    events = [
        *window(plan),
        *(PromiseChanged(at, name, "latency", name, kept, 1.0, 2.0, "s") for at, name, kept in verdicts),
    ]
    run = watch_of(plan, events).summary()
    assert [str(line) for line in promises(run)][1:] == lines


def test_the_summary_of_a_run():
    windows = [
        {"window_id": 7 + number, "seconds": 0.05 + 0.001 * number, "tuples": 1000} for number in range(11)
    ]
    windows[3] |= {"errors": ["Number(value=1)"], "dropped": True}
    lines = printed(Outcome(11, 17, False, "/data/state"), windows)
    assert max(map(len, lines[:26])) <= 100
    assert lines == [
        "",
        "stopped after 11 windows",
        "windows 7 to 17 in 5.06 s",
        "window time: median 56 ms, 90% within 60 ms; the first one 50 ms",
        "",
        "operator               partitions      in     out   time  per window  errors  dropped windows",
        "source                          1       0  11,000  11 ms      1.0 ms       0                0",
        "double                          2  11,000  11,002  88 ms      8.0 ms       1                1",
        "double.output#unifier           1  11,000  11,000  11 ms      1.0 ms       0                0",
        "sink                            1  11,000       0  11 ms      1.0 ms       0                0",
        "",
        "critical path, average of the last 10 windows (in brackets: share of windows on the path):",
        "source 1.0 ms (100%) > double[1] 7.0 ms (100%) > double.output#unifier 0 ms (100%)",
        "  > sink 0 ms (100%) = 8.0 ms",
        "slack double[0] 4.0 ms",
        "",
        "where the time of a typical window goes (the middle half of 10 by latency):",
        "what                  time  share",
        "collecting results   36 ms    65%",
        "unexplained          10 ms    18%",
        "commit              5.5 ms    10%",
        "state files         2.0 ms     4%",
        "state restore       1.0 ms     2%",
        "compute             1.0 ms     2%",
        "window               55 ms",
        "",
        "keeping up: a window takes 60 ms, 67% of it collecting results and 12% double[1]",
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
    outcome = Outcome(1, 0, True, "/data/state")
    lines = printed(
        outcome,
        [{"seconds": 0.05}],
        replace(SETTINGS, options=replace(SETTINGS.options, checkpoint="/data/state")),
    )
    assert lines[1:4] == [
        "finished: all inputs have given everything, 1 window committed",
        "window 0 in 50 ms",
        "window time: 50 ms",
    ]
    assert lines[-1] == "the run's state is in /data/state; it is not needed any more"
    sentence = "running: a window takes 50 ms, 62% of it collecting results and 14% double[1]"
    assert printed(outcome, [{"seconds": 0.05}])[-1] == sentence, "a temporary folder is gone"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"conf_file": ["low.yaml", "high one.yaml"], "no_config": True},
            "--conf-file low.yaml --conf-file 'high one.yaml' --no-config --checkpoint s",
        ),
        ({"own": ["--windows", "3"]}, "--checkpoint s -- --windows 3"),
        (
            {"log_level": LogLevel.DEBUG, "log_file": "run.log", "log_format": LogFormat.JSON},
            "--log-level DEBUG --log-file run.log --log-format json --checkpoint s",
        ),
        (
            {"host": "0.0.0.0", "port": 8080, "token": "secret", "event_log": "run.jsonl"},
            "--port 8080 --host 0.0.0.0 --event-log run.jsonl --checkpoint s",
        ),
        ({"otlp": "http://c:4318"}, "--otlp http://c:4318 --checkpoint s"),
    ],
)
def test_the_command_to_continue_has_what_the_run_had_but_no_token(given, expected):
    assert RunSettings.of("app.py", **given).command("s") == f"ridgeline run app.py {expected}"


def test_late_records_are_named_at_the_end():
    plan = make_plan()
    double = {one.id for one in plan.physical.operators if one.name == "double" and not one.unifier}

    def late(own):
        return replace(own, late=3) if own.operator in double else own

    events = [changed(event, late) if isinstance(event, WindowReported) else event for event in window(plan)]
    found = [str(part) for part in errors(watch_of(plan, events).summary())]
    assert found[1] == f"late: double {3 * len(double)}"
    assert "a larger `lateness`" in found[2]
    assert not list(errors(watch_of(plan, list(window(plan))).summary()))
