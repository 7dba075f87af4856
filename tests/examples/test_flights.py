import pytest

from ridgeline.testing import run_local
from support.examples import flights_case as case
from support.examples import oracle_flights as oracle
from support.examples.cases import MIXED

SOME = 12_001


@pytest.mark.parametrize(
    ("partitions", "round_robin", "stores"),
    [
        (1, False, False),
        (2, False, True),
        (2, True, False),
        (3, False, False),
        (3, True, True),
        (MIXED, True, False),
        (MIXED, False, True),
    ],
)
def test_results_equal_an_independent_computation(partitions, round_robin, stores, tmp_path):
    run_local(case.build(partitions, tmp_path, count=SOME, round_robin=round_robin, stores=stores))
    case.check(tmp_path, count=SOME)


def test_the_oracle_agrees_with_the_published_number_of_records():
    assert len(oracle.records()) == 336_776
