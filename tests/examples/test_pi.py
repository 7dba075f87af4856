import io

import pytest
from rich.console import Console

from ridgeline.testing import run_local
from support.examples import pi_case as case
from support.examples.cases import MIXED


@pytest.mark.guide("002", "Demos")
@pytest.mark.parametrize("partitions", [1, 2, 3, MIXED])
def test_results_equal_an_independent_computation(partitions, tmp_path):
    run = run_local(
        case.build(partitions, tmp_path, count=123_457, per_window=5_001), console=Console(file=io.StringIO())
    )
    assert run.windows_committed == 25
    case.check(tmp_path, partitions=partitions, count=123_457, per_window=5_001)
