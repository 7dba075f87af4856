from collections import Counter

import pytest

from ridgeline.testing import run_local
from support.examples import oracle_word_count as oracle
from support.examples import word_count_case as case
from support.examples.cases import MIXED


@pytest.mark.guide("004", "Sample Code")
@pytest.mark.parametrize("partitions", [1, 2, 3, MIXED])
def test_results_equal_an_independent_computation(partitions, tmp_path):
    run = run_local(**case.build(partitions, tmp_path, per_window=20))
    assert run.windows_committed == 11
    case.check(tmp_path, per_window=20)


def test_the_oracle_agrees_with_a_counter():
    assert dict(oracle.counts(case.TEXT, 500)) == Counter(
        case.TEXT.read_text(encoding="utf-8").lower().split()
    )
