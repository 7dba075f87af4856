import io

import pytest
from rich.console import Console

from ridgeline.testing import run_local
from support.examples import oracle_rate as oracle
from support.examples import rate_case as case
from support.examples.cases import MIXED


@pytest.mark.parametrize("partitions", [1, 2, 3, MIXED])
def test_results_equal_an_independent_computation(partitions):
    printed = io.StringIO()
    run = run_local(**case.build(partitions), inputs=case.inputs(), console=Console(file=printed))
    assert run.windows_committed == case.WINDOWS
    case.check(printed.getvalue())


def test_the_oracle_agrees_with_a_formula():
    assert oracle.sums(3, 1_000) == [500**2, 1_000**2, 1_500**2]  # the first n odd numbers add up to n * n
