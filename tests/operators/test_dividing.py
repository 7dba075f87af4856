from __future__ import annotations

import copy
import pickle
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from ridgeline import (
    Application,
    InputPort,
    KeyedState,
    Operator,
    OperatorError,
    OutputPort,
    ValidationError,
)
from ridgeline.operators import BucketTest, LimitRate, Sampler, Union
from ridgeline.plan.validation import validate
from ridgeline.testing import END_WINDOW, CollectorSink, CountSink, Faults, ListInput, run_local


class Number(NamedTuple):
    value: int


def passed(items: list[object], **given: float) -> list[list[int]]:
    """The values that pass in each window of a second."""
    app = Application("few", window="1s")
    parts = app.read("numbers", ListInput(Number, items)).process("few", LimitRate(**given))
    parts.output.write("sink", CollectorSink(Number))
    parts.rest.write("rest", CollectorSink(Number))
    run = run_local(app)
    found = [[row.value for row in run.collected("sink", window)] for window in run.window_ids]
    every = sorted(row.value for name in ("sink", "rest") for row in run.collected(name))
    assert every == sorted(item.value for item in items if isinstance(item, Number))
    return found


WINDOWS = [item for window in range(6) for item in (*(Number(10 * window + n) for n in range(8)), END_WINDOW)]


@pytest.mark.parametrize("rate", [1, 2, 5, 8, 100])
def test_so_many_a_second_pass_and_the_others_leave_elsewhere(rate: int) -> None:
    assert [len(window) for window in passed(WINDOWS, rate=rate)][:6] == [min(rate, 8)] * 6


def test_a_quiet_time_allows_a_burst() -> None:
    items = [Number(1), END_WINDOW, END_WINDOW, END_WINDOW, *map(Number, range(2, 12))]
    assert passed(items, rate=2, burst=5) == [[1], [], [], [2, 3, 4, 5, 6]]


class Both(NamedTuple):
    value: int
    text: str


def united(*inputs: Any, sink: Any = None) -> Application:
    app = Application("union")
    union = app.add_operator("union", Union(len(inputs)))
    for number, one in enumerate(inputs, 1):
        app.add_operator(f"source{number}", one)
        app.add_stream(f"in{number}", one.output, getattr(union, f"input_{number}"))
    end = app.add_operator("sink", sink or CollectorSink())
    app.add_stream("out", union.output, end.input)
    return app


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (pa.schema([("value", pa.int32()), ("text", pa.string())]), "column `value` is int64 and int32"),
        (pa.schema([("value", pa.int64())]), "only one of them has column `text`"),
        (object, "`object` cannot be read as"),
    ],
)
def test_other_columns_are_a_fault(other: Any, text: str) -> None:
    app = united(ListInput(Both, []), ListInput(other, []))
    with pytest.raises(ValidationError, match=f"`union.output`.*`input_1` and `input_2` differ: .*{text}"):
        validate(app)


def test_the_number_of_inputs_is_the_applications() -> None:
    with pytest.raises(ValidationError, match=r"union\.inputs.*cannot be changed from outside"):
        validate(united(ListInput(Both, [])), {"union.inputs": "3"})


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_have_the_ports(copied: Any) -> None:
    made = copied(Union(3))
    assert (made.inputs, made.input_3.name) == (3, "input_3")


class Sold(NamedTuple):
    shop: str
    number: int


SOLD = [Sold(f"shop {number % 40}", number) for number in range(400)]


def sampled(
    sampler: Sampler[Sold], partitions: int = 1, faults: Faults | None = None
) -> tuple[list[Sold], list[Sold]]:
    app = Application("sold")
    parts = app.read("source", ListInput(Sold, SOLD)).process("sampler", sampler, partitions=partitions)
    parts.output.write("some", CollectorSink(Sold))
    parts.rest.write("others", CollectorSink(Sold))
    run = run_local(app, faults=faults)
    return sorted(run.collected("some")), sorted(run.collected("others"))


class Nested(NamedTuple):
    tags: list[str]
    by_name: dict[str, float]


def test_tuples_with_nested_columns_are_chosen_too():
    nested = [Nested([f"{number}"], {"x": float(number)}) for number in range(100)]
    app = Application("nested")
    source = app.read("source", ListInput(Nested, nested))
    source.process("sampler", Sampler(share=0.5, seed=3)).output.write("sink", CollectorSink(Nested))
    found = run_local(app).collected("sink")
    assert found == run_local(app).collected("sink")
    assert 20 < len(found) < 80


def test_a_key_that_is_no_column_is_named():
    with pytest.raises(
        OperatorError, match="samples by the key `shopp`, which is no column; did you mean `shop`"
    ):
        sampled(Sampler(share=0.5, key="shopp"))


class Sale(NamedTuple):
    shop: str
    amount: float


class Sums(Operator):
    sold = InputPort(Sale, key="shop")
    sums = OutputPort(Sale)

    off: float = 0.0
    loses: str = ""

    totals = KeyedState(float, default=0.0)

    @sold.process
    def add(self, sold: Sale) -> None:
        self.totals[sold.shop] += sold.amount

    def end_window(self) -> None:
        for shop, total in self.totals.changed():
            if shop != self.loses:
                self.sums.emit(Sale(shop, total + self.off))


SHOPS = [f"shop {number}" for number in range(20)]
ITEMS = [item for window in range(3) for item in [*((shop, window + 0.5) for shop in SHOPS), END_WINDOW]][:-1]


def run(module: BucketTest, partitions: int = 1, **options: Any) -> Any:
    app = Application("sales")
    source = app.add_operator("source", ListInput(Sale, ITEMS))
    bucket = app.add_module("bucket", module, partitions=partitions)
    sink = app.add_operator("sink", CollectorSink(Sale))
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
