"""The example of a module gives the same as the same application written flat."""

import csv
import io

import pytest
from rich.console import Console

import quotes_module
from ridgeline.testing import run_local
from support.paths import ROOT


@pytest.mark.parametrize(("limit", "partitions"), [(500.0, 2), (1000.0, 3)])
def test_results_equal_an_independent_computation(monkeypatch, limit, partitions):
    monkeypatch.chdir(ROOT / "examples")
    printed = io.StringIO()
    run_local(
        quotes_module.app,
        properties={"clean.limit": str(limit)},
        attributes={"clean.once.partitions": str(partitions)},
        console=Console(file=printed, width=200),
    )
    with (ROOT / "examples" / "quotes.csv").open(encoding="utf-8") as file:
        rows = {int(row["number"]): float(row["price"]) for row in csv.DictReader(file)}
    found = sorted(
        int(line.split("number=")[1].split()[0])
        for line in printed.getvalue().splitlines()
        if "number=" in line
    )
    assert found == sorted(number for number, price in rows.items() if price <= limit)
