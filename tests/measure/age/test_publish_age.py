"""How old records are when readers may see them: the place `publish`."""

import pytest

from ridgeline.measure.age.fold import PENDING_SAMPLES
from ridgeline.measure.events import OutputPublished
from support.measure.story import age, begin, burst, measured


def story(windows, published):
    """Windows with two records each, one and three seconds old at the end.

    `published`: by window, the event that follows its reports.
    """
    for window in range(windows):
        *reports, commit = burst(window, ages=(age("commit"),))
        yield from begin(window)
        yield from reports
        if window in published:
            yield OutputPublished(window + 0.6, "write", published[window])
        yield commit


def ages(measurement, place, now):
    rows = {row["at"]: row for row in measurement.record_age(now)["operators"]}
    return rows.get(place)


def test_records_of_an_output_that_publishes_each_window_are_seen_right_after_the_commit():
    measurement = measured(*story(5, {window: window for window in range(5)}))
    commit, publish = ages(measurement, "commit", 5.0), ages(measurement, "publish", 5.0)
    assert publish["count"] == commit["count"] == 10
    assert publish["minMs"] - commit["minMs"] == pytest.approx(50.0)  # committed at 0.55 s, published at 0.6
    assert publish["p99Ms"] == pytest.approx(commit["p99Ms"] + 50.0, rel=0.01)


def test_records_that_an_output_holds_back_are_older():
    measurement = measured(*story(10, {9: 9}))
    publish = ages(measurement, "publish", 10.0)
    assert publish["count"] == 20
    assert publish["minMs"] == pytest.approx(1200.0)
    assert publish["maxMs"] == pytest.approx(9_000 + 3_200.0)
    assert publish["p50Ms"] == pytest.approx(6_200, rel=0.02)


def test_what_is_published_between_windows_counts_then():
    measurement = measured(*story(3, {}))
    assert ages(measurement, "publish", 3.0) is None
    measurement.apply(OutputPublished(20.0, "write", 1))
    publish = ages(measurement, "publish", 20.0)
    assert (publish["count"], publish["maxMs"]) == (
        4,
        pytest.approx((20.0 - 0.45 + 3.0 - 0.0) * 1000, abs=100),
    )
    measurement.apply(OutputPublished(30.0, "write", 2))
    assert ages(measurement, "publish", 30.0)["count"] == 6


def test_pending_samples_are_bounded():
    measurement = measured(*story(PENDING_SAMPLES + 100, {}))
    assert measurement._ages._publish.pending <= PENDING_SAMPLES + 1
