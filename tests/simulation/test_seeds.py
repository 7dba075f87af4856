"""The whole protocol in simulated worlds. A failing seed is shrunk, and its message says how to see it."""

import pytest

from support.depth import deep
from support.simulation.__main__ import run_many, run_seeds
from support.simulation.region_world import RegionCase
from support.simulation.search import failure, report
from support.simulation.world import Case, simulate

QUICK, MANY = 80, deep(400)
QUICK_CHANGING, MANY_CHANGING = 16, deep(56)
QUICK_SPECULATING, MANY_SPECULATING = 16, deep(32)
QUICK_REWINDING, MANY_REWINDING = 16, deep(40)
QUICK_REGIONS, MANY_REGIONS = 12, deep(102)


def test_no_seed_breaks_an_invariant():
    failed = run_seeds(0, QUICK)
    assert not failed, report(Case.of(failed[0][0]))


@pytest.mark.slow
def test_no_seed_of_many_breaks_an_invariant():
    failed = run_many(QUICK, MANY)
    assert not failed, report(Case.of(failed[0][0]))


def test_no_seed_with_changes_of_the_plan_breaks_an_invariant():
    failed = run_seeds(0, QUICK_CHANGING, changing=True)
    assert not failed, report(Case.changing(failed[0][0]))


@pytest.mark.slow
def test_no_seed_of_many_with_changes_of_the_plan_breaks_an_invariant():
    failed = run_many(QUICK_CHANGING, MANY_CHANGING, changing=True)
    assert not failed, report(Case.changing(failed[0][0]))


def test_no_seed_with_a_spare_slot_breaks_an_invariant():
    failed = run_seeds(0, QUICK_SPECULATING, speculating=True)
    assert not failed, report(Case.speculating(failed[0][0]))


@pytest.mark.slow
def test_no_seed_of_many_with_a_spare_slot_breaks_an_invariant():
    failed = run_many(QUICK_SPECULATING, MANY_SPECULATING, speculating=True)
    assert not failed, report(Case.speculating(failed[0][0]))


def test_no_seed_with_rewinds_breaks_an_invariant():
    failed = run_seeds(0, QUICK_REWINDING, rewinding=True)
    assert not failed, report(Case.rewinding(failed[0][0]))


@pytest.mark.slow
def test_no_seed_of_many_with_rewinds_breaks_an_invariant():
    failed = run_many(QUICK_REWINDING, MANY_REWINDING, rewinding=True)
    assert not failed, report(Case.rewinding(failed[0][0]))


def test_no_seed_of_several_regions_breaks_an_invariant():
    failed = run_seeds(0, QUICK_REGIONS, regions=True)
    assert not failed, report(RegionCase.of(failed[0][0]))


@pytest.mark.slow
def test_no_seed_of_many_of_several_regions_breaks_an_invariant():
    failed = run_many(QUICK_REGIONS, MANY_REGIONS, regions=True)
    assert not failed, report(RegionCase.of(failed[0][0]))


def test_regions_are_killed_changed_and_held_back_by_full_queues():
    worlds = [simulate(RegionCase.of(seed)) for seed in range(14)]
    assert sum(world.held for world in worlds) > 5
    assert sum(part.ledger.plans.applied for world in worlds for part in world.parts) > 3
    assert sum(part._count - 1 for world in worlds for part in world.parts) > 20


def test_runs_are_rewound():
    assert sum(simulate(Case.rewinding(seed)).ledger.rewinds for seed in range(6, 16)) > 5


def test_slots_that_stand_still_change_places_with_the_spare():
    assert sum(simulate(Case.speculating(seed)).hedges for seed in range(9)) > 5
    assert sum(simulate(Case.of(seed)).hedges for seed in range(3)) == 0


def test_changes_are_made_and_taken_back():
    plans = [simulate(Case.changing(seed)).ledger.plans for seed in range(2, 8)]
    assert sum(one.applied for one in plans) > 5
    assert sum(one.refused for one in plans) > 5


def test_a_seed_replays_to_the_same_step():
    others = [*map(Case.changing, range(2)), *map(Case.rewinding, range(2)), *map(RegionCase.of, range(2))]
    for case in [*map(Case.of, range(2)), *others]:
        logs = [], []
        for log in logs:
            simulate(case, log.append)
        assert logs[0] == logs[1]
        assert len(logs[0]) > 50


def test_without_faults_the_application_ends():
    assert all(failure(Case(seed, store=seed % 2 > 0, real=seed < 4)) == "" for seed in range(10))
