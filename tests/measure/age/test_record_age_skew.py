"""Record ages of hosts whose clocks are off, against a computation record by record."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.measure.age.record_age import RecordAges, sample
from support.depth import deep

NOW = 1_700_000_000.0
QUANTILES = {"p50": "0.5", "p90": "0.9", "p99": "0.99", "p999": "0.999"}


def exact_rank(values, quantile):
    return sorted(values)[max(1, math.ceil(Fraction(quantile) * len(values))) - 1]


def times_of(true_ages):
    """The times of records of that age at NOW, in microseconds."""
    return np.round((NOW - np.array(true_ages)) * 1e6).astype(np.int64)


def figures(true_ages, skew, windows=1):
    """The figures of records of that age, from a host whose clock is `skew` ahead, once that is known."""
    ages = RecordAges()
    for part in np.array_split(times_of(true_ages), windows):
        found = sample("emit", "INFO", [part], None, NOW + skew)
        if found is not None:
            ages.add(1, found, NOW, -skew)
    return ages.figures(1, "emit", NOW)


def test_percentiles_do_not_collapse_on_a_host_whose_clock_is_behind():
    """1,000 records of 0.5 to 2.5 s on a host that is 10 s behind: all ages are negative there."""
    true_ages = np.linspace(0.5, 2.5, 1000)
    found = figures(true_ages, -10.0)
    assert found.negative == 0
    assert (found.p50, found.p99) == (pytest.approx(1.5, rel=0.01), pytest.approx(2.48, rel=0.01))


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
