import pytest

from ridgeline.testing import run_local
from support.examples import flights_case as case
from support.examples import oracle_flights as oracle
from support.examples.cases import MIXED


@pytest.mark.parametrize(
    ("partitions", "round_robin"), [(1, False), (2, False), (3, False), (2, True), (3, True), (MIXED, True)]
)
def test_results_equal_an_independent_computation(partitions, round_robin, tmp_path):
    run_local(case.build(partitions, tmp_path, count=60_001, round_robin=round_robin))
    case.check(tmp_path, count=60_001)


@pytest.mark.parametrize("partitions", [2, 3, MIXED])
def test_outputs_may_be_partitioned_too(partitions, tmp_path):
    run_local(case.build(partitions, tmp_path, count=60_001, stores=True))
    case.check(tmp_path, count=60_001)


def test_starting_again_after_every_window_changes_nothing(tmp_path):
    finished = False
    while not finished:
        run = run_local(
            case.build(2, tmp_path, count=60_001), windows=1, checkpoint=str(tmp_path / "checkpoint")
        )
        finished = not run.windows_committed
    case.check(tmp_path, count=60_001)


def test_all_flights(tmp_path):
    run = run_local(case.build(None, tmp_path))
    case.check(tmp_path)
    assert run.tuples_out("flights") == 336_776
    assert len(case.rows(f"{tmp_path}/cancelled")) == 8_255
    assert sum(flights for _, flights, _ in case.rows(f"{tmp_path}/origins")) == 328_521
    assert (
        sum(run.errors(name) for name in [operator.name for operator in run.plan.logical.operators]) == 8_255
    )


def test_the_oracle_agrees_with_the_published_number_of_records():
    assert len(oracle.records()) == 336_776
