import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.measure.age.histogram import BITS, SMALLEST_SECONDS, TRANSPORT_BITS, Histogram
from support.depth import deep

DECADES = 26 * 365.25 * 86400
SECONDS = st.one_of(
    st.floats(0, 2),
    st.floats(0, 1e10),
    st.sampled_from([0.0, 5e-5, SMALLEST_SECONDS, 0.001, 1.0, 3600.0, DECADES]),
)
VALUES = st.lists(SECONDS, max_size=60)


def holding(values, bits=BITS):
    histogram = Histogram(bits)
    histogram.add(np.array(values, dtype=float))
    return histogram


def nearest_rank(values, quantile):
    """The definition, with exact arithmetic."""
    return sorted(values)[max(1, math.ceil(Fraction(quantile) * len(values))) - 1]


def test_an_empty_histogram_has_no_quantiles():
    assert Histogram().quantile(0.5) is None
    assert Histogram().quantiles((0.5, 0.9)) == (None, None)
    assert Histogram().buckets() == ()
    histogram = holding([])
    histogram.merge(Histogram())
    assert histogram == Histogram()


def test_it_never_takes_more_than_8_kib():
    spread = np.geomspace(1e-4, 1e300, 100_000)
    histogram = holding(spread)
    assert histogram.size_bytes <= 8192
    for _ in range(40):
        histogram += histogram  # past 32 bit, so that 64 are needed
        assert histogram.size_bytes <= 8192
    assert histogram.count == 100_000 * 2**40
    assert histogram.quantile(1.0) == pytest.approx(1e300, rel=0.0079)
    assert histogram.quantile(0.999) == pytest.approx(nearest_rank(spread, "0.999"), rel=0.0079)


def test_when_buckets_collapse_only_the_low_end_suffers():
    values = np.array([0.001, 1.0, 1000.0, DECADES])
    histogram = Histogram()
    histogram.add(
        values, np.array([70_000, 70_000, 70_000, 90_000])
    )  # more than 16 bit: 30 octaves below 26 years, 0.76 s to 1.5 s
    found = histogram.quantiles((0.2, 0.4, 0.6, 0.9))
    assert 0.001 < found[0] < 1.6
    assert found[2:] == (pytest.approx(1000, rel=0.0079), pytest.approx(DECADES, rel=0.0079))


@pytest.mark.parametrize("count", [2**16 - 1, 2**16, 2**32 - 1, 2**32, 2**62])
def test_counts_do_not_overflow(count):
    histogram = Histogram()
    histogram.add([1.0, 2.0], np.array([count, 1]))
    histogram.add([1.0])
    assert [number for _, number in histogram.buckets()] == [count + 1, 1]
    assert histogram.count == count + 2


def test_more_than_can_be_counted_is_an_error():
    histogram = Histogram()
    histogram.add([1.0], np.array([2**62]))
    with pytest.raises(OverflowError, match=r"at most 2\*\*63 - 1 values"):
        histogram.merge(histogram.copy())
    assert histogram.count == 2**62


@settings(deadline=None, max_examples=deep(30))
@given(VALUES, st.sampled_from([BITS, TRANSPORT_BITS]))
def test_buckets_make_the_same_histogram_again(values, bits):
    histogram = holding(values, bits)
    assert Histogram.of_buckets(histogram.buckets(), bits) == histogram


@settings(deadline=None, max_examples=deep(30))
@given(VALUES, VALUES)
def test_subtracting_undoes_merging(kept, gone):
    histogram = holding(kept) + holding(gone)
    histogram.subtract(holding(gone))
    assert histogram == holding(kept)
    assert histogram.count == len(kept)


@pytest.mark.parametrize("other", [[1.0, 1.0], [3.0], [0.5], [0.0]])
def test_only_what_was_merged_can_be_subtracted(other):
    histogram = holding([1.0, 2.0])
    with pytest.raises(ValueError, match="only what was merged"):
        histogram.subtract(holding(other))
    assert histogram == holding([1.0, 2.0])


@pytest.mark.parametrize("values", [[-1e-9], [math.nan], [1.0, math.inf]])
def test_values_that_are_no_seconds_are_refused(values):
    histogram = Histogram()
    with pytest.raises(ValueError, match="takes finite seconds from 0 on"):
        histogram.add(values)
    assert histogram.count == 0
