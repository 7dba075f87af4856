"""The example of a module, built and checked."""

import csv
from pathlib import Path

import quotes_module

DATA = Path(quotes_module.__file__).with_name("quotes.csv")
PER_WINDOW = 4


def build(partitions):
    """The application; the operators in the module have so many partitions."""
    return {
        "app": quotes_module.app,
        "properties": {"source.path": str(DATA), "source.rows_per_window": str(PER_WINDOW)},
        "attributes": {f"clean.{name}.partitions": str(partitions) for name in ("cheap", "once")},
    }


def quotes():
    """The rows of the data: number and price, once for each number, and how many rows there are."""
    with DATA.open(encoding="utf-8") as file:
        rows = [(int(row["number"]), float(row["price"])) for row in csv.DictReader(file)]
    return dict(rows), len(rows)


def windows():
    """How many windows the data has, with one that finds its end if the last is full."""
    return -(-quotes()[1] // PER_WINDOW)


def check(printed, *, limit=500.0):
    """Compare what was printed with the data."""
    found = [line.split("number=")[1].split()[0] for line in printed.splitlines() if "number=" in line]
    prices, _ = quotes()
    assert sorted(map(int, found)) == sorted(number for number, price in prices.items() if price <= limit)
