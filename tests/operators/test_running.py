"""Running aggregates against plain loops: in random batches and partitions, with kills and times to live."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline import Application, ValidationError
from ridgeline.operators import Running
from ridgeline.operators import aggregate as agg
from ridgeline.testing import ABORT, END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deep

START = datetime(2026, 1, 1, tzinfo=UTC)


class Payment(NamedTuple):
    account: str
    country: int
    cents: int | None


class Timed(NamedTuple):
    account: str
    cents: int
    time: datetime


VALUES = {
    "n": agg.count(),
    "total": agg.sum("cents"),
    "highest": agg.max("cents"),
    "first": agg.first("cents"),
    "last": agg.last("cents"),
    "unique": agg.count_unique("cents"),
    "median": agg.median("cents"),
    "spread": agg.variance("cents"),
    "joined": agg.reduce("cents", lambda so_far, cents: (so_far * 31 + cents) % 1_000_003, 7),
}


def figures(own: list[Payment]) -> tuple[Any, ...]:
    values = pl.Series([one.cents for one in own], dtype=pl.Int64).drop_nulls()
    joined = 7
    for cents in values.to_list():
        joined = (joined * 31 + cents) % 1_000_003
    return (
        len(own),
        int(values.sum()) if len(values) else None,
        values.max(),
        *((values[0], values[-1]) if len(values) else (None, None)),
        values.n_unique(),
        values.median(),
        None if len(values) < 2 else pytest.approx(values.var()),
        joined,
    )


@st.composite
def windows_of(draw: st.DrawFn) -> list[list[Payment]]:
    payment = st.builds(Payment, st.sampled_from("abc"), st.integers(0, 1), st.none() | st.integers(-9, 9))
    return draw(st.lists(st.lists(payment, max_size=6), min_size=1, max_size=6))


@settings(deadline=None, max_examples=deep(12), suppress_health_check=[HealthCheck.too_slow])
@given(
    windows_of(),
    st.sampled_from(["changes", "records"]),
    st.sampled_from([("account",), ("account", "country"), ()]),
    st.sampled_from([1, 2, 3, 5]),
    st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_running_aggregates_equal_a_plain_loop(
    windows: list[list[Payment]], emit: str, key: tuple[str, ...], partitions: int, kills: list[bool]
) -> None:
    items = [
        item
        for window, kill in zip(windows, kills, strict=False)
        for item in (*window, *[ABORT] * kill, END_WINDOW)
    ]
    app = Application("payments", window="1s")
    source = app.read("payments", ListInput(Payment, items))
    grouped = source.group_by(*key) if key else source
    totals = grouped.aggregate("totals", **VALUES, emit=emit, partitions=partitions)
    totals.write("sink", CollectorSink())
    run = run_local(app)
    seen: dict[tuple[Any, ...], list[Payment]] = {}
    for number, window in enumerate(windows):
        expected = []
        for one in window:
            name = tuple(getattr(one, column) for column in key)
            seen.setdefault(name, []).append(one)
            if emit == "records":
                expected.append((*name, *figures(seen[name])))
        if emit == "changes":
            names = {tuple(getattr(one, column) for column in key) for one in window}
            expected = [(*name, *figures(seen[name])) for name in names]
        found = [tuple(row.values()) for row in run.collected("sink", number)]
        if partitions > 1 or emit == "changes":
            found, expected = (sorted(one, key=lambda row: row[: len(key) + 1]) for one in (found, expected))
        assert found == expected


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


@pytest.mark.parametrize(
    ("properties", "fault"),
    [
        ({"values": {"start": agg.window_start()}}, "there are no windows here"),
        ({"values": {"account": agg.count()}}, "must not have the name of a key's column"),
        ({"values": {"n": agg.sum("cent")}}, "there is no column `cent`"),
        ({"ttl": "soon"}, "must be a number of seconds"),
        ({"ttl": 0}, "must be more than 0"),
        ({"emit": "all"}, "'changes' or 'records'"),
        ({"key": "acount"}, "acount"),
    ],
)
def test_faults(properties: dict[str, Any], fault: str) -> None:
    app = Application("payments")
    source = app.read("payments", ListInput(Payment, []))
    given = {"key": "account", "values": {"n": agg.count()}, **properties}
    source.process("totals", Running(**given)).write("console")
    with pytest.raises(ValidationError) as error:
        run_local(app)
    assert fault in str(error.value)
