"""The whole protocol in simulated worlds. A failing seed is shrunk, and its message says how to see it."""

import pytest

from support.simulation.__main__ import run_many
from support.simulation.search import failure, first_failing, report
from support.simulation.world import Case, simulate

QUICK = 150
MANY = 20_000


def test_no_seed_breaks_an_invariant():
    case = first_failing(range(QUICK))
    assert case is None, report(case)


@pytest.mark.slow
def test_no_seed_of_many_breaks_an_invariant():
    failed = run_many(QUICK, MANY)
    assert not failed, report(Case.of(failed[0][0]))


def test_a_seed_replays_to_the_same_step():
    for seed in range(5):
        logs = [], []
        for log in logs:
            simulate(Case.of(seed), log.append)
        assert logs[0] == logs[1]
        assert len(logs[0]) > 50


def test_without_faults_the_application_ends():
    assert all(failure(Case(seed, store=seed % 2 > 0)) == "" for seed in range(10))
