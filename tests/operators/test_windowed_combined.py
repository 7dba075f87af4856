"""Windows whose records are aggregated in part before they are sent: all is as without that."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline import Application
from ridgeline.api.errors import OperatorError
from ridgeline.operators import Windowed, aggregate, sliding, tumbling
from ridgeline.operators.windows import fixed
from ridgeline.plan import describe, plan_application
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, LocalRun, run_local
from support.depth import deep
from support.measure.reports import container_windows, operator_windows

START = datetime(2026, 3, 28, 22, tzinfo=UTC)
"""An hour before a day of Berlin that has 23 hours."""


class Sale(NamedTuple):
    shop: str | None
    till: float
    cents: int | None
    price: float
    tax: Decimal | None
    time: datetime | None


VALUES = {
    "start": aggregate.window_start(),
    "end": aggregate.window_end(),
    "sales": aggregate.count(),
    "known": aggregate.count("cents"),
    "cents": aggregate.sum("cents"),
    "prices": aggregate.sum("price"),
    "taxes": aggregate.sum("tax"),
    "mean": aggregate.mean("price"),
    "low": aggregate.min("price"),
    "high": aggregate.max("price"),
    "latest": aggregate.max("time"),
    "first": aggregate.first("price"),
    "last": aggregate.last("cents"),
    "dearest": aggregate.max_by("cents", "price"),
    "spread": aggregate.variance("price"),
    "final": aggregate.is_final(),
}


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """However few records there are, they are combined."""
    with monkeypatch.context() as patch:
        patch.setattr(fixed, "LEAST_RECORDS", 1)
        patch.setattr(fixed, "LEAST_A_ROW", 0)
        yield


def sale(second: float, shop: str | None = "a", cents: int | None = 1, price: float = 0.5) -> Sale:
    return Sale(
        shop, float(len(shop or "")), cents, price, Decimal("0.07"), START + timedelta(seconds=second)
    )


def application(
    items: list[Any],
    how: Any,
    *,
    source_lateness: float = 0,
    partitions: int = 1,
    sources: int = 1,
    key: Any = "shop",
    values: Mapping[str, Any] = VALUES,
    **properties: Any,
) -> Application:
    app = Application("sales", window="1s")
    totals = Windowed(how, key=key, values=dict(values), **properties)
    sales = app.read("source", ListInput(Sale, items, "time", source_lateness), partitions=sources)
    sales.process("totals", totals, partitions=partitions).write("sink", CollectorSink())
    return app


def seen(run: LocalRun) -> list[Any]:
    """What a user sees of the operator, window by window: results, tuples, late ones and watermarks."""
    ids = {
        node.id: node.partition
        for event in run.events
        if hasattr(event, "topology")
        for node in event.topology.operators
        if node.name == "totals" and not node.unifier
    }
    windows = [
        (
            event.window_id,
            ids[event.operator],
            event.tuples_in,
            event.tuples_out,
            event.late,
            event.watermark and event.watermark.left,
        )
        for event in operator_windows(run.events)
        if event.operator in ids
    ]
    # as text, since no NaN equals itself
    results = [[repr(row) for row in run.collected("sink", window)] for window in run.window_ids]
    return [sorted(windows, key=repr), results]


def sent_bytes(run: LocalRun) -> int:
    return sum(event.bytes_out for event in container_windows(run.events))


NUMBERS = st.sampled_from([0.0, -0.0, 1e300, -1e300, math.inf, -math.inf, math.nan, 0.1, 1.5, 1e-310])
SALES = st.builds(
    Sale,
    st.sampled_from(["a", "b", "c", "dd", None]),
    NUMBERS,
    st.one_of(st.none(), st.integers(-(2**40), 2**40)),
    NUMBERS,
    st.one_of(st.none(), st.decimals("-1e9", "1e9", places=2)),
    st.one_of(
        st.integers(-100_000, 200_000).map(lambda number: START + timedelta(seconds=number / 2)),
        st.integers(0, 40).map(lambda number: START + timedelta(seconds=number / 2)),
    ),
)
KINDS = [
    tumbling(10),
    tumbling(100_000, offset=5),
    sliding(30, 10),
    tumbling("1d", zone="Europe/Berlin"),
    sliding("3d", "1d", zone="Europe/Berlin"),
]


@pytest.mark.usefixtures("eager")
@settings(max_examples=deep(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    windows=st.lists(st.lists(SALES, max_size=20), min_size=1, max_size=5),
    how=st.sampled_from(KINDS),
    partitions=st.sampled_from([1, 2, 3, 5]),
    sources=st.sampled_from([1, 2, 3]),
    key=st.sampled_from(["shop", "till", ["shop", "till"], ()]),
    lateness=st.sampled_from([0.0, 5.0, 1e5]),
    extra=st.sampled_from([0.0, 20.0]),
    early=st.sampled_from(
        [{}, {"early_count": 2}, {"early_count": 3, "accumulation": "discarding"}, {"early": "1s"}]
    ),
)
def test_all_is_as_without(
    windows: list[list[Sale]],
    how: Any,
    partitions: int,
    sources: int,
    key: Any,
    lateness: float,
    extra: float,
    early: dict[str, Any],
) -> None:
    """Results bit for bit, tuples, late records and watermarks; nulls, NaN, -0.0 and infinities too."""
    items = [item for window in windows for item in (*window, END_WINDOW)]
    if key == ():
        partitions = 1
    options = {"source_lateness": lateness, "partitions": partitions, "sources": sources, "key": key}
    with_it, without = (
        run_local(application(items, how, **options, **early, lateness=extra, combine=combine))
        for combine in (True, False)
    )
    assert seen(with_it) == seen(without)


def busy(windows: int = 6, each: int = 3_000, shops: int = 5) -> list[Any]:
    """Many sales of few shops, mostly in the order of their times; a few come too late."""
    random = np.random.default_rng(7)
    items: list[Any] = []
    for window in range(windows):
        seconds = window * 20 + np.sort(random.uniform(0, 20, each))
        seconds[:: each // 3] -= 60
        for number, second in enumerate(seconds.tolist()):
            shop = "abcdefghij"[int(random.integers(shops))]
            items.append(sale(second, shop, number, float(random.normal(100, 15))))
        items.append(END_WINDOW)
    return items


TOTALS = {name: VALUES[name] for name in ("start", "sales", "cents", "prices", "high")}


def test_less_is_sent_and_sums_are_those_of_polars() -> None:
    items = busy(4, each=6_000)
    options: dict[str, Any] = {"partitions": 3, "sources": 2, "values": TOTALS, "source_lateness": 90}
    with_it = run_local(application(items, tumbling("10s"), **options))
    without = run_local(application(items, tumbling("10s"), combine=False, **options))
    assert sent_bytes(with_it) < sent_bytes(without) / 20
    assert seen(with_it) == seen(without)
    sales = pl.DataFrame([one._asdict() for one in items if one is not END_WINDOW])
    expected = sales.group_by("shop", start=pl.col("time").dt.truncate("10s")).agg(
        sales=pl.len(), cents=pl.col("cents").sum(), prices=pl.col("price").sum(), high=pl.col("price").max()
    )
    found = {(row["shop"], row["start"]): row for row in with_it.collected("sink")}
    assert len(found) == len(expected)
    for row in expected.to_dicts():
        own = found[row["shop"], row["start"]]
        assert own["prices"] == pytest.approx(row.pop("prices"), rel=1e-12)
        assert {name: own[name] for name in row} == row


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("column", "key", "shown"), [("cents", "shop", "'a'"), ("price", "shop", "'a'"), ("cents", (), r"\(\)")]
)
def test_a_sum_that_does_not_fit_names_the_operator_that_has_it(column: str, key: Any, shown: str) -> None:
    """Partial results without a key are rows without a column, which an error shows, too."""
    items = [sale(number, "a", 2**62, 1.7e308) for number in range(4)]
    values = {"sum": aggregate.sum(column)}
    app = application(items, tumbling(10), partitions=2 if key else 1, sources=2, key=key, values=values)
    assert "combined" in describe(plan_application(app))
    with pytest.raises(OperatorError, match=rf"the sum `sum` of key {shown} in `totals` does not fit"):
        run_local(app)


@pytest.mark.usefixtures("eager")
def test_records_without_a_time_are_late_as_without() -> None:
    items = [sale(1), sale(2)._replace(time=None), END_WINDOW, sale(3), END_WINDOW, sale(30)]
    found = [seen(run_local(application(items, tumbling(10), partitions=2, combine=one))) for one in (1, 0)]
    assert found[0] == found[1]
