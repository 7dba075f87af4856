"""The ages of records: samples, figures, clocks that are off, when readers see them, and old data."""

import math
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline import Application
from ridgeline.api.times import NO_TIME
from ridgeline.cli.views.screen import sink_lines
from ridgeline.measure.age.fold import PENDING_SAMPLES
from ridgeline.measure.age.histogram import TRANSPORT_BITS, Histogram, bucket, lower_bounds
from ridgeline.measure.age.record_age import AGE_BOUNDS_SECONDS, RecordAges, sample
from ridgeline.measure.events import OutputPublished
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, SteppingClock, run_local
from support.depth import deep
from support.measure.story import age, begin, burst, measured

NOW = 1_700_000_000
NOW_US = NOW * 1_000_000
YEARS_US = 26 * 31_557_600_000_000


def of_ages(ages_us, place="emit", now=NOW):
    times = now * 1_000_000 - np.array(ages_us, dtype=np.int64)
    return sample(place, [times], None, now)


def apart(ages_us):
    """The buckets of ages that are not negative, less the least of them, and of the negative ones."""
    known = [[age for age in ages_us if age >= 0], [age for age in ages_us if age < 0]]
    found = []
    for part in known:
        histogram = Histogram(TRANSPORT_BITS)
        if part:
            histogram.add((np.array(part) - min(part)) * 1e-6)
        found.append(histogram.buckets())
    return tuple(found)


# ------------------------------------------------------------------------------------------------ sample


def test_a_sample_is_exact():
    found = of_ages([1, 2_000_000, 500_000, -250_000])
    assert (found.place, found.count, found.negative) == ("emit", 4, 1)
    assert (found.minimum, found.maximum, found.total, found.oldest_maximum) == (-0.25, 2.0, 2.250001, 2.0)
    assert sum(count for _, count in found.buckets) == 3


@pytest.mark.parametrize("spread_us", [0, 50, 2_000_000, 2 * YEARS_US])
@pytest.mark.parametrize("size", [8191, 8192, 8193, 40_000])
@pytest.mark.parametrize("in_order", [False, True])
def test_large_batches_are_counted_whole(spread_us, size, in_order):
    ages_us = np.random.default_rng(size).integers(-spread_us // 10, spread_us + 1, size)
    ages_us = np.sort(ages_us)[::-1] if in_order else ages_us
    found = of_ages(ages_us)
    assert (found.buckets, found.ahead) == apart(ages_us.tolist())
    assert found.total == sum(ages_us.tolist()) / 1_000_000  # of integers: rounded once
    assert found.negative == int((ages_us < 0).sum())


@pytest.mark.parametrize("seconds", [1e-4, 1.0, 30.0, 86_400.0, 1e9])
def test_ages_at_the_bounds_of_buckets_are_in_the_same_bucket_in_any_order(seconds):
    number = bucket(seconds, TRANSPORT_BITS)
    bounds = np.ceil(lower_bounds(np.arange(number, number + 300), TRANSPORT_BITS) * 1e6).astype(np.int64)
    ages_us = np.append(0, np.unique(bounds[:, None] + [-1, 0, 1]))
    assert of_ages(ages_us[::-1].copy()) == of_ages(np.random.default_rng(3).permutation(ages_us))


def test_records_without_a_timestamp_are_left_out():
    times = np.array([NO_TIME, NOW_US - 3_000_000, NO_TIME])
    found = sample("source", [times], None, NOW)
    assert (found.count, found.minimum, found.maximum) == (1, 3.0, 3.0)
    assert sample("source", [times[:1]], None, NOW) is None
    assert sample("source", [times[:0]], None, NOW) is None


def test_the_oldest_records_of_results_are_distinguished():
    newest = np.array([NOW_US - 1_000_000, NOW_US - 2_000_000])
    oldest = np.array([NOW_US - 9_000_000, NO_TIME])
    found = sample("emit", [newest], [oldest], NOW)
    assert (found.maximum, found.oldest_maximum) == (2.0, 9.0)
    assert sample("emit", [newest], [np.full(2, NO_TIME)], NOW).oldest_maximum == 2.0


def test_timestamps_from_the_ends_of_time_do_not_overflow():
    times = np.array([np.iinfo(np.int64).max, np.iinfo(np.int64).min + 1, NOW_US])
    found = sample("emit", [times], None, NOW)
    assert (found.count, found.negative) == (3, 1)
    assert found.minimum == pytest.approx(-(2**61) / 1e6, rel=0.01)
    assert found.maximum == pytest.approx(2**61 / 1e6, rel=0.01)
    assert found.total == pytest.approx(3 * NOW - NOW)  # the two ends cancel


# ------------------------------------------------------------------------------------------------ figures


def test_a_minute_without_records_leaves_no_figures():
    ages = RecordAges()
    ages.add(1, of_ages([1_000_000]), NOW + 0.5)
    assert ages.figures(1, "emit", NOW + 60.9).maximum == 1.0
    assert ages.figures(1, "emit", NOW + 61) is None
    assert ages.places(1) == ("emit",)
    assert ages.figures(1, "source", NOW) is None
    assert ages.figures(2, "emit", NOW) is None


def test_figures_recover_from_a_spread_that_collapsed_the_low_buckets():
    ages = RecordAges()
    ages.add(1, of_ages([1000] * 70_000 + [YEARS_US] * 70_000), NOW)
    assert ages.figures(1, "emit", NOW).p999 == pytest.approx(YEARS_US / 1e6, rel=0.01)
    ages.add(1, of_ages([1000, 2000, 3000]), NOW + 1)
    assert ages.figures(1, "emit", NOW + 61).p50 == pytest.approx(0.002, rel=0.01)


def test_ages_at_commit_are_older_by_the_time_until_then():
    ages = RecordAges()
    ages.add(1, of_ages([100_000, 200_000, 900_000], "commit"), NOW, 0.4)
    ages.add(1, of_ages([300_000], "commit"), NOW, -0.1)  # of a host whose clock is ahead
    found = ages.figures(1, "commit", NOW)
    assert (found.minimum, found.maximum, found.oldest_maximum) == pytest.approx((0.2, 1.3, 1.3))
    assert found.average == pytest.approx((0.5 + 0.6 + 1.3 + 0.2) / 4)
    assert found.p50 == pytest.approx(0.5, rel=0.01)


def test_ages_of_a_host_whose_clock_is_off_become_those_of_strams():
    ages = RecordAges()
    ages.add(1, of_ages([100_000, 400_000, 900_000]), NOW, -0.25)  # its clock is 250 ms ahead
    found = ages.figures(1, "emit", NOW)
    assert (found.minimum, found.maximum) == pytest.approx((-0.15, 0.65))
    assert (found.count, found.negative) == (3, 1)
    assert found.p90 == pytest.approx(0.65, rel=0.01)


def test_negative_ages_are_recorded_as_they_are_and_counted():
    ages = RecordAges()
    ages.add(1, of_ages([-7000, -1000, 10_000, 20_000]), NOW)
    found = ages.figures(1, "emit", NOW)
    assert (found.minimum, found.negative, found.count) == (-0.007, 2, 4)
    assert found.average == pytest.approx(0.0055)
    assert (found.p50, found.p90) == (pytest.approx(-0.001, rel=0.01), pytest.approx(0.02, rel=0.01))


def test_ages_that_are_no_longer_negative_at_the_commit_are_not_counted_as_such():
    ages = RecordAges()
    ages.add(1, of_ages([-100_000, 1_000_000], "commit"), NOW, 0.25)
    found = ages.figures(1, "commit", NOW)
    assert (found.negative, found.minimum) == (0, pytest.approx(0.15))
    assert found.p50 == pytest.approx(0.15, rel=0.01)
    assert ages.totals(1, "commit").counts[AGE_BOUNDS_SECONDS.index(0.25)] == 1


# ------------------------------------------------------------------------------------------- totals and names


# Record ages of hosts whose clocks are off, against a computation record by record --------------------------


READ_AT = 1_700_000_000.0
QUANTILES = {"p50": "0.5", "p90": "0.9", "p99": "0.99", "p999": "0.999"}


def exact_rank(values, quantile):
    return sorted(values)[max(1, math.ceil(Fraction(quantile) * len(values))) - 1]


def times_of(true_ages):
    """The times of records of that age at READ_AT, in microseconds."""
    return np.round((READ_AT - np.array(true_ages)) * 1e6).astype(np.int64)


def figures(true_ages, skew, windows=1):
    """The figures of records of that age, from a host whose clock is `skew` ahead, once that is known."""
    ages = RecordAges()
    for part in np.array_split(times_of(true_ages), windows):
        found = sample("emit", [part], None, READ_AT + skew)
        if found is not None:
            ages.add(1, found, READ_AT, -skew)
    return ages.figures(1, "emit", READ_AT)


@settings(deadline=None, max_examples=deep(30))  # each run draws others
@given(
    st.lists(
        st.one_of(st.floats(0.0, 5.0), st.floats(0.0, 0.01), st.floats(0.0, 1e5)), min_size=1, max_size=60
    ),
    st.floats(-10.0, 10.0),
    st.integers(1, 3),
)
def test_percentiles_are_within_one_percent_whatever_the_clock_says(true_ages, skew, windows):
    found = figures(true_ages, skew, windows)
    assert found.count == len(true_ages)
    for name, quantile in QUANTILES.items():
        assert getattr(found, name) == pytest.approx(exact_rank(true_ages, quantile), rel=0.01, abs=2.2e-4), (
            name
        )
    assert found.minimum == pytest.approx(min(true_ages), abs=2e-6)
    assert found.maximum == pytest.approx(max(true_ages), abs=2e-6)


# How old records are when readers may see them: the place `publish` -----------------------------------------


def held_back(windows, published):
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


def age_at(measurement, place, now):
    rows = {row["at"]: row for row in measurement.record_age(now)["operators"]}
    return rows.get(place)


def test_records_of_an_output_that_publishes_each_window_are_seen_right_after_the_commit():
    measurement = measured(*held_back(5, {window: window for window in range(5)}))
    commit, publish = age_at(measurement, "commit", 5.0), age_at(measurement, "publish", 5.0)
    assert publish["count"] == commit["count"] == 10
    assert publish["minMs"] - commit["minMs"] == pytest.approx(50.0)  # committed at 0.55 s, published at 0.6
    assert publish["p99Ms"] == pytest.approx(commit["p99Ms"] + 50.0, rel=0.01)


def test_records_that_an_output_holds_back_are_older():
    measurement = measured(*held_back(10, {9: 9}))
    publish = age_at(measurement, "publish", 10.0)
    assert publish["count"] == 20
    assert publish["minMs"] == pytest.approx(1200.0)
    assert publish["maxMs"] == pytest.approx(9_000 + 3_200.0)
    assert publish["p50Ms"] == pytest.approx(6_200, rel=0.02)


def test_what_is_published_between_windows_counts_then():
    measurement = measured(*held_back(3, {}))
    assert age_at(measurement, "publish", 3.0) is None
    measurement.apply(OutputPublished(20.0, "write", 1))
    publish = age_at(measurement, "publish", 20.0)
    assert publish["count"] == 4
    assert publish["maxMs"] == pytest.approx((20.0 - 0.45 + 3.0) * 1000, abs=100)
    measurement.apply(OutputPublished(30.0, "write", 2))
    assert age_at(measurement, "publish", 30.0)["count"] == 6


def test_pending_samples_are_bounded():
    measurement = measured(*held_back(PENDING_SAMPLES + 100, {}))
    waiting = [one for several in measurement._ages._publish._waiting.values() for one in several.values()]
    assert 0 < sum(map(len, waiting)) <= PENDING_SAMPLES


# Ages from the newest record, of old data that is replayed, beside what follows by hand ---------------------


OLD = timedelta(days=269)


class Reading(NamedTuple):
    time: datetime
    value: int


def ages_of_old(windows, **attributes):
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


def rows_of(answer):
    return {(row["operator"], row["at"]): row for row in answer["operators"]}


def test_each_window_has_a_newest_record_of_its_own():
    answer = ages_of_old([(10, 13), (100, 101)], ages_from_newest_record=True)
    for row in rows_of(answer).values():
        assert row["maxMs"] == pytest.approx(3000, abs=0.01)
        assert row["avgMs"] == pytest.approx(1000, abs=0.01)


def test_without_the_attribute_ages_are_by_the_clock():
    answer = ages_of_old([(1, 2, 6)])
    assert answer["fromNewestRecord"] is False
    for row in rows_of(answer).values():
        assert row["minMs"] == OLD.total_seconds() * 1000 + 1000
    assert "record age at sink" in sink_lines(answer)[0].plain
