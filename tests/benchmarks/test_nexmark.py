"""The queries of Nexmark: results of streams equal those of DuckDB over the same events."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from benchmarks.nexmark.applications import application
from benchmarks.nexmark.events import write
from benchmarks.nexmark.oracle import comparable, expected
from benchmarks.nexmark.queries import QUERIES

from ridgeline.testing import CollectorSink, Faults, run_local
from support.testing.shares import share

EVENTS, IN_WINDOW = 9_000, 1_500


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The events, in three files of each kind."""
    found = tmp_path_factory.mktemp("nexmark")
    write(found, 3, EVENTS // 3)
    return found


def found(name: str, folder: Path, partitions: int, **options: Any) -> Counter[str]:
    run = run_local(application(name, folder, IN_WINDOW, CollectorSink, partitions), **options)
    rows = run.collected("sink")
    if name == "q12":
        counts: Counter[int] = Counter()
        for row in rows:
            counts[row["bidder"]] += row["bid_count"]
        rows = [{"bidder": bidder, "bid_count": count} for bidder, count in counts.items()]
    return comparable(name, rows)


@pytest.mark.parametrize(("name", "partitions"), share(2, QUERIES, [1, 3]))
def test_results_equal_duckdb(name: str, partitions: int, folder: Path) -> None:
    wanted = expected(name, folder)
    assert wanted
    assert found(name, folder, partitions) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("name", ["q4", "q5", "q6", "q8", "q16", "q19", "q20"])
def test_failures_change_no_result(name: str, folder: Path) -> None:
    assert found(name, folder, 2, faults=Faults(3)) == expected(name, folder)
