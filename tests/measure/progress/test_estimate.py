import json
import math

import pytest

from ridgeline.measure.progress.estimate import NOTHING, UNKNOWN, Basis, Estimate, greatest, total, weakest

EXACT, ESTIMATED, LOWER = Basis.EXACT, Basis.ESTIMATED, Basis.LOWER_BOUND


def test_bases_have_the_names_that_people_read():
    assert [basis.value for basis in Basis] == ["exact", "estimated", "lower bound", "unknown"]


def test_a_sum_is_as_good_as_its_weakest_part():
    assert total([Estimate(1.0), Estimate(2.0, ESTIMATED)]) == Estimate(3.0, ESTIMATED)
    assert total([Estimate(1.0, LOWER), Estimate(2.0, ESTIMATED)]) == Estimate(3.0, LOWER)
    assert weakest([]) is EXACT


def test_unknown_parts_make_a_lower_bound_of_the_known_ones():
    assert total([Estimate(1.0), UNKNOWN, Estimate(2.0)]) == Estimate(3.0, LOWER)
    assert greatest([Estimate(1.0), UNKNOWN, Estimate(2.0)]) == Estimate(2.0, LOWER)
    assert Estimate(1.0) + UNKNOWN == UNKNOWN + Estimate(1.0) == Estimate(1.0, LOWER)
    assert total([UNKNOWN, UNKNOWN]) == UNKNOWN + UNKNOWN == UNKNOWN


def test_nothing_sums_up_to_an_exact_zero():
    assert total([]) == greatest([]) == NOTHING == Estimate(0.0, EXACT)


def test_a_certain_zero_times_anything_is_zero():
    assert NOTHING * Estimate(math.inf) == Estimate(math.inf, LOWER) * NOTHING == NOTHING
    assert NOTHING * UNKNOWN == NOTHING
    assert Estimate(0.0, LOWER) * UNKNOWN == UNKNOWN
    assert Estimate(0.0, LOWER) * Estimate(math.inf) == Estimate(0.0, LOWER)


def test_products():
    assert Estimate(2.0) * Estimate(3.0, ESTIMATED) == Estimate(6.0, ESTIMATED)
    assert Estimate(2.0) * UNKNOWN == UNKNOWN
    assert (Estimate(2.0) * Estimate(math.inf)).infinite


def test_what_is_left_stays_above_zero():
    assert Estimate(5.0).less(2.0) == Estimate(3.0, ESTIMATED)
    assert Estimate(5.0, LOWER).less(7.0) == Estimate(0.0, LOWER)
    assert Estimate(5.0).less(0.0) == Estimate(5.0)
    assert UNKNOWN.less(1.0) == UNKNOWN


@pytest.mark.parametrize(
    ("estimate", "expected"),
    [
        (Estimate(2.5, ESTIMATED), {"value": 2.5, "basis": "estimated"}),
        (UNKNOWN, {"value": None, "basis": "unknown"}),
        (Estimate(math.inf, LOWER), {"value": None, "basis": "lower bound", "infinite": True}),
        (Estimate(math.nan), {"value": None, "basis": "unknown"}),
        (Estimate(-1.0), {"value": 0.0, "basis": "exact"}),
    ],
)
def test_json(estimate, expected):
    assert json.loads(json.dumps(estimate.to_json(), allow_nan=False)) == expected
