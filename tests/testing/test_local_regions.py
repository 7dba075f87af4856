"""Applications of several regions in process: results are those of one region, whatever fails."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline import Application, DeadLetter, InputPort, KeyedState, Operator, OutputPort
from ridgeline.api.errors import ChangeError, CheckpointError, RidgelineError
from ridgeline.operators import Filter, Windowed, aggregate, tumbling
from ridgeline.plan.edits import RemoveOperator, RenameOperator, Repartition, SetProperty
from ridgeline.testing import END_WINDOW, CollectorSink, Faults, ListInput, run_local
from support.depth import deep

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Order(NamedTuple):
    customer: str
    number: int
    time: datetime


class Total(NamedTuple):
    customer: str
    number: int
    total: int


class Sum(Operator):
    """The running sum of the numbers of each customer."""

    orders = InputPort(Order, key="customer")
    totals = OutputPort(Total)
    sums = KeyedState(int)

    @orders.process
    def add(self, order: Order) -> None:
        total = self.sums.get(order.customer, 0) + order.number
        self.sums[order.customer] = total
        self.totals.emit(Total(order.customer, order.number, total))


def orders(random: Random, count: int) -> list[Any]:
    found: list[Any] = []
    for number in range(count):
        late = random.choice((0, 0, 0, 2))
        found.append((f"c{random.randrange(5)}", number, BEGIN + timedelta(seconds=number - late)))
        if random.random() < 0.1:
            found.append(END_WINDOW)
    return found


def is_even(order: Order) -> bool:
    return order.number % 2 == 0


class Check(Operator):
    """Fails on each seventh order. It is divided by customer, so theirs stay in order."""

    orders = InputPort(Order, key="customer")
    checked = OutputPort(Order)

    @orders.process
    def check(self, order: Order) -> None:
        if order.number % 7 == 0:
            raise ValueError("seven")
        self.checked.emit(order)


def application(rows: list[Any], random: Random, decoupled: set[str]) -> Application:
    """Sums, minutes and even orders of one source; `decoupled`: the streams that are."""

    def parts() -> int:
        return random.choice((1, 2, 3))

    app = Application("shop", window="100ms", recovery_attempts=50)
    source = app.add_operator("source", ListInput(Order, rows, "time", lateness="5s"))
    first = app.add_operator("first", Check(), partitions=parts(), on_error="SKIP")
    sums = app.add_operator("sums", Sum(), partitions=parts())
    values = {"begin": aggregate.window_start(), "orders": aggregate.count(), "sum": aggregate.sum("number")}
    minutes = app.add_operator(
        "minutes", Windowed(tumbling("10s"), key="customer", values=values), partitions=parts()
    )
    even = app.add_operator("even", Filter(is_even), partitions=parts())
    app.add_stream("orders", source.output, first.orders, decoupled="orders" in decoupled)
    inner = {"sums": sums.orders, "minutes": minutes.input, "even": even.data}
    app.add_stream(
        "small", first.checked, *inner.values(), decoupled={inner[one] for one in decoupled & inner.keys()}
    )
    for name, port in (("totals", sums.totals), ("windows", minutes.output), ("evens", even.output)):
        sink = app.add_operator(f"{name}_sink", CollectorSink())
        app.add_stream(name, port, sink.input, decoupled=name in decoupled)
    letters: CollectorSink[DeadLetter] = CollectorSink(DeadLetter)
    app.dead_letters(letters)
    return app


STREAMS = ("orders", "sums", "minutes", "even", "totals", "windows", "evens")


def check(rows: list[Any], found: dict[str, list[Any]]) -> None:
    """Compare with plain loops."""
    all_orders = [Order(*row) for row in rows if row is not END_WINDOW]
    kept = [order for order in all_orders if order.number % 7]
    totals: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for order in kept:
        before = totals[order.customer][-1][1] if totals[order.customer] else 0
        totals[order.customer].append((order.number, before + order.number))
    by_customer: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in found["totals_sink"]:
        by_customer[row["customer"]].append((row["number"], row["total"]))
    assert by_customer == totals
    windows: dict[tuple[str, datetime], list[int]] = defaultdict(list)
    for order in kept:
        windows[
            order.customer, BEGIN + (order.time - BEGIN) // timedelta(seconds=10) * timedelta(seconds=10)
        ].append(order.number)
    assert sorted(
        (row["customer"], row["begin"], row["orders"], row["sum"]) for row in found["windows_sink"]
    ) == sorted(
        (customer, begin, len(numbers), sum(numbers)) for (customer, begin), numbers in windows.items()
    )
    assert sorted(row["number"] for row in found["evens_sink"]) == [
        one.number for one in kept if is_even(one)
    ]
    assert len(found["dead_letters"]) == len(all_orders) - len(kept)


SINKS = ("totals_sink", "windows_sink", "evens_sink", "dead_letters")


@settings(max_examples=deep(4), deadline=None)
@given(seed=st.integers(0, 2**32), decoupled=st.sets(st.sampled_from(STREAMS)))
def test_results_are_those_of_plain_loops(seed: int, decoupled: set[str]) -> None:
    random = Random(seed)
    rows = orders(random, 40)
    run = run_local(application(rows, random, decoupled))
    check(rows, {name: run.collected(name) for name in SINKS})


@settings(max_examples=deep(3), deadline=None)
@given(seed=st.integers(0, 2**32), decoupled=st.sets(st.sampled_from(STREAMS), min_size=1))
def test_whatever_fails(seed: int, decoupled: set[str]) -> None:
    random = Random(seed)
    rows = orders(random, 60)
    app = application(rows, random, decoupled)
    faults = Faults(seed, rate=0.1, kinds=("exception", "kill", "repeat", "restart"))
    run = run_local(app, faults=faults, interleave=seed % 1000)
    check(rows, {name: run.collected(name) for name in SINKS})


def fan(rows: int = 20, decoupled: str = "orders") -> Application:
    app = Application("fan", window="50ms")
    random = Random(1)
    source = app.add_operator("source", ListInput(Order, orders(random, rows)))
    fast = app.add_operator("fast", CollectorSink(Order))
    slow = app.add_operator("slow", Filter(is_even))
    store = app.add_operator("store", CollectorSink(Order))
    slowly = {slow.data} if decoupled == "orders" else False
    app.add_stream("orders", source.output, fast.input, slow.data, decoupled=slowly)
    app.add_stream("even", slow.output, store.input, decoupled=decoupled == "even")
    return app


def test_windows_of_all_regions_have_no_numbers() -> None:
    run = run_local(fan())
    with pytest.raises(RidgelineError, match=r"ask `run.regions\[...\]`"):
        print(run.window_ids)
    assert run.tuples_in("slow") == 20
    assert run.tuples_out("slow_") == 0


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '[{"name": "slow", "number": "first", "operators": ["slow"]}]',
        '[{"name": "source", "number": 0, "operators": []}, {"name": "slow", "number": 0, "operators": []}]',
    ],
)
def test_a_damaged_list_of_regions_is_named(tmp_path: Path, text: str) -> None:
    run_local(fan(), checkpoint=tmp_path, windows=1)
    (tmp_path / "regions.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"regions.json` is corrupt"):
        run_local(fan(), checkpoint=tmp_path)


@pytest.mark.parametrize("number", [0, 1])
def test_a_region_whose_checkpoint_is_gone_does_not_begin_again(tmp_path: Path, number: int) -> None:
    run_local(fan(), checkpoint=tmp_path, windows=1)
    rmtree(tmp_path / "regions" / str(number))
    with pytest.raises(CheckpointError, match=f"regions/{number}` is gone, the checkpoint of region"):
        run_local(fan(), checkpoint=tmp_path)


def test_other_regions_than_those_of_the_checkpoint_are_refused(tmp_path: Path) -> None:
    run_local(fan(), checkpoint=tmp_path / "two", windows=1)
    run_local(fan(decoupled=""), checkpoint=tmp_path / "one", windows=1)
    renamed = fan()
    renamed.set_region("other", renamed.operators[2].operator)
    for app, folder, text in (
        (fan(decoupled="even"), "two", "state cannot go from one to another"),
        (fan(decoupled=""), "two", "regions"),
        (fan(), "one", "regions"),
        (renamed, "two", "was called `slow`"),
    ):
        with pytest.raises(CheckpointError, match=text):
            run_local(app, checkpoint=tmp_path / folder)
    (tmp_path / "two" / "regions.json").unlink()
    with pytest.raises(CheckpointError, match="is missing, though the folder holds regions"):
        run_local(fan(), checkpoint=tmp_path / "two")


def test_one_region_is_started_again_from_a_window(tmp_path: Path) -> None:
    first = run_local(fan(40), checkpoint=tmp_path)
    windows = first.regions["slow"].window_ids  # type: ignore[attr-defined]
    assert len(windows) > 2
    again = run_local(fan(40), checkpoint=tmp_path, from_window=windows[0], region="slow")
    before = first.regions["slow"].collected("store", windows[0])  # type: ignore[attr-defined]
    assert again.collected("store") == first.collected("store")[len(before) :]
    assert again.collected("fast") == []


def test_a_window_to_start_from_needs_its_region(tmp_path: Path) -> None:
    run_local(fan(), checkpoint=tmp_path, windows=1)
    with pytest.raises(CheckpointError, match="give `--region` with `source`, `slow`"):
        run_local(fan(), checkpoint=tmp_path, from_window=0)
    with pytest.raises(CheckpointError, match="there is no region `slwo`"):
        run_local(fan(), checkpoint=tmp_path, from_window=0, region="slwo")


def test_a_change_is_of_the_region_that_has_its_operator() -> None:
    run = run_local(fan(40), changes={1: [Repartition("slow", 3)]})
    assert [asked.state for asked in run.changes] == ["APPLIED"]
    assert run.regions["slow"].plan.logical.operator("slow").attributes["partitions"] == 3  # type: ignore[attr-defined]
    assert sorted(run.collected("store")) == sorted(one for one in run.collected("fast") if is_even(one))
    for edit in (RenameOperator("orders_to_slow", "x"), RemoveOperator("orders_queue")):
        with pytest.raises(ChangeError, match="is an end of the queue between two regions"):
            run_local(fan(), changes={1: [edit]})
    with pytest.raises(ChangeError, match="leave its `readers` as it is"):
        run_local(fan(), changes={1: [SetProperty("orders_queue", "readers", [])]})
    with pytest.raises(ChangeError, match="leave its `path` as it is"):
        run_local(fan(), changes={1: [SetProperty("orders_queue", "path", "/tmp/elsewhere")]})
    with pytest.raises(ChangeError, match="of several regions"):
        run_local(fan(), changes={1: [Repartition("slow", 3), Repartition("fast", 2)]})


class Both(Sum):
    """Has a second input."""

    more = InputPort(Order, key="customer")

    @more.process
    def add_more(self, order: Order) -> None:
        self.add(order)


def test_a_region_reads_its_own_inputs_to_their_end_though_its_queue_has_ended(tmp_path: Path) -> None:
    rows = [("c", number, BEGIN) for number in range(40)]
    app = Application("shop", window="100ms")
    few = app.add_operator("few", ListInput(Order, rows[:1]))
    many = app.add_operator("many", ListInput(Order, [one for row in rows[1:] for one in (row, END_WINDOW)]))
    sums, sink = app.add_operator("sums", Both()), app.add_operator("sink", CollectorSink(Total))
    app.add_stream("a", few.output, sums.more, decoupled=True)
    app.add_stream("b", many.output, sums.orders)
    app.add_stream("c", sums.totals, sink.input)
    runs = [run_local(app, checkpoint=tmp_path, windows=windows) for windows in (1, None)]
    assert sorted(one.number for run in runs for one in run.collected("sink")) == list(range(40))
