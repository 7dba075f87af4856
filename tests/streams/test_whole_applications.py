"""The applications of the contract as they are, between stand-ins for connectors: orders, sensors, clicks.

Results equal polars or a plain loop over the same records, whatever the partitions and failures. Broken lines
are dead letters.
"""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.examples.contract import application

START = datetime(2026, 1, 1, tzinfo=UTC)


def sink(*_: object, **__: object) -> CollectorSink[Any]:
    """Stands for any output."""
    return CollectorSink()


@pytest.mark.parametrize("partitions", [1, 3])
def test_sensors_to_alerts(partitions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(partitions)
    readings = [
        (f"d{n % 4}", round(60 + chance.gauss(0, 1) + n / 8, 3), START + timedelta(seconds=n))
        for n in range(160)
        if not (n % 4 == 3 and 60 < n < 100)  # one falls silent
    ]
    sides: list[list[Any]] = [[], []]
    for begin in range(0, len(readings), 20):
        for place, side in enumerate(sides):
            side += [*readings[begin + place : begin + 20 : 2], END_WINDOW]

    def messages(_topic: str, schema: Any, timestamp: str, lateness: str) -> ListInput[Any]:
        return ListInput(schema, sides[0], timestamp, lateness=lateness)

    def posts(_path: str, schema: Any, timestamp: str, lateness: str) -> ListInput[Any]:
        return ListInput(schema, sides[1], timestamp, lateness=lateness)

    connectors = {"http": {"HttpInput": posts, "HttpOutput": sink}, "mqtt": {"MqttInput": messages}}
    sensors = application("sensors", monkeypatch, connectors)
    sensors.figures.write("figures_out", CollectorSink())
    divided = {f"{name}.partitions": str(partitions) for name in ("figures", "hot", "silent", "drift")}
    run = run_local(sensors.app, attributes=divided)

    by_device: dict[str, list[tuple[str, float, datetime]]] = defaultdict(list)
    for reading in readings:
        by_device[reading[0]].append(reading)
    expected = []
    for device, own in by_device.items():
        high = False
        for before, (_, celsius, time) in zip([None, *own], own, strict=False):
            if celsius > 80 and not high:
                expected.append((device, "above", time))
            high = celsius > 80 or (high and celsius >= 70)
            if abs(celsius - own[0][1]) > 15:
                expected.append((device, "drift", time))
            if before is not None and time - before[2] > timedelta(seconds=10):
                expected.append((device, "absent", before[2]))
    assert {kind for _, kind, _ in expected} == {"above", "drift", "absent"}
    assert sorted((row["device"], row["what"], row["since"]) for row in run.collected("pager")) == sorted(
        expected
    )

    rows = run.collected("figures_out")
    assert len(rows) == len(readings)
    frame = pl.DataFrame(readings, ["device", "celsius", "time"], orient="row").sort("device", "time")
    celsius = pl.col("celsius")
    rolled = frame.rolling("time", period="5m", group_by="device").agg(
        celsius.mean().alias("mean"), celsius.max().alias("max"), celsius.std().alias("sd")
    )
    best = sorted(
        (device, round(mean, 6), most, round(sd or 0, 6)) for device, _, mean, most, sd in rolled.rows()
    )
    found = [(row["device"], round(row["mean"], 6), row["max"], round(row["sd"] or 0, 6)) for row in rows]
    assert sorted(found) == best
