"""The shop: Kafka and a table that changes, to PostgreSQL, Kafka and a lake table, beside a plain loop."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import psycopg
import pytest
from deltalake import DeltaTable

from ridgeline.api.clock import SystemClock
from ridgeline.testing import run_local
from ridgeline.testing.local_run import LocalRun
from support.examples.contract import application
from support.operators.kafka_topics import fill, values
from support.services import Kafka, Postgres, SeaweedFS
from support.services.fixtures import kafka, postgres, seaweedfs

__all__ = ["kafka", "postgres", "seaweedfs"]

pytestmark = pytest.mark.slow

START = datetime(2026, 1, 1, 8, tzinfo=UTC)
COUNTRIES = {"ann": "ch", "bob": "de", "cyd": "ch", "dan": "no"}
AFTER = START + timedelta(hours=2)
"""The time of an order that closes the windows before it."""


def orders() -> list[dict[str, Any]]:
    """Orders by time, of which some are without an amount, and some come twice."""
    chance, found = Random(7), []
    for number in range(600):
        at = START + timedelta(seconds=number)
        cents = chance.choice([0, -5, *[chance.randrange(1, 10_000) for _ in range(8)]])
        one = {"id": f"o{number}", "customer": chance.choice(list(COUNTRIES)), "cents": cents}
        found += [{**one, "time": at.isoformat()}] * chance.choice([1, 1, 1, 2])
    return found


def expected(half: int) -> tuple[dict[Any, tuple[int, int]], list[str]]:
    """Count and cents by country and minute, and the orders that are refused. `half`: bob is blocked then."""
    seen: set[str] = set()
    totals: dict[Any, list[int]] = defaultdict(lambda: [0, 0])
    refused = []
    for number, one in enumerate(orders()):
        if one["id"] in seen:
            continue
        seen.add(one["id"])
        if one["cents"] <= 0 or (one["customer"] == "bob" and number >= half) or one["customer"] == "dan":
            refused.append(one["id"])
            continue
        minute = datetime.fromisoformat(one["time"]).replace(second=0)
        own = totals[COUNTRIES[one["customer"]], minute]
        own[0], own[1] = own[0] + 1, own[1] + one["cents"]
    return {key: (count, cents) for key, (count, cents) in totals.items()}, sorted(refused)


class Script:
    """What happens while the application runs: orders, then a change in the database, then more orders."""

    def __init__(self, kafka: Kafka, topic: str, dsn: str) -> None:
        self.kafka, self.topic, self.dsn = kafka, topic, dsn
        self.every = orders()
        self.half = len(self.every) // 2
        self.sent = 0
        self.step = 0

    def send(self, messages: list[dict[str, Any]], more: list[dict[str, Any]]) -> None:
        keyed = [{"key": one["customer"], "value": one} for one in messages]
        fill(self.kafka, self.topic, keyed + more)
        self.sent += len(messages)

    def __call__(self, run: LocalRun) -> bool:
        came = {name: run.tuples_out(name) for name in ("customers", "orders")}
        if self.step == 0 and came["customers"] >= len(COUNTRIES):
            self.send(self.every[: self.half], [{"key": "torn", "value": b"{"}])
        elif self.step == 1 and came["orders"] >= self.sent:
            with psycopg.connect(self.dsn) as connection:
                connection.execute("update customers set blocked = true where id = 'bob'")
        elif self.step == 2 and came["customers"] > len(COUNTRIES):
            end = {"id": "end", "customer": "ann", "cents": 1, "time": AFTER.isoformat()}
            last = [{"partition": number, "value": {**end, "id": f"end{number}"}} for number in range(2)]
            self.send(self.every[self.half :], last)
            self.sent += len(last)
        elif self.step == 3 and came["orders"] >= self.sent:
            self.step = 4
            return True
        else:
            return False
        self.step += 1
        return False


def test_totals_are_those_of_a_plain_loop(
    kafka: Kafka, postgres: Postgres, seaweedfs: SeaweedFS, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn, topic, lake = postgres.database(), kafka.topic(partitions=2), f"s3://{seaweedfs.bucket()}/totals"
    refused, letters = kafka.topic(), kafka.topic()
    with psycopg.connect(dsn) as connection:
        connection.execute("create table customers (id text primary key, country text, blocked boolean)")
        for name, country in COUNTRIES.items():
            connection.execute("insert into customers values (%s, %s, %s)", (name, country, name == "dan"))
    surroundings = {"KAFKA_SERVERS": kafka.servers, "POSTGRES_DSN": dsn, "AWS_ALLOW_HTTP": "true"}
    for name, value in (surroundings | seaweedfs.addresses()).items():
        monkeypatch.setenv(name, value)
    module = application("shop", monkeypatch)

    script = Script(kafka, topic, dsn)
    places = {"orders.topic": topic, "refused.topic": refused, "lake.path": lake}
    places["dead_letters.topic"] = letters
    run_local(
        module.app,
        properties=places,
        attributes={"on_error": "SKIP"},
        checkpoint=tmp_path,
        clock=SystemClock(),
        until=script,
    )
    assert script.step == 4

    totals, left_out = expected(script.half)
    query = "select country, window_start, orders, amount, p95 from totals"
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(query).fetchall()
    found = {(country, at): (count, round(amount * 100)) for country, at, count, amount, _ in rows}
    assert len(found) == len(rows)
    assert found == totals
    table = DeltaTable(lake, storage_options={**seaweedfs.addresses(), "AWS_ALLOW_HTTP": "true"})
    stored = table.to_pyarrow_table().select(["country", "window_start", "orders", "amount", "p95"])
    assert sorted(tuple(row.values()) for row in stored.to_pylist()) == sorted(rows)
    assert sorted(one["id"] for one in values(kafka, refused)) == left_out
    [letter] = values(kafka, letters)
    assert letter["operator"] == "orders"
