"""The Flights example, built and checked."""

from itertools import islice
from pathlib import Path

import pytest

import flights
from support.examples import oracle_flights as oracle
from support.examples.cases import partition, rows

ALL = 336_776
STORES = ("carriers", "origins", "routes", "cancelled")


def build(partitions, folder, *, count=ALL, round_robin=False):
    """The application, over the first `count` records.

    `round_robin`: sums by carrier are divided so too.
    """
    path = None
    if count < ALL:
        path = Path(folder) / "input" / f"flights-{count}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        with Path(flights.flights_csv()).open(encoding="utf-8") as source:
            path.write_text("".join(islice(source, count + 1)), encoding="utf-8")
    app = flights.application(output=str(folder), path=path and str(path))
    return partition(
        app,
        partitions,
        round_robin=("carrier_delays",) if round_robin else (),
        except_for=STORES,
    )


def check(folder, *, count=ALL):
    """Compare the four outputs with the oracle."""
    assert sorted(rows(f"{folder}/carriers")) == sorted(oracle.delays(count, "carrier"))
    assert sorted(rows(f"{folder}/origins")) == sorted(oracle.delays(count, "origin"))
    assert sorted(rows(f"{folder}/cancelled"), key=repr) == sorted(oracle.cancelled(count), key=repr)
    got, expected = sorted(rows(f"{folder}/routes")), sorted(oracle.worst_routes(count))
    assert [row[:3] for row in got] == [row[:3] for row in expected]
    assert [row[3] for row in got] == pytest.approx([row[3] for row in expected], rel=1e-9)
