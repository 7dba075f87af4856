from ridgeline.cli.views.phases import phases_parts, phases_table
from support.cli import overviews


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
