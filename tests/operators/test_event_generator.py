"""Made-up records: the same in all partitions and attempts, of the right shape, and as many as are due."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ridgeline import Application, ValidationError
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


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"timestamp": "id"}, "must be a column of `times`"),
        ({"timestamp": "at"}, "must be a column of `times`"),
        ({"lateness": "5s"}, "needs `timestamp`"),
        ({"per_second": 0}, "must be more than 0"),
        ({"per_second": math.inf}, "must be more than 0"),
        ({"columns": {}}, "at least 1"),
    ],
)
def test_faults(options: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError) as error:
        generated(1, **options)
    assert fault in str(error.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: integers(2, 1),
        lambda: uniform(1, math.nan),
        lambda: normal(0, -1),
        lambda: choice([]),
        lambda: choice(["a"], [0]),
        lambda: choice(["a"], [1, 2]),
        lambda: times("soon", every=1),
        lambda: times("2026-01-01", every="often"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match=r"got|Invalid isoformat|is not a duration"):
        make()
