"""Pivots in windows and of all records: beside polars, in partitions, over faults."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from ridgeline import Application, RidgelineError, ValidationError
from ridgeline.operators import Windowed, rolling, tumbling
from ridgeline.operators import aggregate as agg
from ridgeline.plan.spec.writer import operator_spec
from ridgeline.testing import END_WINDOW, CollectorSink, Faults, ListInput, run_local
from support.depth import deep

START = datetime(2026, 3, 29, tzinfo=UTC)


class Reading(NamedTuple):
    device: str
    sensor: str | None
    port: int
    value: float | None
    time: datetime


def readings(rows: Any) -> list[Reading]:
    return [
        Reading(device, sensor, port, value, START + timedelta(seconds=second))
        for device, sensor, port, value, second in rows
    ]


def run(rows: list[Reading], steps: Any, **options: Any) -> list[dict[str, Any]]:
    app = Application("pivot", window="1s")
    items = [item for begin in range(0, len(rows), 7) for item in (*rows[begin : begin + 7], END_WINDOW)]
    source = app.read("source", ListInput(Reading, items, "time", lateness="1m"))
    steps(source.group_by("device")).write("sink", CollectorSink())
    return run_local(app, **options).collected("sink")


SENSORS = ["in", "out", None]
MANY = readings(
    [("ab"[n % 2], SENSORS[n % 3], n % 3 + 1, float(n % 5) if n % 4 else None, n) for n in range(60)]
)


@pytest.mark.parametrize("seed", range(deep(2)))
def test_kills_change_nothing(seed: int) -> None:
    def steps(stream: Any) -> Any:
        windows = stream.window(rolling("9s"))
        return windows.pivot("wide", "port", {"one": 1, "two": 2}, agg.mean("value"), partitions=2)

    found, again = run(MANY, steps), run(MANY, steps, faults=Faults(seed))
    assert sorted(map(repr, found)) == sorted(map(repr, again))
    assert len(found) == len(MANY)
    for row, one in zip(sorted(found, key=lambda row: row["window_end"]), MANY, strict=True):
        own = [
            other.value
            for other in MANY
            if other.device == one.device
            and one.time - timedelta(seconds=9) < other.time <= one.time
            and other.port == 1
            and other.value is not None
        ]
        assert row["one"] == (pytest.approx(sum(own) / len(own)) if own else None)


def test_it_is_data() -> None:
    values = {"x": agg.only(agg.quantile("value", 0.9), "sensor", "in")}
    operator = Windowed(tumbling("1m"), key="device", values=values)
    assert "equals" in str(operator_spec("wide", operator, {}))


@pytest.mark.parametrize(
    ("steps", "what"),
    [
        (lambda s: s.pivot("wide", "sensr", ["in"], agg.count()), "there is no column `sensr`"),
        (lambda s: s.pivot("wide", "sensor", ["in"], agg.sum("valeu")), "there is no column `valeu`"),
        (lambda s: s.pivot("wide", "port", ["one"], agg.count()), "which never equals 'one'"),
        (lambda s: s.pivot("wide", "port", [1, 2], agg.count()), "give a list of texts, or names"),
        (lambda s: s.pivot("wide", "sensor", "in", agg.count()), "give a list of texts, or names"),
    ],
)
def test_what_does_not_fit_is_refused(steps: Any, what: str) -> None:
    with pytest.raises((ValidationError, RidgelineError), match=what):
        run([], steps)
