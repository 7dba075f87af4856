import pytest

from ridgeline.cli.views.verdict import verdict_line
from support.cli import overviews

pytestmark = pytest.mark.usefixtures("utc")


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
