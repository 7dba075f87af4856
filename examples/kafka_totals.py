"""Orders of a topic of Kafka to totals by country and minute in another topic, exactly once.

    ridgeline run examples/kafka_totals.py --servers localhost:9092

Make the topic `orders` first; the topic `totals` is made if it is not there.
Write orders such as {"country": "CH", "cents": 500, "time": "2026-01-01T12:00:00Z"} to `orders`.
"""

from datetime import datetime
from typing import NamedTuple

from ridgeline import Application
from ridgeline.connectors.kafka import KafkaInput, KafkaOutput
from ridgeline.operators import aggregate as agg
from ridgeline.operators import tumbling


class Order(NamedTuple):
    country: str
    cents: int
    time: datetime


def application(servers: str, source: str = "orders", target: str = "totals") -> Application:
    app = Application("kafka_totals", window="50ms", on_error="SKIP")
    orders = app.read(
        "orders", KafkaInput(source, servers=servers, schema=Order, timestamp="time", lateness="5s")
    )
    by_country = orders.filter("valid", "cents > 0").group_by("country")
    totals = by_country.window(tumbling("1m")).aggregate("totals", orders=agg.count(), cents=agg.sum("cents"))
    totals.write("out", KafkaOutput(target, key="country", servers=servers, topic_partitions=3))
    return app
