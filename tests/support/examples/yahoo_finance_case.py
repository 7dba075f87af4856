"""The Yahoo Finance example, built and checked."""

from collections import defaultdict

import pytest

import yahoo_finance
from ridgeline.operators import FileOutput
from support.examples import oracle_yahoo_finance as oracle
from support.examples.cases import add_sink, operator, partition, rows


def build(partitions, folder, *, days=250, round_robin=False):
    """The application. `round_robin`: where that is right, tuples are divided round robin."""
    app = yahoo_finance.application(output=str(folder))
    operator(app, "ticks").days = days
    years = app.add_operator("years_store", FileOutput(path=f"{folder}/years"))
    add_sink(app, "years", years.input)
    return partition(app, partitions, round_robin=("high_low", "minute_volume") if round_robin else ())


def check(folder, *, days=250):
    """Compare quotes, charts, averages and years with the oracle."""
    assert sorted(rows(f"{folder}/quotes")) == sorted(oracle.quotes(days))
    assert sorted(rows(f"{folder}/charts")) == sorted(oracle.charts(days))
    assert sorted(rows(f"{folder}/years")) == sorted(oracle.years(days))
    expected, got = defaultdict(list), defaultdict(list)
    for found, averages in ((expected, oracle.averages(days)), (got, rows(f"{folder}/averages"))):
        for symbol, average in averages:
            found[symbol].append(average)
    assert got.keys() == expected.keys()
    for symbol, averages in expected.items():
        assert sorted(got[symbol]) == pytest.approx(sorted(averages), rel=1e-9)
