"""Whole applications between stand-ins for connectors: orders to totals, sensors to alerts.

Results equal polars or a plain loop over the same records, whatever the partitions and failures. Broken lines
are dead letters.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort
from ridgeline.operators import FileReplayInput, absence, hysteresis, rolling, tumbling
from ridgeline.operators import aggregate as agg
from ridgeline.testing import END_WINDOW, CollectorSink, Faults, ListInput, run_local

START = datetime(2026, 1, 1, tzinfo=UTC)


class Order(NamedTuple):
    id: str
    customer: str
    cents: int
    time: datetime


class Customer(NamedTuple):
    id: str
    country: str
    blocked: bool


def shop(folder: Path, customers: list[Customer], partitions: int) -> Application:
    """Lines of orders, once each, with customers, to totals of minutes, which two outputs write."""
    app = Application("shop", window="50ms", on_error="SKIP")
    lines = FileReplayInput(
        folder / "orders.jsonl",
        format="jsonl",
        schema=Order,
        timestamp="time",
        lateness="5s",
        rows_per_window=50,
    )
    orders = app.read("orders", lines)
    changes = app.read("customers", ListInput(Customer, customers))

    once = orders.deduplicate("once", key="id", within="1h", partitions=partitions)
    table = changes.table("by_id", key="id")
    known = once.join("known", table, on={"customer": "id"}, how="left", partitions=partitions)
    valid, refused = known.split("valid", "cents > 0 and not coalesce(blocked, false)")
    euros = valid.with_columns("euros", amount=pl.col("cents") / 100)
    minutes = euros.group_by("country").window(tumbling("1m"))
    totals = minutes.aggregate(
        "totals",
        orders=agg.count(),
        amount=agg.sum("amount"),
        p95=agg.quantile("amount", 0.95),
        partitions=partitions,
    )
    totals.write("store", CollectorSink())
    totals.write("lake", CollectorSink())
    reason = pl.lit("amount or customer")
    refused.select("reasons", "id", "customer", reason=reason).write("refused", CollectorSink())
    app.dead_letters(CollectorSink())
    return app


@pytest.mark.parametrize("partitions", [1, 2, 3])
def test_orders_to_totals(partitions: int, tmp_path: Path) -> None:
    chance = random.Random(partitions)
    made = [
        Order(f"o{chance.randint(0, 400)}", f"c{chance.randint(0, 12)}", chance.randint(-500, 9000), at)
        for at in (START + timedelta(seconds=3 * n - chance.randint(0, 4)) for n in range(300))
    ]
    customers = [Customer(f"c{n}", "chnode"[n % 3 * 2 : n % 3 * 2 + 2], n % 5 == 0) for n in range(10)]
    lines = [json.dumps({**order._asdict(), "time": order.time.isoformat()}) for order in made]
    lines[7:7] = ['{"id": "broken"', '{"id": "o1", "customer": "c1", "cents": "many", "time": null}']
    (tmp_path / "orders.jsonl").write_text("\n".join(lines), encoding="utf-8")
    run = run_local(shop(tmp_path, customers, partitions), faults=Faults(partitions))

    frame = pl.DataFrame(made, list(Order._fields), orient="row")
    first = frame.unique("id", keep="first", maintain_order=True)
    of_customers = pl.DataFrame(customers, list(Customer._fields), orient="row")
    joined = first.join(of_customers, left_on="customer", right_on="id", how="left")
    good = (pl.col("cents") > 0) & ~pl.col("blocked").fill_null(value=False)
    amount = pl.col("cents") / 100
    minutes = joined.filter(good).group_by("country", pl.col("time").dt.truncate("1m"))
    expected = minutes.agg(pl.len(), amount.sum(), amount.quantile(0.95, "linear").alias("p95"))
    wanted = sorted((str(c), t.timestamp(), n, round(a, 6), round(p, 6)) for c, t, n, a, p in expected.rows())
    for sink in ("store", "lake"):
        rows = [(row["country"], row["window_start"], row["orders"], row["amount"], row["p95"]) for row in
                run.collected(sink)]  # fmt: skip
        found = sorted((str(c), t.timestamp(), n, round(a, 6), round(p, 6)) for c, t, n, a, p in rows)
        assert found == wanted
    refused = sorted(row["id"] for row in run.collected("refused"))
    assert refused == sorted(joined.filter(~good)["id"])
    letters = [letter["error"] for letter in run.collected("dead_letters")]
    assert len(letters) == 2
    assert all("orders.jsonl" in letter for letter in letters)


class Reading(NamedTuple):
    device: str
    celsius: float
    time: datetime


class Alert(NamedTuple):
    device: str
    what: str
    since: datetime


class Drift(Operator):
    """How far a device is from its first reading."""

    readings = InputPort(Reading, key="device")
    drifted = OutputPort(Alert)
    limit: float = 10.0
    first = KeyedState(float)

    @readings.process
    def compare(self, reading: Reading) -> None:
        first = self.first.setdefault(reading.device, reading.celsius)
        if abs(reading.celsius - first) > self.limit:
            self.drifted.emit(Alert(reading.device, "drift", reading.time))


@pytest.mark.parametrize("partitions", [1, 3])
def test_sensors_to_alerts(partitions: int) -> None:
    chance = random.Random(partitions)
    readings = [
        Reading(f"d{n % 4}", round(60 + chance.gauss(0, 1) + n / 8, 3), START + timedelta(seconds=n))
        for n in range(160)
        if not (n % 4 == 3 and 60 < n < 100)  # one falls silent
    ]
    sides: list[list[Any]] = [[], []]
    for begin in range(0, len(readings), 20):
        for place, side in enumerate(sides):
            side += [*readings[begin + place : begin + 20 : 2], END_WINDOW]
    app = Application("sensors", window="100ms")
    mqtt = app.read("mqtt", ListInput(Reading, sides[0], "time", lateness="2s"))
    posted = app.read("posted", ListInput(Reading, sides[1], "time", lateness="2s"))
    every = mqtt.union("readings", posted)
    devices = every.group_by("device")
    figures = devices.window(rolling("5m")).aggregate(
        "figures",
        mean=agg.mean("celsius"),
        max=agg.max("celsius"),
        sd=agg.stddev("celsius"),
        partitions=partitions,
    )
    hot = devices.detect("hot", hysteresis("celsius", above=80, below=70), partitions=partitions)
    silent = devices.detect("silent", absence("10s"), partitions=partitions)
    drifted = every.process("drift", Drift(limit=15.0), partitions=partitions)
    hot.union("alerts", silent, drifted).write("pager", CollectorSink())
    figures.write("figures_out", CollectorSink())
    run = run_local(app)

    by_device: dict[str, list[Reading]] = defaultdict(list)
    for reading in readings:
        by_device[reading.device].append(reading)
    expected = []
    for device, own in by_device.items():
        high = False
        for before, reading in zip([None, *own], own, strict=False):
            if reading.celsius > 80 and not high:
                expected.append((device, "above", reading.time))
            high = reading.celsius > 80 or (high and reading.celsius >= 70)
            if abs(reading.celsius - own[0].celsius) > 15:
                expected.append((device, "drift", reading.time))
            if before is not None and reading.time - before.time > timedelta(seconds=10):
                expected.append((device, "absent", before.time))
    found = [(row["device"], row["what"], row["since"]) for row in run.collected("pager")]
    wanted = {kind: sorted(one for one in expected if one[1] == kind) for kind in ("above", "drift")}
    for kind, rows in wanted.items():
        assert rows
        assert sorted(one for one in found if one[1] == kind) == rows, kind
    silences = {one[0] for one in found if one[1] not in ("above", "drift", "below")}
    assert "d3" in silences

    rows = run.collected("figures_out")
    assert len(rows) == len(readings)
    frame = pl.DataFrame(readings, list(Reading._fields), orient="row").sort("device", "time")
    rolled = frame.rolling("time", period="5m", group_by="device").agg(
        pl.col("celsius").mean().alias("mean"), pl.col("celsius").max().alias("max")
    )
    best = sorted((device, round(mean, 6), most) for device, _, mean, most in rolled.rows())
    assert sorted((row["device"], round(row["mean"], 6), row["max"]) for row in rows) == best
