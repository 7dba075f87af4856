"""A new version of an operator gets a share of the keys; its results are compared with the old one's."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort, ValidationError
from ridgeline.operators import BucketTest
from ridgeline.testing import END_WINDOW, CollectorSink, CountSink, ListInput, run_local


class Sold(NamedTuple):
    shop: str
    amount: float


class Sums(Operator):
    sold = InputPort(Sold, key="shop")
    sums = OutputPort(Sold)

    off: float = 0.0
    loses: str = ""

    totals = KeyedState(float, default=0.0)

    @sold.process
    def add(self, sold: Sold) -> None:
        self.totals[sold.shop] += sold.amount

    def end_window(self) -> None:
        for shop, total in self.totals.changed():
            if shop != self.loses:
                self.sums.emit(Sold(shop, total + self.off))


SHOPS = [f"shop {number}" for number in range(20)]
ITEMS = [item for window in range(3) for item in [*((shop, window + 0.5) for shop in SHOPS), END_WINDOW]][:-1]


def run(module: BucketTest, partitions: int = 1, **options: Any) -> Any:
    app = Application("sales")
    source = app.add_operator("source", ListInput(Sold, ITEMS))
    bucket = app.add_module("bucket", module, partitions=partitions)
    sink = app.add_operator("sink", CollectorSink(Sold))
    app.add_stream("sold", source.output, bucket.data)
    app.add_stream("sums", bucket.output, sink.input)
    for name in ("differences", "counts"):
        app.add_stream(name, getattr(bucket, name), app.add_operator(name, CollectorSink()).input)
    return run_local(app, **options)


def test_a_result_that_one_side_lacks_is_a_difference():
    module = BucketTest(Sums(), Sums(loses="shop 3"), key="shop", share=1.0)
    assert run(module).collected("differences", 1) == [
        {"window": 1, "key": "shop 3", "old": "amount=2.0", "new": ""}
    ]


def test_the_bucket_may_go_to_the_new_version_only():
    module = BucketTest(Sums(), Sums(off=100.0), key="shop", share=0.5, replace=True)
    found = run(module)
    amounts = [sold.amount for sold in found.collected("sink", 0)]
    assert len(amounts) == len(SHOPS)
    assert set(amounts) == {0.5, 100.5}
    assert found.collected("counts") == found.collected("differences") == []


def test_operators_with_several_ports_are_refused():
    with pytest.raises(
        ValidationError, match="takes operators with one input and one output port; `CountSink`"
    ):
        run(BucketTest(Sums(), CountSink(), key="shop"))
