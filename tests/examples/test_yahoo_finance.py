import io

import pytest
from rich.console import Console

from ridgeline.testing import run_local
from support.examples import oracle_yahoo_finance as oracle
from support.examples import yahoo_finance_case as case
from support.examples.cases import MIXED


@pytest.mark.guide("002", "Running A Test Application")
@pytest.mark.parametrize(
    ("partitions", "round_robin", "days"), [(1, False, 11), (3, False, 3), (2, True, 3), (MIXED, True, 4)]
)
def test_results_equal_an_independent_computation(partitions, round_robin, days, tmp_path):
    run = run_local(
        case.build(partitions, tmp_path, days=days, round_robin=round_robin),
        console=Console(file=io.StringIO()),
    )
    assert run.windows_committed == days * 4
    case.check(tmp_path, days=days)


@pytest.mark.slow
def test_the_main_job(tmp_path):
    printed = io.StringIO()
    run = run_local(case.build(None, tmp_path), console=Console(file=printed, width=120))
    assert run.windows_committed == 1000
    case.check(tmp_path)
    for symbol, days, close, high, low, volume in oracle.years(250):
        assert (
            f"YEAR  {symbol:4} {close:9.2f}   from {low:.2f} to {high:.2f}   {volume:,} shares in {days} days"
            in printed.getvalue()
        )
