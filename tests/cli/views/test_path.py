import pytest

from ridgeline.cli.views.path import (
    average_path,
    critical_path_parts,
    path_text,
    phases_parts,
    phases_table,
    rest_text,
    short_path,
    slack_text,
)
from support.cli import overviews


def long_path(count):
    step = {"id": 1, "latencyMs": 1.0, "computeMs": 1.0, "transferMs": 0.0}
    return {**overviews.PATH, "path": [{**step, "operator": f"operator{number}"} for number in range(count)]}


def test_the_slowest_step_stands_out():
    text = path_text(overviews.PATH, 100)
    bold_red = [text.plain[span.start : span.end] for span in text.spans if span.style == "bold red"]
    assert bold_red == ["quote[1]"]


def test_a_long_path_loses_its_middle():
    assert path_text(long_path(30), 1000).plain.startswith(
        "critical path operator0 1.0 ms > operator1 1.0 ms > operator2 1.0 ms > operator3 1.0 ms > ... 22 "
        "more ... > operator26 1.0 ms"
    )
    assert short_path(long_path(30)) == "46 ms operator0 > operator1 > ... > operator28 > operator29"
    assert short_path(long_path(2)) == "46 ms operator0 > operator1"


def test_the_costliest_of_a_long_path_stays():
    path = long_path(30)
    path["path"][13]["latencyMs"] = 40.0
    assert "> operator13 40 ms >" in path_text(path, 1000).plain
    assert short_path(path) == "46 ms operator0 > operator1 > ... > operator13 > ... > operator29"


def test_the_rest_is_what_the_window_is_made_of_beside_the_path():
    rest = overviews.PATH["explained"]["rest"]
    assert sum(rest.values()) + overviews.PATH["latencyMs"] == overviews.PATH["windowLatencyMs"]
    assert (
        rest_text(overviews.PATH, 100).plain
        == "the rest Spark launch 30 ms, waiting for others 12 ms, commit 9.0 ms"
    )
    small = {**rest, "commit": 8.4, "staging": 0.5, "retries": 0.1}
    text = rest_text({**overviews.PATH, "explained": {"rest": small}}, 100).plain
    assert text == "the rest Spark launch 30 ms, waiting for others 12 ms, commit 8.4 ms, 2 more 0.6 ms"
    odd = {**overviews.PATH, "explained": {"rest": {"other": -3.0, "commit": 2.0}}}
    assert rest_text(odd, 100).plain == "the rest unexplained -3.0 ms, commit 2.0 ms"


def test_the_critical_path_of_the_averages():
    text = average_path(overviews.PATH, {"ticks": 4.0, "quote[1]": 43.0, "console": 3.0}, 100)
    assert text.plain == "ticks 4.0 ms (100%) > quote[1] 43 ms (96%) > console 3.0 ms (100%) = 50 ms"


def test_slack_names_who_is_closest_to_the_path():
    assert slack_text(overviews.PATH, 100).plain == "slack quote[0] 12 ms, sma 36 ms"
    many = {**overviews.PATH, "slack": {f"o{number}": float(number) for number in range(9, 0, -1)}}
    assert (
        slack_text(many, 100).plain
        == "slack o1 1.0 ms, o2 2.0 ms, o3 3.0 ms, o4 4.0 ms, o5 5.0 ms and 4 more"
    )


def test_all_of_the_answer():
    lines = overviews.drawn(*critical_path_parts(overviews.PATH, 100))
    assert lines == [
        "window 1,234",
        "critical path ticks 3.0 ms > quote[1] 41 ms > console 2.0 ms = 46 ms of 97 ms window",
        "the rest Spark launch 30 ms, waiting for others 12 ms, commit 9.0 ms",
        "slack quote[0] 12 ms, sma 36 ms",
        "on average ticks (100%) > quote[1] (96%) > console (100%) = 50 ms",
        "",
        "what the window waited for, from its trigger to its commit:",
        "what          operator    time  share",
        "planning                2.0 ms     2%",
        "Spark launch             30 ms    31%",
        "compute       quote[1]   40 ms    41%",
        "commit                   25 ms    26%",
        "window                   97 ms",
    ]


@pytest.mark.parametrize("draw", [path_text, rest_text, slack_text])
def test_nothing_before_the_first_window(draw):
    nothing = {
        **overviews.PATH,
        "path": [],
        "slack": {},
        "explained": {"rest": {}},
        "average": {"latencyMs": None, "path": []},
    }
    assert not draw(nothing, 100)
    assert overviews.drawn(*critical_path_parts(nothing, 100)) == ["no window is committed yet"]
    assert short_path(nothing) == ""


def row(phase, median, mean, p95, share, first):
    return {
        "phase": phase,
        "medianMs": median,
        "meanMs": mean,
        "p95Ms": p95,
        "share": share,
        "firstMs": first,
        "what": "",
    }


PHASES = [
    row("job launch", 7.0, 8.0, 12.0, 0.4, 900.0),
    row("user code", 10.0, 11.0, 30.0, 0.55, 12.0),
    row("unexplained", 0, 1, 2, 0.05, 0),
]
ANSWER = {
    "windows": 150,
    "leftOut": 50,
    "everyMs": 18.0,
    "explained": 0.95,
    "phases": PHASES,
    "window": row("window", 18.5, 20.0, 40.0, 1.0, 912.0),
}


def lines(answer, width=100):
    return [line.rstrip() for part in phases_parts(answer, width) for line in overviews.drawn(part)]


def test_phases_in_the_order_of_a_window_then_the_whole_and_how_much_of_it_has_a_name():
    assert lines(ANSWER) == [
        "phases of a window, 150 warm windows, without the first 50; a window every 18 ms:",
        "phase        median    mean     p95  share  first window",
        "job launch   7.0 ms  8.0 ms   12 ms  40.0%        900 ms",
        "user code     10 ms   11 ms   30 ms  55.0%         12 ms",
        "unexplained    0 ms  1.0 ms  2.0 ms   5.0%          0 ms",
        "window        18 ms   20 ms   40 ms               912 ms",
        "explained: 95.0%",
    ]


def test_a_run_of_one_window():
    assert (
        lines({**ANSWER, "windows": 1, "leftOut": 0, "everyMs": None})[0]
        == "phases of a window, 1 warm window:"
    )


def test_what_does_not_fit_is_left_out():
    assert overviews.drawn(phases_table(ANSWER, 45))[0].split() == ["phase", "median", "mean", "p95", "share"]
    assert overviews.drawn(phases_table(ANSWER, 32))[0].split() == ["phase", "median", "mean", "share"]
