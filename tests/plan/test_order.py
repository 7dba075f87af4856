"""The claims of docs/order.md."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline.api import (
    Application,
    InputPort,
    Operator,
    OutputPort,
)
from ridgeline.plan import find_notes
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, LocalRun, run_local


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
