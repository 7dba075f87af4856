"""Orders from Kafka, joined with customers that a database changes, to minute totals.

They are exactly once in PostgreSQL, Kafka and a lake table.
"""

from datetime import datetime
from typing import NamedTuple

import polars as pl

from ridgeline import Application
from ridgeline.operators import aggregate as agg
from ridgeline.operators import tumbling
from ridgeline.operators.kafka import KafkaInput, KafkaOutput
from ridgeline.operators.lake import DeltaOutput
from ridgeline.operators.postgres import PostgresChanges, PostgresOutput


class Order(NamedTuple):
    id: str
    customer: str
    cents: int
    time: datetime


class Customer(NamedTuple):
    id: str
    country: str
    blocked: bool


app = Application("shop", window="50ms")

orders = app.read(
    "orders", KafkaInput("orders", schema=Order, format="json", timestamp="time", lateness="5s")
)  # servers: from configuration
customers = app.read("customers", PostgresChanges("customers", schema=Customer))

once = orders.deduplicate("once", key="id", within="1h")
known = once.join("known", customers.table("by_id", key="id"), on={"customer": "id"}, how="left")
valid, refused = known.split("valid", "cents > 0 and not coalesce(blocked, false)")

euros = valid.with_columns("euros", amount=pl.col("cents") / 100)
totals = (
    euros.group_by("country")
    .window(tumbling("1m"))
    .aggregate(
        "totals", orders=agg.count(), amount=agg.sum("amount"), p95=agg.quantile("amount", 0.95), partitions=2
    )
)

totals.write("store", PostgresOutput("totals", key=["country", "window_start"]))
totals.write("lake", DeltaOutput("s3://shop/totals", partition_by=["country"]))
refused.select("reasons", "id", "customer", reason=pl.lit("amount or customer")).write(
    "refused", KafkaOutput("refused", key="customer")
)

app.dead_letters(KafkaOutput("dead-letters"))
