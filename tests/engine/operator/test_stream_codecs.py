"""Codecs that serialise what containers send each other."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from threading import Lock
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from ridgeline.api import (
    Application,
    InputPort,
    KeyedState,
    Operator,
    OperatorError,
    OutputPort,
    Schema,
    StreamCodec,
    Tuples,
)
from ridgeline.plan import find_faults
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local

START = datetime(2026, 1, 1, tzinfo=UTC)


class Sale(NamedTuple):
    product: str
    cents: int
    time: datetime


class Json(StreamCodec):
    def encode(self, tuple: Sale) -> bytes:
        return json.dumps([tuple.product, tuple.cents, tuple.time.isoformat()]).encode()

    def decode(self, data: bytes) -> Sale:
        product, cents, time = json.loads(data)
        return Sale(product, cents, datetime.fromisoformat(time))


class Totals(Operator):
    sales = InputPort(Sale, key="product")
    totals = OutputPort(Sale)
    held = KeyedState(Sale)

    @sales.process
    def add(self, sale: Sale) -> None:
        before = self.held.get(sale.product)
        cents = sale.cents + (before.cents if before else 0)
        self.held[sale.product] = Sale(sale.product, cents, sale.time)

    def end_window(self) -> None:
        for _, total in self.held.changed():
            self.totals.emit(total)


def application(
    windows: Sequence[Sequence[Sale]],
    totals: Operator | None = None,
    *,
    codec: StreamCodec | None = None,
    port_codec: StreamCodec | None = None,
    **attributes: Any,
) -> Application:
    """Two stages by key, and a second reader of the first stage without a codec of its own."""
    items = [item for window in windows for item in (*window, END_WINDOW)]
    app = Application("sales", window="1s", stream_codec=codec)
    source = app.add_operator("source", ListInput(Sale, items, timestamp="time"))
    first: Any = app.add_operator("first", Totals(), partitions=3)
    second: Any = app.add_operator("totals", totals or Totals(), **attributes)
    if port_codec is not None:
        app.set_attribute(second.sales, stream_codec=port_codec)
    app.add_stream("sales", source.output, first.sales)
    app.add_stream(
        "summed", first.totals, second.sales, app.add_operator("beside", CollectorSink(Sale)).input
    )
    app.add_stream("totals", second.totals, app.add_operator("sink", CollectorSink(Sale)).input)
    return app


class Held:
    """Cannot be pickled."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.lock = Lock()


class Numbers(StreamCodec):
    def encode(self, tuple: Held) -> bytes:
        return str(tuple.number).encode()

    def decode(self, data: bytes) -> Held:
        return Held(int(data))


class Make(Operator):
    sales = InputPort(Sale)
    made = OutputPort(object)

    @sales.process
    def make(self, sale: Sale) -> None:
        self.made.emit(Held(sale.cents))


class Take(Operator):
    made = InputPort(object, codec=Numbers())
    sales = OutputPort(Sale)

    @made.process
    def take(self, held: Held) -> None:
        self.sales.emit(Sale("tea", held.number, START))


def test_a_codec_stands_in_for_pickle() -> None:
    app = Application("held", window="1s")
    source = app.add_operator("source", ListInput(Sale, [Sale("tea", number, START) for number in range(9)]))
    make = app.add_operator("make", Make())
    take = app.add_operator("take", Take(), partitions=3)
    sink = app.add_operator("sink", CollectorSink(Sale))
    app.add_stream("sales", source.output, make.sales)
    app.add_stream("made", make.made, take.made)
    app.add_stream("taken", take.sales, sink.input)
    assert sorted(sale.cents for sale in run_local(app).collected("sink")) == list(range(9))


class Lying(Json):
    """Some of its methods do what the test says."""

    def __init__(self, **methods: Any) -> None:
        vars(self).update(methods)


def fails(*_: Any) -> Any:
    raise ValueError("not today")


def other(_data: memoryview, count: int, schema: Schema) -> Tuples:
    return Tuples.of_batch(schema, pa.record_batch({"x": [1] * count}))


ONE, MANY = Sale("tea", 1, START), Sale("tea", "many", START)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("failed", "text", "methods"),
    [
        ("receive", "it made 0 tuples of 1", {"decode_all": lambda *_: []}),
        ("receive", "it made more tuples of 1", {"decode_all": lambda *_: itertools.repeat(ONE)}),
        ("receive", "cannot decode 1 tuples", {"decode_all": lambda *_: None}),
        ("receive", "cannot decode 1 tuples", {"decode": lambda _: MANY}),
        ("receive", "it made tuples of", {"decode_all": other}),
        ("receive", "ValueError: not today", {"decode": fails}),
        ("emit", "ValueError: not today", {"encode": fails}),
        ("emit", "made 7 of 1 tuples, which is no `bytes`", {"encode_all": lambda _: 7}),
        ("emit", "cannot encode 1 tuples", {"encode": lambda _: "text"}),
    ],
)
def test_a_codec_that_lies_is_an_error_with_operator_port_and_stream(
    failed: str, text: str, methods: dict[str, Any]
) -> None:
    app = application([[Sale("tea", 1, START)]], port_codec=Lying(**methods), partitions=2)
    with pytest.raises(OperatorError) as caught:
        run_local(app)
    assert caught.value.failure.callback == failed
    assert text in caught.value.failure.error
    assert "port `sales` of operator `totals` (stream `summed`)" in caught.value.failure.error


class OnlyEncode(StreamCodec):
    def encode(self, tuple: Any) -> bytes:
        return b""


class OnlyHash(StreamCodec):
    def hash(self, tuple: Any) -> int:
        return 1


def totals(codec: StreamCodec) -> Operator:
    class OfCodec(Totals):
        sales = InputPort(Sale, codec=codec)

        @sales.process
        def add(self, sale: Sale) -> None: ...

    return OfCodec()


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (
            {"totals": totals(OnlyEncode())},
            "`totals.sales`: its codec `OnlyEncode` has `encode` but no `decode`; implement both",
        ),
        (
            {"totals": totals(StreamCodec())},
            (
                "`totals.sales`: its codec `StreamCodec` does nothing; "
                "implement `hash`, or `encode` and `decode`"
            ),
        ),
        (
            {"codec": OnlyHash()},
            (
                "`stream_codec`: attribute `stream_codec`: `OnlyHash` serialises nothing; "
                "implement `encode` and `decode`"
            ),
        ),
        (
            {"port_codec": OnlyHash()},
            (
                "`totals.sales.stream_codec`: attribute `stream_codec`: `OnlyHash` serialises nothing; "
                "implement `encode` and `decode`"
            ),
        ),
    ],
)
def test_codecs_that_cannot_serialise_are_refused(options: dict[str, Any], fault: str) -> None:
    assert [str(found) for found in find_faults(application([[]], **options))] == [fault]
