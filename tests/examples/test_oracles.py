"""The oracles of the examples against what is known by hand, and the main job as its guide runs it."""

import io
from collections import Counter

import pytest
from rich.console import Console

from ridgeline.testing import run_local
from support.examples import (
    oracle_flights,
    oracle_payments,
    oracle_rate,
    oracle_word_count,
    oracle_yahoo_finance,
    word_count_case,
    yahoo_finance_case,
)


def test_the_oracles_agree_with_what_is_known_by_hand():
    assert len(oracle_flights.records()) == 336_776  # as published
    last = dict(sorted(oracle_payments.balances(20_001, 2_000)))  # the balance of an account never falls
    assert sum(last.values()) == sum(i * 7919 % 10_000 for i in range(20_001) if i % 997)
    assert oracle_rate.sums(3, 1_000) == [500**2, 1_000**2, 1_500**2]  # the first n odd numbers make n * n
    text = word_count_case.TEXT
    words = Counter(text.read_text(encoding="utf-8").lower().split())
    assert dict(oracle_word_count.counts(text, 500)) == words


@pytest.mark.slow
def test_the_main_job_for_all_its_days(tmp_path):
    printed = io.StringIO()
    run = run_local(yahoo_finance_case.build(None, tmp_path), console=Console(file=printed, width=200))
    assert run.windows_committed == 1000
    yahoo_finance_case.check(tmp_path)
    for symbol, days, close, high, low, volume in oracle_yahoo_finance.years(250):
        figures = f"{symbol:4} {close:9.2f}   from {low:.2f} to {high:.2f}"
        assert f"YEAR  {figures}   {volume:,} shares in {days} days" in printed.getvalue()
