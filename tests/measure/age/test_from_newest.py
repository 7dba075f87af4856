"""Ages from the newest record, of old data that is replayed, beside what follows by hand."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from ridgeline import Application
from ridgeline.cli.views.screen import sink_lines
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, SteppingClock, run_local

OLD = timedelta(days=269)


class Reading(NamedTuple):
    time: datetime
    value: int


def ages(windows, **attributes):
    """The ages in each window's readings: seconds before `OLD` ago."""
    clock = SteppingClock()
    begin = datetime.fromtimestamp(clock.wall(), tz=UTC) - OLD
    items = []
    for window in windows:
        items += [Reading(begin - timedelta(seconds=before), 0) for before in window] + [END_WINDOW]
    app = Application("ages", **attributes)
    source = app.add_operator("readings", ListInput(Reading, items, timestamp="time"))
    sink = app.add_operator("sink", CollectorSink(Reading))
    app.add_stream("readings", source.output, sink.input)
    return run_local(app, clock=clock).watch.record_age()


def rows(answer):
    return {(row["operator"], row["at"]): row for row in answer["operators"]}


def test_each_window_has_a_newest_record_of_its_own():
    answer = ages([(10, 13), (100, 101)], ages_from_newest_record=True)
    for row in rows(answer).values():
        assert row["maxMs"] == pytest.approx(3000, abs=0.01)
        assert row["avgMs"] == pytest.approx(1000, abs=0.01)


def test_without_the_attribute_ages_are_by_the_clock():
    answer = ages([(1, 2, 6)])
    assert answer["fromNewestRecord"] is False
    for row in rows(answer).values():
        assert row["minMs"] == OLD.total_seconds() * 1000 + 1000
    assert "record age at sink" in sink_lines(answer)[0].plain


def test_records_of_the_future_are_less_ahead():
    answer = ages([(-OLD.total_seconds() - 60, -OLD.total_seconds() - 50)], ages_from_newest_record=True)
    for row in rows(answer).values():
        assert row["maxMs"] == pytest.approx(10_000, abs=0.01)
        assert row["negative"] == 0
