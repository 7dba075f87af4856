"""The largest tuples of each key: beside polars, in partitions, over failures and changes of partitions."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import polars as pl
import pytest

from ridgeline import Application
from ridgeline.plan.edits import Repartition
from ridgeline.plan.validation import find_faults
from ridgeline.testing import END_WINDOW, CollectorSink, Faults, ListInput, run_local
from support.testing.shares import share


class Bid(NamedTuple):
    item: str | None
    bidder: int
    cents: float | None
    place: int


VALUES = [None, -1.5, -0.0, 0.0, 1.0, 2.5, math.nan, math.inf, -math.inf, 7.0, 8.0]


def windows_of(seed: int) -> list[list[Bid]]:
    chance, place = random.Random(seed), iter(range(10_000))
    return [
        [
            Bid(chance.choice([None, *"abcd"]), chance.randrange(3), chance.choice(VALUES), next(place))
            for _ in range(chance.randrange(12))
        ]
        for _ in range(10)
    ]


def application(
    windows: Sequence[Sequence[Bid]], *keys: str, partitions: int = 1, **options: Any
) -> Application:
    app = Application("tops", window="1s")
    bids = app.read("bids", ListInput(Bid, [item for window in windows for item in (*window, END_WINDOW)]))
    top = bids.group_by(*keys).top("top", 3, by="cents", partitions=partitions, **options)
    top.write("sink", CollectorSink())
    return app


def latest(rows: Sequence[dict[str, Any]], keys: Sequence[str]) -> Counter[str]:
    return Counter(map(str, {(*(row[key] for key in keys), row["rank"]): row for row in rows}.values()))


def by_polars(windows: Sequence[Sequence[Bid]], keys: Sequence[str], *, smallest: bool) -> Counter[str]:
    bids = [bid for window in windows for bid in window if bid.cents is not None]
    frame = pl.DataFrame(bids, schema=list(Bid._fields), orient="row", infer_schema_length=None)
    cents = pl.col("cents")
    first = (cents.is_nan(), cents if smallest else -cents, "place")
    best = frame.sort(*first).group_by(*keys, maintain_order=True).head(3)
    ranked = best.with_columns(rank=pl.int_range(pl.len()).over(*keys) + 1)
    return Counter(map(str, ranked.select(*Bid._fields, "rank").to_dicts()))


@pytest.mark.parametrize(("keys", "smallest"), share(2, [("item",), ("item", "bidder")], [False, True]))
def test_the_newest_list_of_each_key_equals_polars(*, keys: tuple[str, ...], smallest: bool) -> None:
    for seed in range(3):
        windows = windows_of(seed)
        expected = by_polars(windows, keys, smallest=smallest)
        for partitions in (1, 2, 3, 5):
            app = application(windows, *keys, partitions=partitions, smallest=smallest)
            assert latest(run_local(app).collected("sink"), keys) == expected
        app = application(windows, *keys, partitions=2, smallest=smallest)
        assert latest(run_local(app, faults=Faults(seed)).collected("sink"), keys) == expected
        changes = {2: [Repartition("top", 3)], 5: [Repartition("top", 2)], 8: [Repartition("top", 1)]}
        changed = run_local(app, changes=changes)
        assert [change.state for change in changed.changes] == ["APPLIED"] * 3
        assert latest(changed.collected("sink"), keys) == expected


def test_faults_name_the_column_and_the_remedy() -> None:
    app = Application("faulty")
    bids = app.read("bids", ListInput(Bid, []))
    bids.group_by("item").top("a", 3, by="cent").write("a_out")
    bids.rename("ranks", {"place": "rank"}).group_by("item").top("b", 3, by="cents").write("b_out")
    texts = [str(fault) for fault in find_faults(app)]
    assert any("`cent`" in text and "did you mean `cents`?" in text for text in texts)
    assert any("the stream has a column `rank` already; rename it before" in text for text in texts)
