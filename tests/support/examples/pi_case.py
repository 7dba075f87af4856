"""The Pi example, built and checked."""

import pytest

import pi
from support.examples import oracle_pi as oracle
from support.examples.cases import operator, partition, rows, shares

COUNT = 20_000_000


def build(partitions, folder, *, count=COUNT, per_window=200_000):
    """The application."""
    app = pi.application(output=str(folder))
    numbers = operator(app, "numbers")
    numbers.count, numbers.tuples_per_window = count, per_window
    return partition(app, partitions)


def check(folder, *, partitions=None, count=COUNT, per_window=200_000):
    """Compare all estimates with the oracle."""
    got = sorted(rows(folder))
    given = shares(pi.application(), partitions)
    expected = oracle.estimates(12, count, per_window, given.get("numbers", 1), given.get("points", 1))
    assert [row[:2] for row in got] == [row[:2] for row in expected]
    assert [row[2] for row in got] == pytest.approx([row[2] for row in expected], rel=1e-9)
