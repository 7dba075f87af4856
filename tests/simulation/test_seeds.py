"""The whole protocol in simulated worlds. A failing seed is shrunk, and its message says how to see it."""

import pytest

from support.depth import deep
from support.simulation.__main__ import run_many, run_seeds
from support.simulation.region_world import RegionCase
from support.simulation.search import failure, report
from support.simulation.world import Case, simulate

FAMILIES = {
    "faults": (Case.of, 80, deep(400)),
    "changes of the plan": (Case.changing, 16, deep(56)),
    "a spare slot": (Case.speculating, 16, deep(32)),
    "rewinds": (Case.rewinding, 16, deep(40)),
    "several regions": (RegionCase.of, 12, deep(102)),
}
"""What makes the case of a seed, how many seeds there are, and how many more of the slow test."""


@pytest.mark.parametrize("family", FAMILIES)
def test_no_seed_breaks_an_invariant(family):
    of, count, _ = FAMILIES[family]
    failed = run_seeds(of, 0, count)
    assert not failed, report(of(failed[0][0]))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_no_seed_of_many_breaks_an_invariant(family):
    of, first, end = FAMILIES[family]
    failed = run_many(of, first, end)
    assert not failed, report(of(failed[0][0]))


def test_regions_are_killed_changed_and_held_back_by_full_queues():
    worlds = [simulate(RegionCase.of(seed)) for seed in (*range(14), 20)]
    assert sum(world.held for world in worlds) > 2
    assert sum(part.ledger.plans.applied for world in worlds for part in world.parts) > 3
    assert sum(part._count - 1 for world in worlds for part in world.parts) > 20


def test_runs_are_rewound():
    assert sum(simulate(Case.rewinding(seed)).ledger.rewinds for seed in range(6, 16)) > 5


def test_slots_that_stand_still_change_places_with_the_spare():
    assert sum(simulate(Case.speculating(seed)).hedges for seed in range(9)) > 3
    assert sum(simulate(Case.of(seed)).hedges for seed in range(3)) == 0


def test_changes_are_made_and_taken_back():
    plans = [simulate(Case.changing(seed)).ledger.plans for seed in range(2, 8)]
    assert sum(one.applied for one in plans) > 5
    assert sum(one.refused for one in plans) >= 5


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
