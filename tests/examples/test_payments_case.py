import pytest

from ridgeline.testing import run_local
from support.examples import oracle_payments as oracle
from support.examples import payments_case as case
from support.examples.cases import MIXED


@pytest.mark.parametrize("partitions", [1, 2, 3, MIXED])
def test_results_equal_an_independent_computation(partitions, tmp_path):
    run = run_local(**case.build(partitions, tmp_path, count=8_001))
    assert run.windows_committed == 5
    case.check(tmp_path, count=8_001)


def test_the_oracle_agrees_with_sums_made_by_hand():
    last = dict(sorted(oracle.balances(20_001, 2_000)))  # the balance of an account never falls
    assert sum(last.values()) == sum(i * 7919 % 10_000 for i in range(20_001) if i % 997)
