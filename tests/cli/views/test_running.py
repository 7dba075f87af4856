import pytest

from ridgeline.cli.views.running import (
    progress_parts,
    running_line,
    running_lines,
    sources_table,
    verdict_line,
)
from support.cli import overviews

pytestmark = pytest.mark.usefixtures("utc")


def lines(progress, **how):
    return [line.plain for line in running_lines(progress, **how)]


def test_how_far_the_running_operator_is():
    assert lines(overviews.running_progress()) == [
        "window 1,235 runs for 20 s, 33% done, at least 41 s left",
        "  summing 20 of 60, about 40 s left",
    ]


def test_short_windows_say_nothing():
    assert lines({**overviews.running_progress(), "elapsedSeconds": 1.9}) == []
    assert lines(overviews.progress()) == []


def test_what_nobody_knows_is_left_out():
    progress = overviews.running_progress()
    window = {"remainingSeconds": None, "fractionDone": None, "basis": "unknown"}
    operator = {
        **progress["operators"][0],
        "inputRemaining": overviews.UNKNOWN,
        "remainingSeconds": overviews.UNKNOWN,
    }
    assert lines({**progress, "window": window, "operators": [operator]}) == [
        "window 1,235 runs for 20 s",
        "  summing 20",
    ]


def test_a_silent_container_is_named():
    silent = {"id": 3, "lastHeartbeatAgeSeconds": 31.4, "silent": True}
    assert lines({**overviews.progress(), "containers": [silent]}) == ["container 3 is silent for 31.4 s"]


def test_many_operators_are_counted():
    progress = overviews.running_progress()
    running = [{**progress["operators"][0], "operator": f"sum[{number}]"} for number in range(9)]
    assert lines({**progress, "operators": running})[-1] == "  and 5 more operators"


def test_the_same_in_one_line():
    progress = overviews.running_progress()
    line = "window 1,235 runs for 20 s, 33% done, at least 41 s left: summing 20 of 60"
    assert running_line(progress, after_seconds=5) == line
    running = [
        {**progress["operators"][0], "operator": f"sum[{number}]", "consumed": None} for number in range(5)
    ]
    silent = [{"id": 3, "lastHeartbeatAgeSeconds": 31.4, "silent": True}]
    assert running_line({**progress, "operators": running, "containers": silent}).endswith(
        " left: sum[0], sum[1], sum[2], sum[3], 1 more operator; container 3 is silent for 31.4 s"
    )
    assert running_line({**progress, "operators": []}) == line.partition(":")[0]
    assert not running_line(progress, after_seconds=20)
    assert not running_line({**progress, "running": False}, after_seconds=5)


def test_all_of_the_answer():
    assert overviews.drawn(*progress_parts(overviews.progress(), 100)) == [
        "catching up: 12,300 records, done at 12:27:20",
        "source           waits  in time  taken/s  arrive/s    caught up  verdict",
        "ticks   12,300 records   30.8 s      400        92  at 12:27:20  catching up",
        "no window runs now; the last one was 1,235",
    ]
    short = {**overviews.running_progress(), "elapsedSeconds": 0.5}
    assert overviews.drawn(*progress_parts(short, 100))[-1] == "  summing 20 of 60, about 40 s left"


def shown(source, width=100):
    return overviews.drawn(sources_table({"sources": [source]}, width, overviews.AT), width=width)


def test_a_source_that_is_worked_off():
    assert (
        shown(overviews.source())[1]
        == "ticks   12,300 records   30.8 s      400        92  in 40 s (12:27:20)  catching up"
    )
    assert shown(overviews.source(), 60)[0].split() == ["source", "waits", "caught", "up", "verdict"]


@pytest.mark.parametrize(
    ("backlog", "unit", "expected"),
    [
        ({"value": 5_000_000.0, "basis": "estimated"}, "bytes", "about 4.8 MiB"),
        ({"value": 70.0, "basis": "lower bound"}, "windows", "at least 70 windows"),
        ({"value": None, "basis": "exact", "infinite": True}, "records", "no end"),
        ({"value": None, "basis": "unknown"}, "records", "-"),
    ],
)
def test_what_waits_in_its_unit(backlog, unit, expected):
    assert expected in shown({**overviews.source(), "backlog": backlog, "unit": unit})[1]


def test_sources_that_say_nothing_are_left_out():
    unknown = {**overviews.source(), "verdict": "unknown", "backlog": {"value": None, "basis": "unknown"}}
    assert sources_table({"sources": [unknown]}, 100, None) is None


def line(at=overviews.AT, **application):
    return verdict_line(overviews.progress(**application), at).plain


@pytest.mark.parametrize(
    ("application", "expected"),
    [
        ({"verdict": "keeping up"}, "keeping up"),
        ({"verdict": "keeping up", "windowsBehind": 1}, "keeping up"),
        ({"verdict": "keeping up", "windowsBehind": 11}, "late: 11 windows behind"),
        ({}, "catching up: 12,300 records, done in 40 s (12:27:20)"),
        ({"basis": "estimated", "caughtUpAt": None}, "catching up: about 12,300 records"),
        ({"verdict": "holding", "basis": "lower bound"}, "holding: at least 12,300 records"),
        (
            {"verdict": "holding", "backlogRecords": None, "basis": "schedule"},
            "holding: about 40.0 s of work",
        ),
        (
            {"verdict": "falling behind", "windowsBehind": 12},
            "falling behind: 12,300 records, more arrives than is worked off, 12 windows behind",
        ),
        (
            {
                "verdict": "falling behind",
                "backlogRecords": None,
                "backlogSeconds": 0.0,
                "basis": "exact",
                "windowsBehind": 67,
            },
            "falling behind: nothing waits at the sources, but windows begin late, 67 windows behind",
        ),
        (
            {"verdict": "stuck", "backlogRecords": None, "backlogSeconds": None},
            "stuck: nothing is committed, and nothing moves",
        ),
        ({"verdict": "unknown"}, "no verdict yet: how much waits at the sources is not known"),
    ],
)
def test_each_verdict_in_a_line(application, expected):
    assert line(**application) == expected


def test_without_the_applications_clock_only_the_time_of_day_is_reported():
    assert line(at=None) == "catching up: 12,300 records, done at 12:27:20"


def test_a_stale_figure_says_how_old_it_is():
    assert line(verdict="keeping up", asOf=overviews.AT - 40.0) == "keeping up: as of 40 s ago"
    assert line(verdict="keeping up", asOf=overviews.AT - 1.0) == "keeping up"


def test_a_source_that_does_not_answer_is_named():
    progress = overviews.progress(verdict="unreachable", unreachable=["clicks"])
    progress = {**progress, "sources": [{"operator": "clicks", "problem": "Timed out"}]}
    assert (
        verdict_line(progress, overviews.AT).plain == "unreachable: source clicks does not answer: Timed out"
    )


def test_an_output_that_is_stuck_is_named_beside_the_verdict():
    found = line(verdict="keeping up", stuckOutputs=["`table` is stuck: the server is unavailable"])
    assert found == "keeping up; `table` is stuck: the server is unavailable"


def test_an_end_on_another_day_has_its_date():
    assert line(caughtUpAt=overviews.AT + 86_400.0).endswith("(2020-09-14 12:26:40)")
