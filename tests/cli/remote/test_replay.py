"""`ridgeline replay`: logs that the writer wrote, and what users may give instead."""

import json
import tarfile

import pytest

from ridgeline.measure.events import ApplicationEnded
from ridgeline.service.event_log import EventLogWriter
from support.cli.windows import make_plan, planned, window
from support.paths import SUPPORT

PLAN = make_plan()
PLANNED = planned(PLAN)
WINDOWS = [
    event
    for number in range(3)
    for event in window(PLAN, number, at=0.5 * number, errors=["Number(value=1)"])
]
EVENTS = [PLANNED, *WINDOWS, ApplicationEnded(1.6, "finished")]

pytestmark = pytest.mark.usefixtures("utc")


@pytest.fixture
def write_log(tmp_path):
    def write(name, events=EVENTS):
        writer = EventLogWriter(str(tmp_path / name))
        for event in events:
            writer.write(event)
        writer.close()
        return name

    return write


def test_the_tables_of_the_runs_end(ridgeline_command, write_log):
    result = ridgeline_command("replay", write_log("run.jsonl"))
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert lines[:3] == [
        "numbers on local[2], began 00:00:00, 1.60 s; finished",
        "windows 0 to 2 in 1.05 s",
        "window time: median 50 ms, 90% within 50 ms; the first one 50 ms",
    ]
    assert "source 1.0 ms (100%) > double[1] 7.0 ms (100%) > double.output#unifier 0 ms (100%)" in lines
    assert "where the time of a typical window goes (the middle half of 2 by latency):" in lines
    assert lines[-1] == "  double, window 2: Number(value=1)"
    assert max(map(len, lines)) <= 100


def test_one_window(ridgeline_command, write_log):
    write_log("run.jsonl")
    lines = [
        line.rstrip()
        for line in ridgeline_command("replay", "run.jsonl", "--window", "1").stdout.splitlines()
    ]
    assert lines[0] == "triggered 00:00:00, 0 ms late; 100 tuples in, 100 out"
    assert lines[1] == "window 1"
    assert lines[2].startswith("critical path source 1.0 ms > double[1] 7.0 ms")
    found = json.loads(ridgeline_command("replay", "run.jsonl", "--window", "1", "--json").stdout)
    assert sum(step["ms"] for step in found["blame"]) == pytest.approx(found["latencyMs"])


def test_no_such_log_and_no_such_window(ridgeline_command, write_log):
    for command in ("replay", "history"):
        result = ridgeline_command(command, "none.jsonl")
        assert (result.exit_code, "there is no event log `none.jsonl`" in result.stderr) == (2, True)
    result = ridgeline_command("replay", write_log("run.jsonl"), "--window", "7")
    assert (result.exit_code, "window 7 is not known; kept are 0 to 2" in result.stderr) == (2, True)


def test_an_event_log_of_an_earlier_version_has_the_figures_of_then(ridgeline_command, tmp_path):
    """Version 162384e1 wrote the log (its reports are one event a window since), its `replay` the figures."""
    with tarfile.open(SUPPORT / "cli" / "recorded-events.tar.xz") as tar:
        tar.extractall(tmp_path, filter="data")
    result = ridgeline_command("replay", str(tmp_path / "events.jsonl"), "--json")
    assert result.exit_code == 0, result.output
    assert_has(json.loads(result.stdout), json.loads((tmp_path / "figures.json").read_text()), "figures")


def test_an_event_log_with_an_event_for_each_operator_is_refused(ridgeline_command):
    result = ridgeline_command("replay", str(SUPPORT / "service" / "log-of-0.1.0.jsonl"))
    assert result.exit_code == 1
    assert "` is no event of this version; the one that wrote it can read the log" in result.stderr


GONE = {"forecastErrorSeconds", "explained", "consumedByPort", "own", "held"}
RATES = {"tuplesProcessedPSMA", "tuplesEmittedPSMA", "tuplesPSMA"}
OTHERWISE = {"blame", "arrivalPerSecond", "caughtUpAt", "tuplesOut", *RATES, *GONE}
"""What is told by another rule since: who fills a slot, what arrives, rates after a change of the plan."""
ASIDE = {"dead_letters"}
"""Hides no output from ages any more."""


def assert_has(now, then, where):
    """All that `then` says is in `now`; there may be more fields."""
    if isinstance(then, dict):
        for key, value in then.items():
            assert key in now or key in GONE, f"{where}.{key} is gone"
            if key not in OTHERWISE:
                assert_has(now[key], value, f"{where}.{key}")
    elif isinstance(then, list):
        if where.endswith("recordAge.operators"):
            then = [row for row in then if row["operator"] not in ASIDE]
        assert len(now) == len(then), where
        for number, (one, other) in enumerate(zip(now, then, strict=True)):
            assert_has(one, other, f"{where}[{number}]")
    elif isinstance(then, float):
        assert now == pytest.approx(then, rel=1e-12), where  # sums may be added up in another order
    else:
        assert now == then, where
