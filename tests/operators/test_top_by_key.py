"""The largest tuples of each key: beside polars, in partitions, over failures and changes of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ridgeline import Application
from ridgeline.plan.validation import find_faults
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput


class Bid(NamedTuple):
    item: str | None
    bidder: int
    cents: float | None
    place: int


def application(
    windows: Sequence[Sequence[Bid]], *keys: str, partitions: int = 1, **options: Any
) -> Application:
    app = Application("tops", window="1s")
    bids = app.read("bids", ListInput(Bid, [item for window in windows for item in (*window, END_WINDOW)]))
    top = bids.group_by(*keys).top("top", 3, by="cents", partitions=partitions, **options)
    top.write("sink", CollectorSink())
    return app


def test_faults_name_the_column_and_the_remedy() -> None:
    app = Application("faulty")
    bids = app.read("bids", ListInput(Bid, []))
    bids.group_by("item").top("a", 3, by="cent").write("a_out")
    bids.rename("ranks", {"place": "rank"}).group_by("item").top("b", 3, by="cents").write("b_out")
    texts = [str(fault) for fault in find_faults(app)]
    assert any("`cent`" in text and "did you mean `cents`?" in text for text in texts)
    assert any("the stream has a column `rank` already; rename it before" in text for text in texts)
