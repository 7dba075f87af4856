import pytest

from ridgeline.cli.views.window_time import average_phases, blame_table, window_time_table
from support.cli import overviews

WINDOWS = [
    {"phases": {"launch": 30.0, "compute": 40.0, "commit": 5.0}},
    {"phases": {"launch": 10.0, "compute": 60.0, "read": 5.0}},
]


def test_phases_add_up_to_the_mean_latency():
    assert average_phases(WINDOWS) == {"launch": 20.0, "compute": 50.0, "commit": 2.5, "read": 2.5}
    assert sum(average_phases(WINDOWS).values()) == pytest.approx((75 + 75) / 2)


def test_the_most_comes_first_and_the_sum_last():
    assert overviews.drawn(window_time_table(WINDOWS, 100)) == [
        "what            time  share",
        "compute        50 ms    67%",
        "Spark launch   20 ms    27%",
        "commit        2.5 ms     3%",
        "reading       2.5 ms     3%",
        "window         75 ms",
    ]


def test_small_steps_of_a_blame_chain_are_put_together():
    blame = [
        {"what": "compute", "operator": "a", "ms": 99.0},
        *({"what": "other", "operator": "", "ms": 0.25} for _ in range(4)),
    ]
    assert overviews.drawn(blame_table(blame, 100)) == [
        "what           operator    time  share",
        "compute        a          99 ms    99%",
        "4 small steps            1.0 ms     1%",
        "window                   100 ms",
    ]
