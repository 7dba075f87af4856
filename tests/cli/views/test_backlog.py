import pytest

from ridgeline.cli.views.backlog import sources_table
from support.cli import overviews

pytestmark = pytest.mark.usefixtures("utc")


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
