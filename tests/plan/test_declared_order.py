"""Input ports that declare what they need of the order of their tuples."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline.api import (
    Application,
    InputOperator,
    InputPort,
    KeyedState,
    Operator,
    OperatorError,
    Order,
    OutputPort,
    Partition,
    Partitioner,
)
from ridgeline.plan import find_faults, find_notes
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.plan.faulty import are
from support.rows import in_a_row


class Price(NamedTuple):
    symbol: str
    market: str
    price: int
    time: datetime


class Prices(InputOperator):
    prices = OutputPort(Price, timestamp="time")


class PricesBySymbol(Prices):
    prices = OutputPort(Price, timestamp="time", divided_by="symbol")


class Deal(Operator):
    """Without a key: divided round robin."""

    prices = InputPort(Price)
    out = OutputPort(Price)

    @prices.process
    def one(self, price: Price) -> None:
        self.out.emit(price)


class ByMarket(Deal):
    prices = InputPort(Price, key="market")
    prices.process(Deal.one)


class Along(Deal):
    prices = InputPort(Price, parallel=True)
    prices.process(Deal.one)


class Last(Operator):
    """The last price of each symbol."""

    prices = InputPort(Price, key="symbol", order=Order.KEPT)
    last = OutputPort(Price)

    held = KeyedState(Price)

    @prices.process
    def note(self, price: Price) -> None:
        self.held[price.symbol] = price

    def end_window(self) -> None:
        for _, price in self.held.changed():
            self.last.emit(price)


class LastByTime(Last):
    prices = InputPort(Price, key="symbol", order="BY_TIME")
    prices.process(Last.note)


class LastInMarket(Last):
    prices = InputPort(Price, key=("symbol", "market"), order="KEPT")
    prices.process(Last.note)


class Everywhere(Partitioner):
    def define_partitions(self, count: int, ports: Any) -> list[Partition]:
        return [Partition() for _ in range(count)]


def application(
    source: Operator, steps: list[tuple[Operator, dict[str, Any]]], last: Operator, **attributes: Any
) -> Application:
    app = Application("prices", **attributes.pop("application", {}))
    stream: Any = app.add_operator("source", source, **attributes)
    stream = stream.output if isinstance(source, ListInput) else stream.prices
    for number, (step, step_attributes) in enumerate(steps):
        added: Any = app.add_operator(f"step{number}", step, **step_attributes)
        app.add_stream(f"to{number}", stream, added.prices)
        stream = added.out
    sink: Any = app.add_operator("last", last)
    app.add_stream("prices", stream, sink.prices)
    app.add_stream("out", sink.last, app.add_operator("sink", CollectorSink(Price)).input)
    return app


TWO: dict[str, Any] = {"partitions": 2}


@pytest.mark.guide("004", "Passthrough vs End of Window tuples")
@pytest.mark.parametrize(
    ("source", "source_partitions", "steps", "last", "fault"),
    [
        (Prices(), 1, [(ByMarket(), {})], Last(), ""),
        (Prices(), 1, [(ByMarket(), TWO)], LastInMarket(), ""),  # the market is a part of its key
        (PricesBySymbol(), 2, [(Along(), {})], LastInMarket(), ""),
        (Prices(), 2, [(ByMarket(), TWO)], LastByTime(), ""),
        (Prices(), 1, [(Deal(), TWO)], LastByTime(), ""),
        (
            Prices(),
            2,
            [],
            Last(),
            "each of the 2 partitions of `source` .*give `source` one partition",
        ),
        (
            PricesBySymbol(),
            1,
            [(ByMarket(), TWO), (Along(), {})],
            Last(),
            "`step0` before it is divided by `market`, not by `symbol`; .*`step0` one partition",
        ),
        (
            Prices(),
            1,
            [(Deal(), TWO)],
            Last(),
            r"divided round robin among 2 partitions; .*key=...\)` in `Deal`, or give `step0` one partition",
        ),
        (
            Prices(),
            1,
            [(ByMarket(), {"partitions": 2, "partitioner": Everywhere()})],
            Last(),
            "each of the 2 partitions of `step0` before it gets all tuples; give `step0` one partition",
        ),
    ],
)
def test_a_plan_that_may_lose_the_order_is_refused(
    source: Operator,
    source_partitions: int,
    steps: list[tuple[Operator, dict[str, Any]]],
    last: Operator,
    fault: str,
) -> None:
    found = find_faults(application(source, steps, last, partitions=source_partitions))
    assert len(found) == bool(fault)
    for one in found:
        assert one.where == "last.prices"
        assert re.search(fault, str(one))


class Misdeclared(Prices):
    prices = OutputPort(Price, divided_by="simbol")


class Sorted(Last):
    prices = InputPort(Price, key="symbol", order="SORTED")  # type: ignore[call-overload]  # refused

    @prices.process
    def note_sorted(self, price: Price) -> None: ...


def test_wrong_declarations_are_refused() -> None:
    assert [str(fault) for fault in find_faults(application(Misdeclared(), [], Sorted()))] == [
        (
            "`source.prices`: its `divided_by` names the column `simbol`, which is not in "
            f"{LastByTime().prices.schema.describe()}; did you mean `symbol`?"
        ),
        "`last.prices`: there is no order 'SORTED'; known are `BY_TIME`, `KEPT`",
    ]
    app = application(Prices(), [], LastByTime(), application={"metrics_recording_level": "OFF"})
    assert are(
        find_faults(app),
        ["`last.prices`: the port takes its tuples in the ... set it to INFO, or leave it out"],
    )


START = datetime(2026, 1, 1, tzinfo=UTC)


def test_equal_times_stay_in_the_order_of_arrival_and_no_time_is_an_error() -> None:
    ties = [Price("a", "x", number, START) for number in range(20)]
    run = run_local(application(ListInput(Price, ties, timestamp="time"), [], LastByTime()))
    assert [price.price for price in run.collected("sink")] == [19]
    with pytest.raises(OperatorError) as caught:
        run_local(application(ListInput(Price, ties), [], LastByTime()))
    assert caught.value.failure.operator == "last"
    assert "port `prices` takes its tuples in the order of their times" in caught.value.failure.error
    assert "has none; emit it with `timestamp=`" in caught.value.failure.error


class Pass(Deal):
    """Passes on by key, some tuple by tuple, some as batches."""

    prices = InputPort(Price, key="symbol")
    batches: bool = False

    @prices.process
    def pass_on(self, price: Price) -> None:
        if self.batches and price.price % 3 == 0:
            self.out.emit_batch(pa.RecordBatch.from_pylist([price._asdict()]))
        else:
            self.out.emit(price)


def by_symbol(prices: list[Price]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for price in prices:
        found.setdefault(price.symbol, []).append(price.price)
    return found


@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.lists(
            st.builds(Price, st.sampled_from("abcd"), st.just("x"), st.integers(0, 99), st.just(START)),
            max_size=7,
        ),
        min_size=1,
        max_size=4,
    ),
    st.lists(
        st.tuples(st.sampled_from([1, 2, 3, 5, None]), st.booleans(), st.sampled_from([None, 2])),
        min_size=1,
        max_size=4,
    ),
)
def test_order_per_key_is_kept_from_source_to_sink(
    windows: list[list[Price]], steps: list[tuple[int | None, bool, int | None]]
) -> None:
    """The claims of docs/order.md."""
    chain: dict[str, Any] = {
        f"step{number}": (
            (Along(), {"unifier_limit": limit})
            if count is None
            else (Pass(batches=batches), {"partitions": count, "unifier_limit": limit})
        )
        for number, (count, batches, limit) in enumerate(steps)
    }
    items = [item for window in windows for item in (*window, END_WINDOW)]
    source, sink = ListInput(Price, items), CollectorSink(Price)
    run = run_local(in_a_row(Application("order", window="1s"), source=source, **chain, sink=sink))
    assert by_symbol(run.collected("sink")) == by_symbol([price for window in windows for price in window])
    found = [len(run.collected("sink", window)) for window in range(len(windows))]
    assert found == [len(window) for window in windows]
    assert not find_notes(run.plan.logical, run.plan.physical)
