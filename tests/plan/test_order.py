"""The claims of docs/order.md."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline.api import (
    Application,
    InputOperator,
    InputPort,
    Operator,
    OutputPort,
    RoundRobinPartitioner,
    State,
)
from ridgeline.plan import find_notes
from ridgeline.testing import ABORT, END_WINDOW, CollectorSink, ListInput, LocalRun, run_local


class Event(NamedTuple):
    key: str
    number: int


class Pass(Operator):
    """Passes on by key, some tuple by tuple, some as batches, some at the end of its window."""

    events = InputPort(Event, key="key")
    out = OutputPort(Event)

    batches: bool = False

    @events.process
    def one(self, event: Event) -> None:
        if self.batches and event.number % 3 == 0:
            self.out.emit_batch(pa.RecordBatch.from_pylist([event._asdict()]))
        else:
            self.out.emit(event)


class Along(Pass):
    events = InputPort(Event, key="key", parallel=True)

    @events.process
    def along(self, event: Event) -> None:
        self.out.emit(event)


class Deal(Operator):
    events = InputPort(Event)
    out = OutputPort(Event)

    @events.process
    def one(self, event: Event) -> None:
        self.out.emit(event)


WINDOWS = [
    [Event("aab"[number % 3], number) for number in range(start, start + 10)] for start in range(0, 40, 10)
]


def items(windows: list[list[Event]], mark: object = None) -> list[Any]:
    return [
        item for window in windows for item in (*window, *([mark] if mark is not None else []), END_WINDOW)
    ]


def ran(
    steps: list[tuple[Operator, dict[str, Any]]],
    windows: list[list[Event]],
    *,
    mark: object = None,
    **source: Any,
) -> LocalRun:
    """A list through operators in a row to a sink."""
    app = Application("order", window="1s")
    stream: Any = app.add_operator("source", ListInput(Event, items(windows, mark)), **source).output
    for number, (operator, attributes) in enumerate(steps):
        step: Any = app.add_operator(f"step{number}", operator, **attributes)
        app.add_stream(f"to{number}", stream, step.events)
        stream = step.out
    app.add_stream("out", stream, app.add_operator("sink", CollectorSink(Event)).input)
    return run_local(app)


def by_key(events: list[Event]) -> dict[str, list[int]]:
    return {
        key: [event.number for event in events if event.key == key]
        for key in sorted({event.key for event in events})
    }


@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.lists(st.builds(Event, st.sampled_from("abcd"), st.integers(0, 99)), max_size=7),
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
    windows: list[list[Event]], steps: list[tuple[int | None, bool, int | None]]
) -> None:
    chain: list[tuple[Operator, dict[str, Any]]] = [
        (Along(), {"unifier_limit": limit})
        if count is None
        else (Pass(batches=batches), {"partitions": count, "unifier_limit": limit})
        for count, batches, limit in steps
    ]
    run = ran(chain, windows)
    assert by_key(run.collected("sink")) == by_key([event for window in windows for event in window])
    assert [len(run.collected("sink", window)) for window in range(len(windows))] == [
        len(window) for window in windows
    ]
    assert not find_notes(run.plan.logical, run.plan.physical)


def test_one_partition_keeps_the_order_of_the_stream() -> None:
    run = ran([(Pass(batches=True), {}), (Deal(), {})], WINDOWS)
    assert run.collected("sink") == [event for window in WINDOWS for event in window]


@pytest.mark.parametrize("partitions", [2, 3, 5])
@pytest.mark.parametrize("operator", [(Deal, {}), (Pass, {"partitioner": RoundRobinPartitioner()})])
def test_round_robin_loses_the_order_and_the_plan_says_so(
    partitions: int, operator: tuple[type[Operator], dict[str, Any]]
) -> None:
    kind, attributes = operator
    run = ran([(kind(), {"partitions": partitions, **attributes}), (Pass(), {})], WINDOWS)
    for number, window in enumerate(WINDOWS):
        assert Counter(run.collected("sink", number)) == Counter(window)  # each once, in its window
    assert by_key(run.collected("sink")) != by_key([event for window in WINDOWS for event in window])
    (note,) = find_notes(run.plan.logical, run.plan.physical)
    assert note.where == "step0"
    assert note.text.endswith("the order of a key's tuples is not kept from here on")


@pytest.mark.parametrize("partitions", [1, 2, 3])
def test_a_run_gives_the_same_order_again_and_so_does_a_retry(partitions: int) -> None:
    def steps() -> list[tuple[Operator, dict[str, Any]]]:
        return [(Deal(), {"partitions": partitions}), (Pass(), {"partitions": partitions}), (Along(), {})]

    clean, again, killed = ran(steps(), WINDOWS), ran(steps(), WINDOWS), ran(steps(), WINDOWS, mark=ABORT)
    assert len(killed.retries) == len(WINDOWS)
    assert clean.collected("sink") == again.collected("sink") == killed.collected("sink")


class Numbers(InputOperator):
    """Every partition its own key, ten numbers a window."""

    out = OutputPort(Event)

    window = State(0)

    def emit_tuples(self) -> None:
        for number in range(10):
            self.out.emit(Event("abcde"[self.context.partition], 10 * self.window + number))
        self.window += 1
        if self.window == 3:
            self.finish()


@pytest.mark.parametrize("partitions", [2, 3, 5])
def test_partitions_are_merged_window_by_window_in_their_order(partitions: int) -> None:
    app = Application("order", window="1s")
    numbers = app.add_operator("numbers", Numbers(), partitions=partitions)
    sink = app.add_operator("sink", CollectorSink(Event))
    app.add_stream("numbers", numbers.out, sink.input)
    run = run_local(app)
    expected = [
        [Event(key, number) for key in "abcde"[:partitions] for number in range(start, start + 10)]
        for start in (0, 10, 20)
    ]
    assert [run.collected("sink", window) for window in run.window_ids] == expected


class Both(Operator):
    """What comes on two ports."""

    first = InputPort(Event, key="key")
    second = InputPort(Event, key="key")
    out = OutputPort(Event)

    @first.process
    def on_first(self, event: Event) -> None:
        self.out.emit(Event(f"first {event.key}", event.number))

    @second.process
    def on_second(self, event: Event) -> None:
        self.out.emit(Event(f"second {event.key}", event.number))


@pytest.mark.guide("002", "Single vs Multi-Input Operator")
@pytest.mark.guide("004", "Single vs Multiple Inputs")
@pytest.mark.parametrize("partitions", [1, 2, 3, 5])
def test_each_stream_of_an_operator_keeps_its_own_order(partitions: int) -> None:
    app = Application("order", window="1s")
    source = app.add_operator("source", ListInput(Event, items(WINDOWS)))
    both = app.add_operator("both", Both(), partitions=partitions)
    app.add_stream("in", source.output, both.first, both.second)  # one stream into two ports
    app.add_stream("out", both.out, app.add_operator("sink", CollectorSink(Event)).input)
    found = by_key(run_local(app).collected("sink"))
    expected = by_key([event for window in WINDOWS for event in window])
    assert found == {
        f"{port} {key}": numbers for port in ("first", "second") for key, numbers in expected.items()
    }


class Last(Operator):
    """Each window's events of a key, at its end."""

    events = InputPort(Event, key="key")
    out = OutputPort(Event)

    seen: State[tuple[Event, ...]] = State(())

    @events.process
    def note(self, event: Event) -> None:
        self.seen = (*self.seen, event)

    def end_window(self) -> None:
        for event in self.seen:
            self.out.emit(event)
        self.seen = ()


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("partitions", [1, 2, 3, 5])
def test_application_windows_keep_the_order_per_key(partitions: int, count: int) -> None:
    run = ran(
        [
            (Last(), {"partitions": partitions, "application_window_count": count}),
            (Pass(), {"partitions": 2}),
        ],
        WINDOWS,
    )
    assert by_key(run.collected("sink")) == by_key([event for window in WINDOWS for event in window])
