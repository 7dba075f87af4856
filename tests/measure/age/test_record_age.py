import numpy as np
import pytest

from ridgeline.api.times import NO_TIME
from ridgeline.measure.age.histogram import TRANSPORT_BITS, Histogram, bucket, lower_bounds
from ridgeline.measure.age.record_age import (
    AGE_BOUNDS_SECONDS,
    LEVELS,
    RecordAges,
    kip_613_name,
    sample,
)
from ridgeline.measure.events import AgeSample

NOW = 1_700_000_000
NOW_US = NOW * 1_000_000
YEARS_US = 26 * 31_557_600_000_000


def of_ages(ages_us, place="emit", now=NOW):
    times = now * 1_000_000 - np.array(ages_us, dtype=np.int64)
    return sample(place, LEVELS[place], [times], None, now)


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
    assert (found.place, found.level, found.count, found.negative) == ("emit", "INFO", 4, 1)
    assert (found.minimum, found.maximum, found.total, found.oldest_maximum) == (-0.25, 2.0, 2.250001, 2.0)
    assert Histogram.of_buckets(found.buckets, TRANSPORT_BITS).count == 3


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
    found = sample("source", "INFO", [times], None, NOW)
    assert (found.count, found.minimum, found.maximum) == (1, 3.0, 3.0)
    assert sample("source", "INFO", [times[:1]], None, NOW) is None
    assert sample("source", "INFO", [times[:0]], None, NOW) is None


def test_the_oldest_records_of_results_are_distinguished():
    newest = np.array([NOW_US - 1_000_000, NOW_US - 2_000_000])
    oldest = np.array([NOW_US - 9_000_000, NO_TIME])
    found = sample("emit", "INFO", [newest], [oldest], NOW)
    assert (found.maximum, found.oldest_maximum) == (2.0, 9.0)
    assert sample("emit", "INFO", [newest], [np.full(2, NO_TIME)], NOW).oldest_maximum == 2.0


def test_timestamps_from_the_ends_of_time_do_not_overflow():
    times = np.array([np.iinfo(np.int64).max, np.iinfo(np.int64).min + 1, NOW_US])
    found = sample("emit", "INFO", [times], None, NOW)
    assert (found.count, found.negative) == (3, 1)
    assert found.minimum == pytest.approx(-(2**61) / 1e6, rel=0.01)
    assert found.maximum == pytest.approx(2**61 / 1e6, rel=0.01)
    assert found.total == pytest.approx(3 * NOW - NOW)  # the two ends cancel


def test_a_sample_leaves_its_arrays_alone():
    times = np.array([NO_TIME, NOW_US - 5, NOW_US + 5])
    times.flags.writeable = False
    sample("emit", "INFO", [times], [times], NOW)


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
    ages.add_committed(1, of_ages([100_000, 200_000, 900_000], "commit"), 0.4, NOW)
    ages.add_committed(1, of_ages([300_000], "commit"), -0.1, NOW)  # of a host whose clock is ahead
    found = ages.figures(1, "commit", NOW)
    assert (found.minimum, found.maximum, found.oldest_maximum) == (
        pytest.approx(0.2),
        pytest.approx(1.3),
        pytest.approx(1.3),
    )
    assert found.average == pytest.approx((0.5 + 0.6 + 1.3 + 0.2) / 4)
    assert found.p50 == pytest.approx(0.5, rel=0.01)


def test_ages_of_a_host_whose_clock_is_off_become_those_of_strams():
    ages = RecordAges()
    ages.add(1, of_ages([100_000, 400_000, 900_000]), NOW, offset_seconds=-0.25)  # its clock is 250 ms ahead
    found = ages.figures(1, "emit", NOW)
    assert (found.minimum, found.maximum, found.count, found.negative) == (
        pytest.approx(-0.15),
        pytest.approx(0.65),
        3,
        1,
    )
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
    ages.add_committed(1, of_ages([-100_000, 1_000_000], "commit"), 0.25, NOW)
    found = ages.figures(1, "commit", NOW)
    assert (found.negative, found.minimum) == (0, pytest.approx(0.15))
    assert found.p50 == pytest.approx(0.15, rel=0.01)
    assert ages.totals(1, "commit").counts[AGE_BOUNDS_SECONDS.index(0.25)] == 1


def test_levels_are_those_of_kip_613():
    ages = RecordAges()
    for place in ("emit", "state", "source"):
        ages.add(1, of_ages([1], place), NOW)
    ages.add_committed(1, of_ages([1], "commit"), 0.0, NOW)
    assert ages.places(1) == ("source", "state", "emit", "commit")
    assert [ages.figures(1, place, NOW).level for place in ages.places(1)] == [
        "INFO",
        "TRACE",
        "INFO",
        "INFO",
    ]
    assert ages.places(2) == ()


def test_commit_has_a_call_of_its_own():
    ages = RecordAges()
    with pytest.raises(ValueError, match="did you mean `add_committed`"):
        ages.add(1, of_ages([1], "commit"), NOW)
    with pytest.raises(ValueError, match="got `emit`; did you mean `add`"):
        ages.add_committed(1, of_ages([1]), 0.0, NOW)
    with pytest.raises(ValueError, match="`window_seconds` must be at least 1; got 0"):
        RecordAges(0)


def test_a_sample_of_nothing_changes_nothing():
    ages = RecordAges()
    ages.add(1, AgeSample("emit", "INFO", 0, 0, 0.0, 0.0, 0.0, 0.0), NOW)
    assert ages.figures(1, "emit", NOW) is None


# ------------------------------------------------------------------------------------------- totals and names


def test_names_of_kip_613():
    assert [kip_613_name(name) for name in ("minimum", "maximum", "average")] == [
        "record-e2e-latency-min",
        "record-e2e-latency-max",
        "record-e2e-latency-avg",
    ]
    with pytest.raises(
        ValueError, match="KIP-613 has no `p99`; did you mean one of minimum, maximum, average"
    ):
        kip_613_name("p99")
