"""Every example without Spark, and each oracle against what is known of its results by hand."""

import io
from collections import Counter

import pytest
from rich.console import Console

from ridgeline.testing import run_local
from support.examples import (
    flights_case,
    oracle_flights,
    oracle_payments,
    oracle_rate,
    oracle_word_count,
    oracle_yahoo_finance,
    payments_case,
    pi_case,
    quotes_module_case,
    rate_case,
    word_count_case,
    yahoo_finance_case,
)
from support.examples.cases import MIXED

each_count = pytest.mark.parametrize("partitions", [1, 2, 3, MIXED])


def run(windows=None, **arguments):
    """What an example prints."""
    printed = io.StringIO()
    ran = run_local(**arguments, console=Console(file=printed, width=200))
    assert windows is None or ran.windows_committed == windows
    return printed.getvalue()


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
def test_flights(partitions, round_robin, stores, tmp_path):
    some = 12_001
    run(app=flights_case.build(partitions, tmp_path, count=some, round_robin=round_robin, stores=stores))
    flights_case.check(tmp_path, count=some)


@each_count
def test_payments(partitions, tmp_path):
    run(windows=5, **payments_case.build(partitions, tmp_path, count=8_001))
    payments_case.check(tmp_path, count=8_001)


@pytest.mark.guide("002", "Demos")
@each_count
def test_pi(partitions, tmp_path):
    run(windows=25, app=pi_case.build(partitions, tmp_path, count=123_457, per_window=5_001))
    pi_case.check(tmp_path, partitions=partitions, count=123_457, per_window=5_001)


@pytest.mark.parametrize("partitions", [2, 3])
def test_quotes_module(partitions):
    quotes_module_case.check(run(**quotes_module_case.build(partitions)))


@each_count
def test_rate(partitions):
    printed = run(windows=rate_case.WINDOWS, inputs=rate_case.inputs(), **rate_case.build(partitions))
    rate_case.check(printed)


@pytest.mark.guide("004", "Sample Code")
@each_count
def test_word_count(partitions, tmp_path):
    run(windows=11, **word_count_case.build(partitions, tmp_path, per_window=20))
    word_count_case.check(tmp_path, per_window=20)


@pytest.mark.guide("002", "Running A Test Application")
@pytest.mark.parametrize(
    ("partitions", "round_robin", "days"), [(1, False, 11), (3, False, 3), (2, True, 3), (MIXED, True, 4)]
)
def test_yahoo_finance(partitions, round_robin, days, tmp_path):
    app = yahoo_finance_case.build(partitions, tmp_path, days=days, round_robin=round_robin)
    run(windows=days * 4, app=app)
    yahoo_finance_case.check(tmp_path, days=days)


@pytest.mark.slow
def test_yahoo_finance_for_all_its_days(tmp_path):
    printed = run(windows=1000, app=yahoo_finance_case.build(None, tmp_path))
    yahoo_finance_case.check(tmp_path)
    for symbol, days, close, high, low, volume in oracle_yahoo_finance.years(250):
        figures = f"{symbol:4} {close:9.2f}   from {low:.2f} to {high:.2f}"
        assert f"YEAR  {figures}   {volume:,} shares in {days} days" in printed


def test_the_oracles_agree_with_what_is_known_by_hand():
    assert len(oracle_flights.records()) == 336_776  # as published
    last = dict(sorted(oracle_payments.balances(20_001, 2_000)))  # the balance of an account never falls
    assert sum(last.values()) == sum(i * 7919 % 10_000 for i in range(20_001) if i % 997)
    assert oracle_rate.sums(3, 1_000) == [500**2, 1_000**2, 1_500**2]  # the first n odd numbers make n * n
    text = word_count_case.TEXT
    words = Counter(text.read_text(encoding="utf-8").lower().split())
    assert dict(oracle_word_count.counts(text, 500)) == words
