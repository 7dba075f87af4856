"""Running aggregates against plain loops: in random batches and partitions, with kills and times to live."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from ridgeline import Application
from ridgeline.operators import aggregate as agg
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local

START = datetime(2026, 1, 1, tzinfo=UTC)


class Timed(NamedTuple):
    account: str
    cents: int
    time: datetime


def timed(second: float, account: str = "a") -> Timed:
    return Timed(account, 1, START + timedelta(seconds=second))


def counts(items: list[Any], **options: Any) -> list[list[tuple[Any, ...]]]:
    app = Application("payments", window="1s")
    grouped = app.read("payments", ListInput(Timed, items, "time", lateness=0)).group_by("account")
    grouped.aggregate("totals", n=agg.count(), **options).write("sink", CollectorSink())
    run = run_local(app)
    return [[tuple(row.values()) for row in run.collected("sink", window)] for window in run.window_ids]


@pytest.mark.parametrize("emit", ["changes", "records"])
def test_a_key_is_forgotten_after_its_time_to_live(emit: str) -> None:
    items = [
        timed(0), timed(8, "b"), END_WINDOW,
        timed(9), END_WINDOW,  # by the watermark, 8, it lives
        timed(20, "b"), END_WINDOW,
        timed(25), timed(25, "b"), END_WINDOW,  # by the watermark, 20, the first is over
    ]  # fmt: skip
    found = counts(items, ttl="10s", ttl_by="record", emit=emit)
    assert found[:4] == [[("a", 1), ("b", 1)], [("a", 2)], [("b", 2)], [("a", 1), ("b", 3)]]
