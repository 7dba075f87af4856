import pytest

from ridgeline.cli.views.running import progress_parts, running_line, running_lines
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
