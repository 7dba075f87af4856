"""Made-up records: the same in all partitions and attempts, of the right shape, and as many as are due."""

from __future__ import annotations

from typing import Any

import pytest

from ridgeline import Application
from ridgeline.operators import EventGenerator
from ridgeline.operators.generators import (
    choice,
    integers,
    normal,
    sequence,
    times,
    uniform,
)
from ridgeline.testing import CollectorSink, run_local
from support.depth import deeper

COLUMNS: dict[str, Any] = {
    "id": sequence(1),
    "dice": integers(1, 6),
    "share": uniform(-1, 1),
    "height": normal(170, 10),
    "user": choice(["ann", "bob", "cyd"], [8, 1, 1]),
    "time": times("2026-01-01", every="1s", late_by="5s"),
}


def generated(
    windows: int | None = None, partitions: int = 1, width: str = "1s", run: Any = None, **options: Any
) -> list[list[tuple[Any, ...]]]:
    app = Application("generated", window=width)
    given = {"columns": COLUMNS, **options}
    app.read("events", EventGenerator(**given), partitions=partitions).write("sink", CollectorSink())
    found = run_local(app, windows=windows, **(run or {}))
    return [sorted(tuple(row.values()) for row in found.collected("sink", one)) for one in found.window_ids]


@pytest.mark.parametrize("partitions", [1, pytest.param(2, marks=deeper), 3, pytest.param(5, marks=deeper)])
def test_records_are_the_same_for_any_number_of_partitions(partitions: int) -> None:
    expected = generated(per_window=37, count=100, seed=3)
    assert [len(window) for window in expected] == [37, 37, 26]
    assert [row[0] for window in expected for row in window] == list(range(1, 101))
    assert generated(per_window=37, count=100, seed=3, partitions=partitions) == expected


def counts(load: Any, windows: int, width: str = "1s", partitions: int = 2) -> list[int]:
    return [
        len(one) for one in generated(windows, partitions, width, columns={"n": sequence()}, per_second=load)
    ]


def test_as_many_records_as_are_due() -> None:
    assert counts(10, 4) == [10, 10, 10, 10]
    assert counts(2.5, 4) == [2, 3, 2, 3]
