"""The example of the page on Kafka, from topic to topic."""

from datetime import UTC, datetime, timedelta

import pytest

from kafka_totals import application
from ridgeline.testing import run_local
from support.operators.kafka_topics import fill, values

pytestmark = pytest.mark.slow


def test_totals_by_country_and_minute(kafka, tmp_path):
    source, begin = kafka.topic(partitions=2), datetime(2026, 1, 1, 12, tzinfo=UTC)
    rows = [
        ("CH" if number % 3 else "NO", number, begin + timedelta(seconds=number)) for number in range(200)
    ]
    orders = [
        {"value": {"country": c, "cents": n, "time": t.isoformat()}, "partition": n % 2} for c, n, t in rows
    ]
    fill(kafka, source, [*orders, {"value": b"{", "partition": 0}])
    app = application(kafka.servers, source, f"{source}-totals")
    run_local(app, properties={"orders.until": "end"}, checkpoint=tmp_path)
    expected = {}
    for country, cents, time in rows:
        if cents > 0:
            start = time.replace(second=0)
            count, total = expected.get((country, start), (0, 0))
            expected[country, start] = count + 1, total + cents
    found = values(kafka, f"{source}-totals")
    assert len(found) == len(expected)
    got = {
        (one["country"], datetime.fromisoformat(one["window_start"])): (one["orders"], one["cents"])
        for one in found
    }
    assert got == expected
