"""Kills at every moment of one small application, other faults at every third; on a disk and in a store."""

from dataclasses import replace

import pytest

from support.simulation.search import as_test, failure
from support.simulation.world import KINDS, Case, Fault, simulate

AT_ONCE = ("kill slot", "kill driver", "power")
SMALL = Case(1, total=3, in_flight=2, slots=2, large=0.3, segment_bytes=1000, real=False)


def failing(case, kinds, moments):
    """The cases that fail with one fault each, of these kinds at these moments."""
    cases = [replace(case, faults=(Fault(moment, kind, 5 * moment),)) for moment in moments for kind in kinds]
    return [as_test(one) for one in cases if failure(one)]


@pytest.mark.slow
@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_at_all_moments(kind, store):
    case = replace(SMALL, store=store)
    step = 1 if kind in AT_ONCE else 3
    assert failing(case, [kind], range(1, simulate(case).moments, step)) == []


@pytest.mark.parametrize("store", [False, True])
def test_kills_at_some_moments_of_real_containers(store):
    case = replace(SMALL, store=store, real=True)
    assert failing(case, AT_ONCE, range(1, simulate(case).moments, 17)) == []
