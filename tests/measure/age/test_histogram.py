import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.measure.age.histogram import BITS, SMALLEST_SECONDS, TRANSPORT_BITS, Histogram, values_of
from support.depth import deep

DECADES = 26 * 365.25 * 86400
SECONDS = st.one_of(
    st.floats(0, 2),
    st.floats(0, 1e10),
    st.sampled_from([0.0, 5e-5, SMALLEST_SECONDS, 0.001, 1.0, 3600.0, DECADES]),
)
SIGNED = SECONDS | SECONDS.map(lambda seconds: -seconds)
VALUES = st.lists(SECONDS, max_size=60)


def holding(values, bits=BITS):
    histogram = Histogram(bits)
    histogram.add(np.array(values, dtype=float))
    return histogram


def nearest_rank(values, quantile):
    """The definition, with exact arithmetic."""
    return sorted(values)[max(1, math.ceil(Fraction(quantile) * len(values))) - 1]


def test_an_empty_histogram_has_no_quantiles():
    assert Histogram().quantiles((0.5, 0.9)) == (None, None)
    histogram = holding([])
    histogram.merge(Histogram())
    assert histogram.buckets() == ()


@pytest.mark.parametrize("count", [2**16 - 1, 2**16, 2**32 - 1, 2**32, 2**62])
def test_counts_do_not_overflow(count):
    histogram = Histogram()
    histogram.add([1.0, 2.0], np.array([count, 1]))
    histogram.add([1.0])
    assert [number for _, number in histogram.buckets()] == [count + 1, 1]
    assert histogram.count == count + 2


@settings(deadline=None, max_examples=deep(30))
@given(st.lists(SIGNED, min_size=1, max_size=60), st.integers(0, 60), st.floats(0, 1))
def test_quantiles_are_near_those_of_the_values_in_whatever_parts_they_come(values, cut, quantile):
    histogram = Histogram()
    for part in (values[cut:], values[::-1], values[:cut]):
        histogram.merge(holding(part))
    histogram.subtract(holding(values))
    (found,) = histogram.quantiles((quantile,))
    exact = nearest_rank(values, Fraction(round(quantile * len(values), 6)) / len(values))
    assert found == pytest.approx(exact, rel=0.0079, abs=SMALLEST_SECONDS)
    assert histogram.count == len(values)


@settings(deadline=None, max_examples=deep(30))
@given(VALUES, st.sampled_from([BITS, TRANSPORT_BITS]))
def test_values_of_its_buckets_make_the_same_histogram_again(values, bits):
    buckets, again = holding(values, bits).buckets(), Histogram(bits)
    again.add(*values_of(buckets, bits))
    assert again.buckets() == buckets


@pytest.mark.parametrize("values", [[math.nan], [1.0, math.inf], [-math.inf]])
def test_values_that_are_no_seconds_are_refused(values):
    histogram = Histogram()
    with pytest.raises(ValueError, match="takes finite seconds"):
        histogram.add(values)
    assert histogram.count == 0
