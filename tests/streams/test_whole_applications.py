"""Applications of many steps: their results equal polars over the same records."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import polars as pl
import pytest

from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort
from ridgeline.operators import absence, hysteresis, rolling, tumbling
from ridgeline.operators import aggregate as agg
from ridgeline.testing import ABORT, CollectorSink, ListInput, run_local

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


def made_up(seed: int) -> tuple[list[Order], list[Customer]]:
    chance = random.Random(seed)
    orders = [
        Order(
            f"o{chance.randint(0, 200)}",
            f"c{chance.randint(0, 12)}",
            chance.randint(-500, 9000),
            START + timedelta(seconds=3 * number - chance.randint(0, 4)),
        )
        for number in range(300)
    ]
    customers = [Customer(f"c{n}", "chnode"[n % 3 * 2 : n % 3 * 2 + 2], n % 5 == 0) for n in range(10)]
    return orders, customers


@pytest.mark.parametrize("seed", range(4))
def test_orders_with_customers_to_totals(seed: int) -> None:
    made, known_customers = made_up(seed)
    items: list[Any] = [*made]
    items.insert(seed * 50, ABORT)
    app = Application("shop", window="50ms")
    orders = app.read("orders", ListInput(Order, items, "time", lateness="5s"))
    customers = app.read("customers", ListInput(Customer, known_customers))
    once = orders.deduplicate("once", key="id", within="1h")
    known = once.join("known", customers.table("by_id", key="id"), on={"customer": "id"}, how="left")
    valid, refused = known.split("valid", "cents > 0 and not coalesce(blocked, false)")
    euros = valid.with_columns("euros", amount=pl.col("cents") / 100)
    totals = (
        euros.group_by("country")
        .window(tumbling("1m"))
        .aggregate("totals", orders=agg.count(), amount=agg.sum("amount"), partitions=2)
    )
    totals.write("store", CollectorSink())
    refused.select("reasons", "id", "customer", reason=pl.lit("why")).write("refused", CollectorSink())
    run = run_local(app)

    first = pl.DataFrame(made, list(Order._fields), orient="row").unique(
        "id", keep="first", maintain_order=True
    )
    of_customers = pl.DataFrame(known_customers, list(Customer._fields), orient="row")
    joined = first.join(of_customers, left_on="customer", right_on="id", how="left")
    good = (pl.col("cents") > 0) & ~pl.col("blocked").fill_null(value=False)
    minutes = joined.filter(good).group_by("country", pl.col("time").dt.truncate("1m"))
    expected = minutes.agg(pl.len(), (pl.col("cents") / 100).sum().round(6)).rows()
    found = [
        (row["country"], row["window_start"], row["orders"], round(row["amount"], 6))
        for row in run.collected("store")
    ]
    assert sorted(found, key=repr) == sorted(
        ((country, time.replace(tzinfo=found[0][1].tzinfo), *rest) for country, time, *rest in expected),
        key=repr,
    )
    assert sorted(row["id"] for row in run.collected("refused")) == sorted(joined.filter(~good)["id"])


def test_sensors_to_alerts() -> None:
    readings = [Reading("ab"[n % 2], 50.0 + n, START + timedelta(seconds=n)) for n in range(60)]
    app = Application("sensors", window="100ms")
    mqtt = app.read("mqtt", ListInput(Reading, readings[::2], "time", lateness="2s"))
    posted = app.read("posted", ListInput(Reading, readings[1::2], "time", lateness="2s"))
    both = mqtt.union("readings", posted)
    devices = both.group_by("device")
    figures = devices.window(rolling("5m")).aggregate(
        "figures", mean=agg.mean("celsius"), sd=agg.stddev("celsius")
    )
    hot = devices.detect("hot", hysteresis("celsius", above=80, below=70))
    silent = devices.detect("silent", absence("10s"))
    drifted = both.process("drift", Drift(limit=15.0), partitions=2)
    hot.union("alerts", silent, drifted).write("pager", CollectorSink())
    figures.write("figures_out", CollectorSink())
    run = run_local(app)
    alerts = [(row["device"], row["what"]) for row in run.collected("pager")]
    assert alerts.count(("a", "above")) == alerts.count(("b", "above")) == 1
    assert sum(what == "drift" for _, what in alerts) == sum(
        reading.celsius - (50 + (reading.device == "b")) > 15 for reading in readings
    )
    assert len(run.collected("figures_out")) == 60
