"""Several windows in flight, in process: whatever the order, results are those of one window at a time."""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import pytest

from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.measure.events import WindowCommitted, WindowStarted
from ridgeline.testing import ABORT, END_WINDOW, CollectorSink, ListInput, LocalRun, run_local
from support.depth import deep

SEEDS = range(deep(3))


class Item(NamedTuple):
    key: str
    amount: int


class Sums(Operator):
    """Running sums by key; it fails in these attempts at windows."""

    data = InputPort(Item, key="key")
    out = OutputPort(Item)
    errors = OutputPort(Item, error=True, optional=True)
    sums = KeyedState(int, default=0)

    faults: Sequence[tuple[int, int]] = ()

    @data.process
    def add(self, item: Item) -> None:
        if (self.context.window_id, self.context.attempt) in self.faults:
            raise ValueError(f"in attempt {self.context.attempt}")
        self.sums[item.key] += item.amount
        if item.amount < 0:
            raise ValueError("negative")

    def end_window(self) -> None:
        for key, amount in self.sums.changed():
            self.out.emit(Item(key, amount))


class Latest(Operator):
    """The number of tuples so far, and of each application window."""

    data = InputPort(Item)
    out = OutputPort(Item)
    count = State(0)
    told = State(0)

    @data.process
    def take(self, item: Item) -> None:
        self.count += 1

    def end_window(self) -> None:
        self.out.emit(Item("new", self.count - self.told))
        self.told = self.count


def items(seed: int, windows: int = 10, *, aborts: int = 0) -> list:
    random = Random(seed)
    found: list = []
    for window in range(windows):
        found += [Item(random.choice("abcde"), random.randint(1, 9)) for _ in range(random.randint(0, 6))]
        if window in {3, 4, 7} and aborts:
            found.append(ABORT)
            aborts -= 1
        found.append(END_WINDOW)
    return found


def application(given: list, faults=(), *, last: type[Operator] = Latest, **attributes) -> Application:
    app = Application("app", window="100ms", snapshot_interval=3, windows_in_flight=5, window_work="1h")
    mode = {name: value for name, value in attributes.items() if name == "processing_mode"}
    source = app.add_operator("source", ListInput(Item, given))
    sums = app.add_operator("sums", Sums(faults=list(faults)), partitions=2, **attributes)
    latest = app.add_operator("latest", last(), application_window_count=3, **mode)
    sink = app.add_operator("sink", CollectorSink(Item), **mode)
    counts = app.add_operator("counts", CollectorSink(Item), **mode)
    app.add_stream("items", source.output, sums.data)
    app.add_stream("sums", sums.out, latest.data, sink.input, locality="NODE_LOCAL")
    app.add_stream("counts", latest.out, counts.input, locality="NODE_LOCAL")
    return app


def results(run: LocalRun) -> list:
    return [
        (window, run.collected("sink", window), run.collected("counts", window)) for window in run.window_ids
    ]


def most_in_flight(run: LocalRun) -> int:
    under_way, most = set(), 0
    for event in run.events:
        if isinstance(event, WindowStarted):
            under_way.add(event.window_id)
            most = max(most, len(under_way))
        elif isinstance(event, WindowCommitted):
            under_way.discard(event.window_id)
    return most


@pytest.mark.guide("002", "Streaming Computational Model")
@pytest.mark.parametrize("seed", SEEDS)
def test_results_are_those_of_one_window_at_a_time(seed):
    given = items(seed)
    expected = run_local(application(given))
    run = run_local(application(given), interleave=seed)
    assert results(run) == results(expected)
    assert (most_in_flight(expected), most_in_flight(run)) == (1, 5)
    assert run.retries == []


@pytest.mark.parametrize("seed", [3, 5, 6, *range(7, 4 + deep(3))])  # with many faults
def test_failures_and_lost_containers_leave_no_trace(seed):
    given = items(seed, aborts=seed % 4)
    faults = [(2, 0), (5, 0), (5, 1), (6, 0), (6, 1), (9, 0)][: seed % 7]
    expected = run_local(application(items(seed)))
    run = run_local(application(given, faults, recovery_attempts=9), interleave=seed)
    assert results(run) == results(expected)
    assert run.window_ids == sorted(run.window_ids)


@pytest.mark.parametrize("attributes", [{"on_error": "SKIP"}, {"processing_mode": "AT_MOST_ONCE"}])
@pytest.mark.parametrize("seed", range(deep(1)))
def test_tuples_and_windows_that_are_left_out_are_the_same_ones(seed, attributes):
    given = items(seed)
    given[7:7] = [Item("a", -5)]
    given.insert(2, Item("b", -1))
    app = application(given, recovery_attempts=0, **attributes)
    run = run_local(app, interleave=seed)
    expected = run_local(application(given, **attributes))
    assert results(run) == results(expected)
    assert run.errors("sums") == expected.errors("sums")
